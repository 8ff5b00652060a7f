"""Reports, ledgers and plans as JSON: random, deep, huge, repeated, of wrong types."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import apportion as ap
from apportion.accounts.ledgers import ledger_from_json, ledger_to_json
from apportion.recommend.preparation import Preparation
from tests.fuzz.harness import Fuzz, examples, mutated, seeds
from tests.fuzz.values import json as any_json

READERS: dict[str, Any] = {"report": ap.PrivacyReport.from_json, "ledger": ledger_from_json}


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    data = ap.simulate_interactions(users=60, items=6, rows=240)
    model = ap.MatrixFactorization(factors=2, epsilon=5.0, delta=1e-5)
    preparation = model.prepare(data)
    report = model.fit(data, preparation=preparation).privacy
    return {
        "report": report.to_json(),
        "ledger": ledger_to_json(report.ledger),
        "plan": preparation.to_json(),
    }


def read(kind: str, text: str, folder: Path) -> Any:
    if kind != "plan":
        found = READERS[kind](text)
        ledger_to_json(found) if kind == "ledger" else (str(found), found.to_json())
        return found
    (folder / "plan.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    found = Preparation.read(folder / "plan.json")
    found.to_json()
    return found


@pytest.mark.parametrize("kind", ["report", "ledger", "plan"])
@given(value=any_json)
@examples(60)
def test_anything(fuzz: Fuzz, tmp_path: Path, kind: str, value: Any) -> None:
    text = json.dumps(value)
    assert isinstance(fuzz.case(lambda: read(kind, text, tmp_path)), ap.DataError)


@pytest.mark.parametrize("kind", ["report", "ledger", "plan"])
@given(value=any_json, source=st.randoms(use_true_random=False))
@examples(120)
def test_one_value_replaced(
    fuzz: Fuzz, texts: dict[str, str], tmp_path: Path, kind: str, value: Any, source: random.Random
) -> None:
    values = json.loads(texts[kind])
    place: Any = values
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = source.choice(keys)
        if not isinstance(place[key], (dict, list)) or not place[key] or source.random() < 0.2:
            break
        place = place[key]
    if source.random() < 0.2:
        del place[key]
    else:
        place[key] = value
    fuzz.case(lambda: read(kind, json.dumps(values), tmp_path))


@pytest.mark.parametrize("kind", ["report", "ledger", "plan"])
def test_bytes_changed(fuzz: Fuzz, texts: dict[str, str], tmp_path: Path, kind: str) -> None:
    for source in seeds(120):
        text = mutated(texts[kind].encode(), source).decode("utf-8", "replace")
        fuzz.case(lambda: read(kind, text, tmp_path))


@pytest.mark.parametrize("kind", ["report", "ledger", "plan"])
@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 50_000, "1" * 10_000, "", "\0", '{"a":1,"a":2}']
)
def test_odd_text(fuzz: Fuzz, tmp_path: Path, kind: str, text: str) -> None:
    assert isinstance(fuzz.case(lambda: read(kind, text, tmp_path)), ap.DataError)


def test_plans_that_are_no_files(fuzz: Fuzz, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("link")
    for path in (tmp_path, tmp_path / "none", tmp_path / "link", tmp_path / "a\0b"):
        assert isinstance(
            fuzz.case(lambda: Preparation.read(path), also=(OSError,)),
            (ap.DataError, OSError),
        )
