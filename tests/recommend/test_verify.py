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
from apportion.folders import sealed
from apportion.folders.kinds import ITEMS, REPORT, SETTINGS
from apportion.recommend.verify import verify
from tests.cli.test_recommend import run

DATA = ap.simulate_interactions(users=300, items=20, rows=3000)
SMALL: dict[str, Any] = {"factors": 3, "sweeps": 2, "epsilon": 5.0}
TRAININGS: list[dict[str, Any]] = [
    {},
    {"feedback": "implicit"},
    {"catalog": "private"},
    {"catalog": ap.MostFrequent(0.5)},
    {"solver": ap.GradientDescent(steps=3)},
    {
        "solver": ap.SufficientStatistics(matrices="per-item"),
        "offsets": ap.Offsets(center="global"),
    },
    {"allocation": ap.UniformSampling(5), "offsets": ap.Offsets(intercept_share=0.0)},
    {"allocation": ap.AdaptiveWeights(counts=ap.PublicCounts())},
    {"noise_seed": 1},
    {"epsilon": math.inf},
]
each_training = pytest.mark.parametrize(
    "settings", TRAININGS, ids=lambda settings: "-".join(settings) or "plain"
)
some_edits = pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])


def save(folder: Path, **settings: Any) -> Path:
    ap.MatrixFactorization(**{**SMALL, **settings}).fit(DATA).save(folder)
    return folder


def passed(folder: Path) -> bool:
    try:
        return all(check.passed for check in verify(folder))
    except DataError:
        return False


def report_of(folder: Path) -> Any:
    return json.loads((folder / REPORT).read_text())


def described(folder: Path) -> Any:
    """What ``model.json`` says."""
    return json.loads((folder / SETTINGS).read_text())


def forge(folder: Path, report: Any = None, model: Any = None) -> None:
    """Replace the report or the settings, and make all checksums fit, as a forger would."""
    if report is not None:
        (folder / REPORT).write_text(json.dumps(report))
    values = described(folder) if model is None else model
    files = [name for name in ITEMS.files if name != SETTINGS]
    digests = {name: sealed.digest((folder / name).read_bytes()) for name in files}
    whole = sealed.sealed({**values, "sha256": digests})
    (folder / SETTINGS).write_text(json.dumps(whole))


