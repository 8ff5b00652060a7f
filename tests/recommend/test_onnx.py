"""Serving: the exported graph gives the lists of ``recommend``; the examples of the how-to run."""

import importlib.util
import os
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.errors import ParameterError
from apportion.recommend.onnx import export_onnx, onnx_inputs

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/serve.md"
EXAMPLES = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def has(*names: str) -> bool:
    return all(importlib.util.find_spec(name) for name in names)


# Where these tests must not be left out, as in .ci/run.
if os.environ.get("APPORTION_NEEDS_ENGINES") and not has("onnx", "onnxruntime", "fastapi", "httpx"):
    raise RuntimeError("the tests of serving would be skipped: make engines")


def trained(feedback: Any) -> ap.MatrixFactorization:
    rated = (1.0, 5.0) if feedback == "explicit" else None
    data = ap.simulate_interactions(users=800, items=60, rows=15_000, rating_range=rated)
    return ap.MatrixFactorization(4, 2, feedback=feedback, epsilon=20.0).fit(data)


@pytest.mark.skipif(not has("onnx", "onnxruntime"), reason="onnx: make engines")
@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_the_graph_gives_the_lists_of_recommend(feedback: str, tmp_path: Path) -> None:
    onnxruntime = import_module("onnxruntime")
    model, path = trained(feedback), tmp_path / "model.onnx"
    export_onnx(model, path, k=7)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for ratings in ({3: 5.0, 8: 1.0, 11: 4.0}, {1: 2.0}, {5: 3.0, 9999: 4.0}):
        history = ratings if feedback == "explicit" else list(ratings)
        places, scores = session.run(None, onnx_inputs(model, history))
        ids, expected = model.recommend(history, k=7, unknown="ignore")
        assert model.item_ids[places[0]].tolist() == ids.tolist()
        np.testing.assert_allclose(scores[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(not has("onnx", "onnxruntime"), reason="onnx: make engines")
def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = ap.simulate_interactions(users=800, items=60, rows=15_000)
    model = ap.MatrixFactorization(4, 2, epsilon=20.0).fit(data)
    model.save("my-model")
    names: dict[str, Any] = {}
    exec(EXAMPLES[1], names)
    best = model.recommend({17: 5.0, 42: 1.0}, k=10)[0]
    assert model.item_ids[names["places"][0]].tolist() == best.tolist()


@pytest.mark.skipif(has("onnx"), reason="onnx is installed")
def test_without_the_package_it_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"apportion\[serving\]"):
        export_onnx(trained("explicit"), tmp_path / "model.onnx")


@pytest.mark.skipif(not has("fastapi", "httpx"), reason="fastapi: make engines")
@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_the_example_serves(feedback: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client_of = import_module("fastapi.testclient").TestClient
    model = trained(feedback)
    model.save(tmp_path / "m")
    monkeypatch.setenv("MODEL", str(tmp_path / "m"))
    served = ModuleType("serve")
    monkeypatch.setitem(sys.modules, "serve", served)  # where its types are looked up
    exec(EXAMPLES[0], vars(served))
    client = client_of(vars(served)["app"])
    ratings = {3: 5.0, 8: 1.0}
    asked = {"ratings": ratings} if feedback == "explicit" else {"items": list(ratings)}
    answer = client.post("/recommend?k=5", json=asked).json()
    ids, scores = model.recommend(ratings if feedback == "explicit" else list(ratings), k=5)
    assert answer["items"] == ids.tolist()
    np.testing.assert_allclose(answer["scores"], scores, rtol=1e-6)
    assert client.post("/recommend?k=1000", json=asked).status_code == 422
    assert "epsilon = 20" in client.get("/privacy").json()["guarantee"]
    if feedback == "explicit":
        assert client.post("/recommend", json={"ratings": {3: 99.0}}).status_code == 422
