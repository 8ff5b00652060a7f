"""A report that was edited is found out, also if the checksums were made to fit."""

import copy
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import apportion as ap
from apportion.errors import DataError
from apportion.recommend import contents
from apportion.recommend.verify import verify
from tests.cli.test_recommend import run

DATA = ap.simulate_interactions(users=300, items=20, rows=3000)
SMALL: dict[str, Any] = {"factors": 3, "sweeps": 2, "epsilon": 5.0}
TRAININGS: list[dict[str, Any]] = [
    {},
    {"feedback": "implicit"},
    {"catalogue": "private"},
    {"catalogue": ap.MostFrequent(0.5)},
    {"solver": "descent", "steps": 3},
    {"statistics": "per-task", "centring": "global"},
    {"allocation": ap.UniformSampling(5), "intercept_share": 0.0},
    {"allocation": ap.AdaptiveWeights(counts=ap.PublicCounts())},
    {"noise_seed": 1},
    {"epsilon": math.inf},
]
# Public settings that change neither the guarantee nor what is done with the folder.
HARMLESS = {"seed", "regularization", "learning_rate", "noise_ridge", "normalise"}


def save(folder: Path, **settings: Any) -> Path:
    ap.MatrixFactorization(**{**SMALL, **settings}).fit(DATA).save(folder)
    return folder


def passed(folder: Path) -> bool:
    try:
        return all(check.passed for check in verify(folder))
    except DataError:
        return False


def write_report(folder: Path, values: Any) -> None:
    """Replace the report, and make all checksums fit, as a forger would."""
    text = json.dumps(values).encode()
    (folder / contents.REPORT).write_bytes(text)
    settings = json.loads((folder / contents.SETTINGS).read_text())
    digests = {**settings["sha256"], contents.REPORT: contents._digest(text)}
    del digests[contents.SETTINGS]
    sealed = contents._sealed({**settings, "sha256": digests})
    (folder / contents.SETTINGS).write_text(json.dumps(sealed))


def leaves(values: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all numbers and truth values."""
    pairs = values.items() if isinstance(values, dict) else enumerate(values)
    for key, value in pairs:
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, key))
        elif not isinstance(value, str):
            yield (*path, key)


def at(values: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        values = values[key]
    return values


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("settings", TRAININGS, ids=lambda settings: "-".join(settings) or "plain")
def test_true_reports_pass_and_every_edited_number_is_found(
    tmp_path: Path, settings: dict[str, Any], every: int
) -> None:
    folder = save(tmp_path / "model", **settings)
    assert [check for check in verify(folder) if not check.passed] == []
    true = json.loads((folder / contents.REPORT).read_text())
    write_report(folder, true)
    assert passed(folder)
    harmless = set(HARMLESS)
    if settings.get("epsilon") == math.inf:  # there is no guarantee to be wrong about
        harmless |= {"sensitivity", "delta", "secret_noise", "intercept_share"}
    if settings.get("solver") == "descent":  # gradients have a bound of their own
        harmless.add("feature_bound")
    if settings.get("feedback") == "implicit":  # of ratings that do not count
        harmless.add("rating_range")
    edits = []
    for path in leaves(true):
        value = at(true, path)
        if value is None or harmless & set(path):
            continue
        others = (value * 1.01 + 1e-5, value / 2 - 1e-9, value + 1, -value - 1)
        edits += [(path, one) for one in ([not value] if isinstance(value, bool) else others)]
    assert len(edits) > 50
    for path, new in edits[::every]:
        forged = copy.deepcopy(true)
        at(forged, path[:-1])[path[-1]] = new
        write_report(folder, forged)
        assert not passed(folder), (path, new)


def test_forgeries_of_several_numbers_are_found(tmp_path: Path) -> None:
    folder = save(tmp_path / "model")
    true = json.loads((folder / contents.REPORT).read_text())

    def restated(values: Any) -> Any:
        """With everything that follows from the ledger computed again."""
        report = ap.PrivacyReport.from_json(json.dumps(values))
        return json.loads(report.to_json())

    for change in range(9):
        forged = copy.deepcopy(true)
        records = forged["ledger"]["records"]
        if change == 0:  # a release is left out
            del records[0]
        elif change == 1:  # the noise of all is said to be larger
            for record in records:
                record["noise_scale"] *= 2
        elif change == 2:  # sensitivity and noise together
            for record in records:
                record["sensitivity"] /= 2
                record["noise_scale"] /= 2
        elif change == 3:  # another target than was kept to
            forged["ledger"]["target"]["epsilon"] = 50.0
        elif change == 4:  # a larger delta, for a smaller epsilon
            forged["ledger"]["target"]["delta"] = 1e-3
        elif change == 5:  # a sweep less
            forged["ledger"]["records"] = records[:-2]
            forged["public_inputs"]["sweeps"] = 1
        elif change == 6:  # budget moved from one release to another
            records[0]["noise_scale"] *= 2
            records[-1]["noise_scale"] *= 0.98
        elif change == 7:  # fewer items
            forged["public_inputs"]["catalogue"] = "PublicCatalogue(): 19 items"
        else:  # an allocation that is none
            forged["public_inputs"]["allocation"] = "__import__('os').getcwd()"
        try:
            write_report(folder, restated(forged))
        except DataError:
            continue  # cannot even be read
        assert not passed(folder), change
    write_report(folder, restated(true))
    assert passed(folder)


def test_warnings_and_neighbours_cannot_be_dropped(tmp_path: Path) -> None:
    allocation = ap.AdaptiveWeights(counts=ap.PublicCounts())
    folder = save(tmp_path / "model", allocation=allocation)
    true = json.loads((folder / contents.REPORT).read_text())
    for name, value in (("warnings", []), ("neighbouring", "add or remove one user")):
        write_report(folder, {**true, name: value})
        assert not passed(folder)


def test_another_models_report_is_found(tmp_path: Path) -> None:
    folder, other = save(tmp_path / "a"), save(tmp_path / "b", factors=4)
    write_report(folder, json.loads((other / contents.REPORT).read_text()))
    assert not passed(folder)


def test_the_command_line_says_so(tmp_path: Path) -> None:
    folder = save(tmp_path / "model")
    assert "verified: epsilon = 5 at delta = 1e-05" in run("report", folder, "--verify")
    values = json.loads(run("report", folder, "--verify", "--json"))
    assert values["verified"] is True
    true = json.loads((folder / contents.REPORT).read_text())
    write_report(folder, {**true, "epsilon": 0.5})
    output = run("report", folder, "--verify", code=1)
    assert "NOT VERIFIED" in output
    assert "epsilon is said to be 0.5, but the ledger gives 4.99" in output
    values = json.loads(run("report", folder, "--verify", "--json", code=1))
    assert (values["verified"], values["verdict"]) == (False, None)
    true["epsilon"] = 0.6
    (folder / contents.REPORT).write_text(json.dumps(true))
    with pytest.raises(DataError, match="damaged"):
        run("report", folder, "--verify")
