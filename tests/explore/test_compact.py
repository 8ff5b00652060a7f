"""Smaller vectors: what the page reads is what was rounded, and the loss is measured."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import apportion as ap
from apportion.explore import compact, exact
from apportion.folders.kinds import ITEMS, SETTINGS
from apportion.recommend.contents import pack
from apportion.recommend.recommender import Recommender
from tests.cli.test_recommend import run
from tests.explore.models import changed, film_model, wider


@pytest.mark.parametrize(("kind", "bits", "error"), [("float16", 16, 2**-11), ("int8", 8, 1 / 254)])
@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
def test_vectors_are_rounded_and_the_loss_is_small(
    kind: Any, bits: int, error: float, feedback: str
) -> None:
    model = changed(film_model(feedback=feedback), {}, items=wider(4, 60, 16))
    files, lost = compact(model.released, kind)
    tensors = safetensors.numpy.load(files[ITEMS.file])
    assert tensors["items"].itemsize * 8 == bits
    items = tensors["items"].astype(np.float32)
    if kind == "int8":
        items *= tensors["items.scales"][:, None]
    largest = np.abs(model.items).max(axis=1, keepdims=True)
    assert (np.abs(items - model.items) <= 1.01 * error * largest).all()
    assert 0.8 < lost.same <= 1.0
    assert 0 < lost.largest < 0.3
    # It is what recommending from the rounded vectors gives.
    other = Recommender(replace(model.released, items=items))
    history: Any = {100: 5.0, 101: 3.0} if feedback == "explicit" else [100, 101]
    change = model.predict(history, model.item_ids) - other.predict(history, model.item_ids)
    assert np.abs(change).max() < 10 * lost.largest


def test_the_page_has_the_vectors_of_the_model_and_less_of_the_rest() -> None:
    model = changed(film_model(intercepts=True), {}, items=wider(4, 60, 16))
    files = exact(model.released)
    whole = safetensors.numpy.load(pack(model.released)[ITEMS.file])
    tensors = safetensors.numpy.load(files[ITEMS.file])
    assert set(tensors) == set(whole)
    for name, values in tensors.items():
        np.testing.assert_allclose(values, whole[name], rtol=1e-7 if name == "counts" else 0)
    assert (tensors["items"] == model.items).all()
    smaller = sum(whole[name].nbytes - tensors[name].nbytes for name in whole)
    assert smaller == 60 * (7 + 4 + 7)  # ids, counts and sizes of titles


def test_nothing_is_lost_where_nothing_is_rounded() -> None:
    model = changed(film_model(), {}, items=np.ones((60, 2), np.float32))
    for kind in ("float16", "int8"):
        _, lost = compact(model.released, kind)
        assert (lost.same, lost.largest) == (1.0, 0.0)


def test_what_float16_cannot_hold_is_refused() -> None:
    model = changed(film_model(), {}, items=np.full((60, 2), 1e6, np.float32))
    with pytest.raises(ap.ParameterError, match="int8"):
        compact(model.released, "float16")
    compact(model.released, "int8")


def test_the_command_says_what_is_lost_and_it_is_no_model(tmp_path: Path) -> None:
    film_model(intercepts=True).save(tmp_path / "films")
    arguments = ["explore", tmp_path / "films", "--compact", "int8", "--out", tmp_path / "site"]
    assert "are the same" in run(*arguments)
    values = json.loads(run(*arguments, "--json"))
    assert 0.5 < values["same"] <= 1
    assert "rounded to int8" in (tmp_path / "site/index.html").read_text()
    with pytest.raises(ap.DataError):
        ap.load(tmp_path / "site/model")
    settings = json.loads((tmp_path / "site/model" / SETTINGS).read_text())
    assert set(settings) == {"kind", "fold_in", "tastes"}


def test_groups_color_the_map(tmp_path: Path) -> None:
    film_model().save(tmp_path / "films")
    groups = tmp_path / "groups.csv"
    rows = [f"{100 + place},kind {place % 11}" for place in range(50)]
    groups.write_text("\n".join(["item,group", *rows, "9999,nobody"]))
    run("explore", tmp_path / "films", "--groups", groups, "--out", tmp_path / "site")
    found = json.loads((tmp_path / "site/groups.json").read_text())
    assert len(found["names"]) == 8
    assert found["names"][found["of"][0]] == "kind 0"
    assert found["of"][55] == -1
    assert len(found["of"]) == 60
    groups.write_text("item,group\n9999,nobody\n")
    with pytest.raises(ap.DataError, match="no item of the model has a group"):
        run("explore", tmp_path / "films", "--groups", groups, "--out", tmp_path / "site")