def leaves(values: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all numbers, truth values, texts and nulls."""
    pairs = values.items() if isinstance(values, dict) else enumerate(values)
    for key, value in pairs:
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)


def at(values: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        values = values[key]
    return values


def edited(values: Any, path: tuple[Any, ...], new: Any) -> Any:
    changed = copy.deepcopy(values)
    at(changed, path[:-1])[path[-1]] = new
    return changed


def others(value: Any) -> list[Any]:
    """Values that a forger might put in the place of this one."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, float)):
        return [value * 1.01 + 1e-5, value / 2 - 1e-9, value + 1, -value - 1]
    return []


WORDS = {
    "feedback": ("explicit", "implicit"),
    "matrices": ("shared", "per-item"),
    "clip": ("user", "row"),
    "center": ("user", "global", "none"),
    "mode": ("normalize", "clip"),
    "method": ("scale", "sample"),
    "kind": ("AdaptiveWeights", "UniformSampling", "TailSampling", "PublicCounts", "PublicCatalog"),
    "epsilon": (1.0, 5.0),
    "label_bound": (0.5, 2.0),
    "users": (10,),
    "values": ([1.0] * 20,),
    "rating_range": ([1.0, 5.0],),
}


def other_settings(value: Any, name: str) -> list[Any]:
    """The same of settings, whose words mean something."""
    words = [word for word in WORDS.get(name, ()) if word != value]
    return others(value) + (words if isinstance(value, str) or value is None else [])


@some_edits
@each_training
def test_true_reports_pass_and_every_edited_number_is_found(
    tmp_path: Path, settings: dict[str, Any], every: int
) -> None:
    folder = save(tmp_path / "model", **settings)
    assert [check for check in verify(folder) if not check.passed] == []
    true = report_of(folder)
    forge(folder, true)
    assert passed(folder)
    # Of ratings that do not count, nothing is known.
    free = {"rating_range"} if settings.get("feedback") == "implicit" else set()
    if settings.get("epsilon") == math.inf:
        free.add("secret_noise")  # there is no noise
    edits = [
        (path, new)
        for path in leaves(true)
        if not free & set(path)
        for new in others(at(true, path))
    ]
    assert len(edits) > (20 if settings.get("epsilon") == math.inf else 50)
    for path, new in edits[::every]:
        forge(folder, edited(true, path, new))
        assert not passed(folder), (path, new)


ENDLESS = {
    "kind": "GradientDescent",
    "steps": 10**18,
    "gradient_bound": 1e-300,
    "learning_rate": 1.0,
}
# A released value; whatever it is, nothing can be said about it.
RELEASED = [("fold_in", "mean"), ("fold_in", "shrinkage")]


@some_edits
@each_training
def test_every_edited_setting_is_found(
    tmp_path: Path, settings: dict[str, Any], every: int
) -> None:
    # Of what is in ``model.json``: the report says otherwise, or the ledger has other releases.
    folder = save(tmp_path / "model", **settings)
    true = described(folder)
    edits = [
        (path, new)
        for part in ("training", "fold_in")
        for path in leaves(true[part], (part,))
        if path not in RELEASED and not unused(path, settings)
        for new in other_settings(at(true, path), path[-1])
    ]
    assert len(edits) > 40
    for path, new in edits[::every]:
        forge(folder, model=edited(true, path, new))
        assert not passed(folder), (path, new)
    forge(folder, model=true)
    assert passed(folder)


def unused(path: tuple[Any, ...], settings: dict[str, Any]) -> bool:
    """Whether this training does nothing with that setting."""
    names = set()
    if settings.get("epsilon") == math.inf:  # there is no noise, and nothing is bounded
        names |= {"feature_bound", "label_bound", "normalize", "shares", "mean_share", "target"}
    if settings.get("feedback") == "implicit":
        names |= {"label_bound", "center", "mean_share"} if path[0] == "training" else set()
    else:
        names.add("unobserved_weight") if path[0] == "training" else None
    return bool(names & set(path))


# What changes neither the guarantee nor what is done with the folder, and so may be said wrongly by
# somebody who writes it into the settings and the report alike.
HARMLESS = {"regularization", "normalize", "noise_ridge", "learning_rate", "unobserved_weight"}


def without_effect(path: tuple[Any, ...], settings: dict[str, Any]) -> bool:
    """Whether no release of this training depends on that setting."""
    explicit = settings.get("feedback") != "implicit"
    shared = "solver" not in settings
    names: set[Any] = {"gram_share"} if shared else {"users"}
    # Of training alone: what users' vectors are made with later has a name of its own.
    names |= {"user_regularization", "exponent"}
    if not shared and explicit:
        names.add("gramian")
    if not explicit:
        names.add("clip")
    return bool(names & set(path)) or bool(HARMLESS & set(path))


@pytest.mark.parametrize(
    "settings", TRAININGS[:-1], ids=lambda settings: "-".join(settings) or "plain"
)
def test_settings_that_the_report_repeats_do_not_hide_other_releases(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    # Both are forged alike; the ledger is what it was.
    folder = save(tmp_path / "model", **settings)
    report, true = report_of(folder), described(folder)
    public = set(report["public_inputs"])
    tried = 0
    for part in ("settings", "choice"):
        for path in leaves(true["training"][part]):
            if path[0] not in public or without_effect(path, settings) or unused(path, settings):
                continue
            if path[0] in ("allocation", "catalog"):
                continue  # in the report they are a text, see below
            for new in other_settings(at(true["training"][part], path), path[-1]):
                also = edited(report, ("public_inputs", *path), new)
                forge(folder, also, edited(true, ("training", part, *path), new))
                assert not passed(folder), (path, new)
                tried += 1
    assert tried > 20


def restated(values: Any) -> Any:
    """With everything that follows from the ledger computed again."""
    return json.loads(ap.PrivacyReport.from_json(json.dumps(values)).to_json())


def test_forgeries_of_several_numbers_are_found(tmp_path: Path) -> None:
    folder = save(tmp_path / "model")
    true, settings = report_of(folder), described(folder)
    for change in range(11):
        forged, model = copy.deepcopy(true), copy.deepcopy(settings)
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
            model["training"]["settings"]["target"]["epsilon"] = 50.0
        elif change == 4:  # a larger delta, for a smaller epsilon
            forged["ledger"]["target"]["delta"] = 1e-3
            model["training"]["settings"]["target"]["delta"] = 1e-3
        elif change == 5:  # a sweep less
            forged["ledger"]["records"] = records[:-2]
            forged["public_inputs"]["sweeps"] = 1
            model["training"]["choice"]["sweeps"] = 1
        elif change == 6:  # budget moved from one release to another
            records[0]["noise_scale"] *= 2
            records[-1]["noise_scale"] *= 0.98
        elif change == 7:  # fewer items
            forged["public_inputs"]["catalog"] = "PublicCatalog(): 19 items"
        elif change == 8:  # an allocation that is none
            model["training"]["settings"]["allocation"]["kind"] = "os.getcwd"
        elif change == 9:  # two releases in the other order
            records[0], records[1] = records[1], records[0]
        else:  # a release twice, each at half its cost
            records[0]["noise_scale"] *= 2**0.5
            records.insert(1, {**records[0], "name": "counts again"})
        try:
            forge(folder, restated(forged), model)
        except DataError:
            continue  # cannot even be read
        assert not passed(folder), change
    forge(folder, restated(true), settings)
    assert passed(folder)


def test_releases_of_another_kind_of_training_are_found(tmp_path: Path) -> None:
    # Each folder gets the settings of each of the others, and what its report says of them.
    kinds = [
        kind for kind in TRAININGS if kind.get("epsilon") != math.inf and "noise_seed" not in kind
    ]
    folders = [save(tmp_path / str(number), **kind) for number, kind in enumerate(kinds)]
    true = [(report_of(folder), described(folder)) for folder in folders]
    for mine, folder in enumerate(folders):
        for other in range(len(folders)):
            report = {**true[mine][0], "public_inputs": true[other][0]["public_inputs"]}
            forge(folder, report, {**true[mine][1], "training": true[other][1]["training"]})
            assert passed(folder) == (mine == other), (kinds[mine], kinds[other])


@pytest.mark.parametrize(
    "training",
    [
        {},
        {"settings": {}, "choice": {}},
        {"settings": None, "choice": None},
        {"settings": [], "choice": [1, 2]},
        {"settings": {"kind": "Choice", "factors": 3, "sweeps": 2, "intercept_share": 0.3}},
        {"settings": {"kind": ["Settings"]}, "choice": 0},
    ],
    ids=str,
)
def test_settings_that_describe_no_training_are_found(tmp_path: Path, training: Any) -> None:
    folder = save(tmp_path / "model")
    forge(folder, model={**described(folder), "training": training})
    assert any("describe a training" in check.what and check.wrong for check in verify(folder))


@pytest.mark.parametrize(
    ("path", "new"),
    [
        (("choice", "sweeps"), 10**9),
        (("choice", "factors"), 10**9),
        (("choice", "factors"), 3.5),
        (("choice", "sweeps"), "2"),
        (("choice", "intercept_share"), 1.0),
        (("settings", "target", "epsilon"), "inf"),
        (("settings", "target"), None),
        (("settings", "solver"), None),
        (("settings", "solver"), ENDLESS),
        (("settings", "feature_bound"), 1e-300),
        (("settings", "label_bound"), "0.5"),
        (("settings", "catalog"), {"kind": "PublicCatalog"}),
        (("settings", "allocation"), 7),
        (("settings", "shares", "users"), 0),
    ],
    ids=str,
)  # fmt: skip
def test_odd_settings_are_no_way_in(tmp_path: Path, path: tuple[str, ...], new: Any) -> None:
    # Found, or as they were; never an error of another kind, and never a long time.
    folder = save(tmp_path / "model")
    true = described(folder)
    forge(folder, model=edited(true, ("training", *path), new))
    assert passed(folder) == (at(true["training"], path) == new)


def test_warnings_and_neighbors_cannot_be_dropped(tmp_path: Path) -> None:
    allocation = ap.AdaptiveWeights(counts=ap.PublicCounts())
    folder = save(tmp_path / "model", allocation=allocation)
    true = report_of(folder)
    for name, value in (("warnings", []), ("neighboring", "add or remove one user")):
        forge(folder, {**true, name: value})
        assert not passed(folder)
    inputs = {**true["public_inputs"]}
    del inputs["task counts"]
    forge(folder, {**true, "public_inputs": inputs})
    assert not passed(folder)


def test_another_models_report_is_found(tmp_path: Path) -> None:
    folder, other = save(tmp_path / "a"), save(tmp_path / "b", factors=4)
    forge(folder, report_of(other))
    assert not passed(folder)
    forge(folder, report_of(other), {**described(folder), "training": described(other)["training"]})
    assert not passed(folder)


def test_the_command_line_says_so(tmp_path: Path) -> None:
    folder = save(tmp_path / "model")
    assert "verified: epsilon = 5 at delta = 1e-05" in run("report", folder, "--verify")
    values = json.loads(run("report", folder, "--verify", "--json"))
    assert values["verified"] is True
    true = report_of(folder)
    forge(folder, {**true, "epsilon": 0.5})
    output = run("report", folder, "--verify", code=1)
    assert "NOT VERIFIED" in output
    assert "epsilon is said to be 0.5, but the ledger gives 4.99" in output
    values = json.loads(run("report", folder, "--verify", "--json", code=1))
    assert (values["verified"], values["verdict"]) == (False, None)
    true["epsilon"] = 0.6
    (folder / REPORT).write_text(json.dumps(true))
    with pytest.raises(DataError, match="damaged"):
        run("report", folder, "--verify")
