"""The library passes; each planted fault does not.

A sound library fails one of these audits with probability at most 1e-6 each. How often each fault is
noticed is in docs/explanation/audit.md.
"""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.audit import NAMES, Effort, planned_runs, run
from apportion.data.ids import id_keys
from apportion.engine import session
from apportion.privacy import NoiseSource
from tests.audit.faults import FAULTS, audited, on_the_reference_engine
from tests.soundness.harness import plant

SAID = {
    "a count released but not recorded": "'counts' was released, but the ledger",
    "a count that comes past the releases": "the model differs",
    "a release besides the recorded one": "'gradients again' was released, but the ledger",
    "noise reused between two items": "not independent",
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_noticed(name: str) -> None:
    report = audited(FAULTS[name], planted=True)
    assert not report.passed
    assert SAID.get(name, "") in " ".join(found.what for found in report.findings)


@pytest.mark.parametrize("name", NAMES)
def test_the_library_passes(name: str) -> None:
    runs: list[None] = []
    effort = Effort(runs=40, crowd=100, rounds=4)
    report = run([name], effort=effort, on_run=lambda: runs.append(None))
    assert report.passed, report.to_json()
    assert len(runs) == planned_runs([name], effort)
    ledger_wide = [game for game in report.games if game.release == "everything"]
    assert all(game.claimed_epsilon == pytest.approx(10, rel=0.01) for game in ledger_wide)


def test_many_canaries_of_one_training_notice_labels_that_are_not_clipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    effort = Effort(runs=40, crowd=400, rounds=20)
    (sound,) = run(["ridge-per-task"], effort=effort).one_runs
    assert 0.5 < sound.mu_lower < sound.claimed_mu
    # Every label, also one at its bound, counts four times as much as it should.
    monkeypatch.setattr(session, "clip_values", lambda values, bound: 4 * values)
    (found,) = run(["ridge-per-task"], effort=effort).one_runs
    assert not found.passed


def test_noise_that_repeats_after_many_tasks_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    # The trainings with one canary have six tasks: only those of many canaries have more than a tile.
    source = NoiseSource._source

    def first_tile(self: NoiseSource, purpose: bytes, stream: str, step: int, tile: int) -> Any:
        return source(self, purpose, stream, step, 0)

    monkeypatch.setattr(NoiseSource, "_source", first_tile)
    report = run(["ridge-per-task"], effort=Effort(runs=40, crowd=150, rounds=1))
    assert "the noise of two tasks" in " ".join(found.what for found in report.findings)
    assert not report.passed


@pytest.mark.parametrize(("name", "which"), [("ridge", 0), ("ridge-per-task", 2), ("descent", 0)])
def test_a_user_who_is_no_canary_and_counts_double_is_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str, which: int
) -> None:
    on_the_reference_engine(monkeypatch)  # compiled kernels refuse weights above one

    def fault(honest: Any) -> Any:
        def favoring(self: Any, rule: Any) -> None:
            honest(self, rule)
            own = self._chosen.user_key[self._chosen.user] == id_keys(np.array([which]))[0]
            self._row_weight = np.where(own, 2 * self._row_weight, self._row_weight)

        return favoring

    plant(monkeypatch, "weigh", fault)
    report = run([name], effort=Effort(runs=40, crowd=8, rounds=0))
    assert "without one of the others" in " ".join(found.what for found in report.findings)
    assert not report.passed


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"names": ["nothing"]}, "must be among"),
        ({"names": []}, "must be among"),
        ({"epsilon": float("inf")}, "nothing to audit"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"alpha": 0.0}, "alpha"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ap.ParameterError, match=message):
        run(**settings)


def test_too_few_runs() -> None:
    with pytest.raises(ap.ParameterError, match="runs"):
        Effort(runs=3, crowd=100, rounds=1)


def test_json() -> None:
    report = run(["descent"], effort=Effort(40, 8, 0), canaries=["alone in a task"])
    values = json.loads(report.to_json())
    assert values["passed"] is True
    assert [game["release"] for game in values["games"]] == ["counts", "gradients", "everything"]
    assert all(game["passed"] for game in values["games"])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_bounds_are_tight(name: str) -> None:
    # `make audit` runs the long form itself.
    report = run([name], effort=Effort(runs=1000, crowd=1000, rounds=20))
    assert report.passed, report.to_json()
    best = max(game.mu_lower for game in report.games if game.release == "everything")
    assert best > 0.5 * report.games[-1].claimed_mu


@pytest.mark.slow
def test_a_count_that_is_not_recorded_shows_in_the_games_too() -> None:
    # Without a record it may cost nothing; with enough trainings it is seen to cost something.
    fault = replace(FAULTS["a count released but not recorded"], runs=2000)
    games = audited(fault, planted=True).games
    assert not next(game for game in games if game.release == "counts").passed


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_noticed_nearly_always(name: str) -> None:
    assert (
        sum(not audited(FAULTS[name], planted=True, seed=seed).passed for seed in range(20)) >= 19
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_false_alarms_are_as_rare_as_stated(name: str) -> None:
    # At a level of 5 %, more than 8 of 40 have a probability of 0.1 % (bounds are much safer than that).
    effort = Effort(runs=60, crowd=100, rounds=4)
    alarms = sum(not run([name], effort=effort, alpha=0.05, seed=s).passed for s in range(40))
    assert alarms <= 8
