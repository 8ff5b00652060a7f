"""Old models are judged by the rules of the version that wrote them, not by today's."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import apportion as ap
from apportion.accounts.declared import Declared
from apportion.accounts.formats import MODEL, PREPARATION, REPORT
from apportion.accounts.plan import Plan
from apportion.errors import DataError
from apportion.folders.comparing import declared_in
from apportion.privacy import Part, UserBound
from apportion.recommend import rules
from apportion.recommend.preparation import Preparation
from apportion.recommend.settings import Choice, Settings
from apportion.recommend.verify import verify
from tests.recommend.test_verify import described, forge
from tests.reports import undated

DATA = ap.simulate_interactions(users=300, items=20, rows=3000)


NOW = rules.PRESENT


def save(folder: Path, **settings: Any) -> Path:
    given: dict[str, Any] = {"factors": 3, "sweeps": 2, "epsilon": 5.0, **settings}
    ap.MatrixFactorization(**given).fit(DATA).save(folder)
    return folder


def wrong(folder: Path) -> list[str]:
    return [line for check in verify(folder) for line in check.wrong]


def second_plan(settings: Settings, choice: Choice) -> Plan:
    """As a later version might plan it: user counts have another bound."""
    plan = rules.RULES[NOW].plan(settings, choice)
    part = Part("users", "number of users, twice", UserBound(2.0, "a user counts twice"))
    users = replace(plan["users"], parts=(part,))
    return replace(
        plan, releases=tuple(users if one.name == "users" else one for one in plan.releases)
    )


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A model that the present build has saved."""
    return save(tmp_path / "old")


@pytest.fixture
def second(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that has later rules, and formats that are one higher, besides the first."""

    def add(values: dict[str, Any]) -> dict[str, Any]:
        return {**values, "training": {**values["training"], "migrated": True}}

    monkeypatch.setitem(rules.RULES, NOW + 1, replace(rules.RULES[NOW], plan=second_plan))
    monkeypatch.setattr(rules, "PRESENT", NOW + 1)
    for kind, step in ((MODEL, add), (REPORT, dict), (PREPARATION, dict)):
        for name, value in (("number", kind.number + 1), ("steps", {kind.number: step})):
            monkeypatch.setitem(vars(kind), name, value)


def test_a_model_is_judged_by_the_rules_that_it_names(old: Path, second: None) -> None:
    # By its own rules the old model is genuine; by the second ones it would not be.
    assert wrong(old) == []
    renumbered = described(old)
    renumbered["training"]["rules"] = NOW + 1
    forge(old, model=renumbered)
    assert any("users, parts, bound, because" in line for line in wrong(old))


def test_what_was_written_before_a_second_format_is_read_after_it(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = save(tmp_path / "model")
    preparation = ap.MatrixFactorization(epsilon=5.0).prepare(DATA)
    (tmp_path / "counts.json").write_text(preparation.to_json())
    before = ap.load(folder)
    request.getfixturevalue("second")
    after = ap.load(folder)
    assert after.released.training["migrated"] is True
    assert undated(after.privacy) == undated(before.privacy)
    assert after.recommend({3: 5.0})[0].tolist() == before.recommend({3: 5.0})[0].tolist()
    assert Preparation.read(tmp_path / "counts.json").users == preparation.users
    after.save(tmp_path / "again")
    assert described(tmp_path / "again")["format"] == MODEL.number


def test_what_a_second_version_wrote_is_refused_by_the_first_and_says_what_it_needs(
    tmp_path: Path,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(vars(MODEL), "number", MODEL.number + 1)
        patch.setitem(vars(MODEL), "needs", "0.7.0")
        patch.setitem(vars(MODEL), "steps", {})
        folder = save(tmp_path / "model")
    with pytest.raises(DataError, match=r"it needs apportion 0\.7\.0 or later"):
        ap.load(folder)


def test_rules_that_are_not_known_are_named(tmp_path: Path) -> None:
    folder = save(tmp_path / "model")
    newer = described(folder)
    newer["training"] |= {"rules": 7, "needs": "0.4.0"}
    forge(folder, model=newer)
    assert ap.load(folder).items.shape == (20, 3)
    assert any(
        "declared by rules 7" in line and "takes apportion 0.4.0" in line for line in wrong(folder)
    )


def test_a_declaration_that_does_not_follow_from_the_settings_is_found(tmp_path: Path) -> None:
    # The file's word is not taken, whatever the ledger says.
    folder = save(tmp_path / "model")
    true = described(folder)
    for part, name, value in (
        ("bound", "norm", 0.5),
        ("bound", "because", "a user counts half"),
        ("", "what", "something else"),
    ):
        forged = described(folder)
        [users] = [one for one in forged["training"]["releases"] if one["name"] == "users"]
        place = users["parts"][0][part] if part else users["parts"][0]
        place[name] = value
        forge(folder, model=forged)
        found = {check.what: check.wrong for check in verify(folder)}
        assert found["what was declared follows from the settings"], name
        forge(folder, model=true)
        assert wrong(folder) == []


def test_declared_releases_have_the_shapes_of_the_ledger(tmp_path: Path) -> None:
    for place, settings in enumerate(
        ({}, {"catalog": ap.MostFrequent(0.5)}, {"feedback": "implicit"}, {"solver": "descent"})
    ):
        model = ap.load(save(tmp_path / str(place), **settings))
        declared = declared_in(model.released.training)
        assert all(isinstance(one, Declared) and one.tasks for one in declared)
        names = [name for one in declared for name in one.part_names()]
        assert names == [record.name for record in model.privacy.ledger]
