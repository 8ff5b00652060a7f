"""A training is one file and one command, wherever it is run."""

import json
import logging
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import apportion as ap
from apportion.cli.config import to_toml
from apportion.errors import ApportionError
from tests.cli.test_commands import apportion
from tests.cli.test_recommend import interactions, run
from tests.installed import memory_group, read_only, setpriv


@pytest.fixture(scope="module")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "ratings.csv"
    interactions().write_csv(path)
    return path


def write(path: Path, **more: object) -> Path:
    options: dict[str, object] = {
        "rating-range": [1, 5],
        "items": "public",
        "factors": 2,
        "sweeps": 1,
        "epsilon": 2,
        **more,
    }
    path.write_text(to_toml(options))
    return path


def test_a_training_is_one_file_and_is_kept_beside_the_model(ratings: Path, tmp_path: Path) -> None:
    file = write(
        tmp_path / "t.toml", data=str(ratings), out=str(tmp_path / "m"), no_checkpoint=True
    )
    run("fit", "--config", file, "--epsilon", 3)
    assert ap.load(tmp_path / "m").privacy.epsilon == pytest.approx(3)  # typed goes first
    kept = tomllib.loads((tmp_path / "m" / "training.toml").read_text())
    assert kept == {
        "data": str(ratings),
        "out": str(tmp_path / "m"),
        "rating-range": [1.0, 5.0],
        "items": "public",
        "epsilon": 3.0,
        "factors": 2,
        "sweeps": 1,
    }
    run("fit", "--config", tmp_path / "m" / "training.toml", "--out", tmp_path / "again")
    inputs = [ap.load(tmp_path / name).privacy.public_inputs for name in ("m", "again")]
    assert inputs[0] == inputs[1]
    ap.load(tmp_path / "again").save(tmp_path / "m")  # another model: its options are not known
    assert not (tmp_path / "m" / "training.toml").exists()


def test_evaluate_and_prepare_take_files(ratings: Path, tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    options = {"data": str(ratings), "rating_range": [1, 5], "items": "public", "yes": True}
    file.write_text(to_toml({**options, "out": str(tmp_path / "first.json")}))
    run("prepare", "--config", file)
    assert (tmp_path / "first.json").exists()
    run("data", "split", ratings, "--csv", "--out", tmp_path)
    fit = write(tmp_path / "t.toml", data=str(tmp_path / "train.csv"), out=str(tmp_path / "m"))
    run("fit", "--config", fit)
    file.write_text(
        to_toml({"model": str(tmp_path / "m"), "data": str(tmp_path / "train.csv")})
        + to_toml({"test": str(tmp_path / "test.csv")})
    )
    assert 0 < json.loads(run("evaluate", "--config", file, "--json"))["rmse"] < 2


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("epsilom = 1", 1, "fit has no option 'epsilom'"),
        ("json = true", 1, "fit has no option 'json'"),
        ("rating-range = [1, 5]\nrating_range = [1, 4]", 1, "twice"),
        ("factors = 2.5", 2, "'--factors'"),
        ("factors = true", 1, "factors must be a value"),
        ("implicit = 'yes'", 1, "implicit must be true or false"),
        ("allocation = 'best'", 2, "'--allocation'"),
        ("[fit]\nepsilon = 1", 1, "fit has no option 'fit'"),
        ("data = {a = 1}", 1, "data must be a number, a text"),
        ("epsilon = ", 1, "is not TOML"),
        ("epsilon = 1\n\x00", 1, "is not TOML"),
    ],
)
def test_files_that_say_nothing_sensible(
    text: str, code: int, message: str, ratings: Path, tmp_path: Path
) -> None:
    (tmp_path / "t.toml").write_text(text)
    words = ["fit", str(ratings), "--out", "m", "--config", "t.toml"]
    result = apportion(*words, cwd=tmp_path)
    assert (result.returncode, message in " ".join(result.stderr.split())) == (code, True), result
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "m").exists()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ApportionError, match="cannot read"):
        run("fit", "--config", tmp_path / "none.toml")


def test_what_is_written_is_read_again() -> None:
    values = {
        "a": 'quotes " and \\',
        "b": "\x7f \x1f é 😀",
        "c": [1, 2.5, 1e-5],
        "d": True,
        "e": float("inf"),
    }
    assert tomllib.loads(to_toml(values)) == values


CONTAINER = """
import os, resource, sys
group = sys.argv.pop(1)
if group:
    with open(os.path.join(group, "cgroup.procs"), "w") as joined:
        joined.write(str(os.getpid()))
else:
    resource.setrlimit(resource.RLIMIT_DATA, (2**30, 2**30))
try:
    open(os.path.join(sys.argv[1], "apportion", "written"), "w")
except OSError:
    pass
else:
    sys.exit("the installation can be written")
installed = sys.argv.pop(1)
import apportion
from apportion.cli import main
from apportion.limits import memory
assert not group or memory() == 2**30, memory()
assert apportion.__file__.startswith(installed), apportion.__file__
main()
"""


def test_in_a_container(ratings: Path, tmp_path: Path) -> None:
    """No home, an installation that cannot be written, a control group of one gigabyte."""
    budget = tmp_path / "budget.db"
    ap.Budget.create(budget, ap.PrivacyTarget(5, 1e-5))
    more = {"data": str(ratings), "budget": str(budget), "label": "May", "out": "model"}
    write(tmp_path / "training.toml", **more)
    command = [*setpriv("--bounding-set=-dac_override"), sys.executable, "-c", CONTAINER]
    if os.geteuid() == 0 and len(command) == 3:
        pytest.skip("nothing here takes root's right to write everywhere")
    with read_only(tmp_path / "site") as installed, memory_group(2**30) as group:
        result = subprocess.run(
            [*command, str(group or ""), str(installed), "fit", "--config", "training.toml", "--json"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(installed), "TMPDIR": str(tmp_path)},
        )  # fmt: skip
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert result.stderr == ""
    [training] = ap.Budget(budget).history()
    model = ap.load(tmp_path / "model")
    assert model.privacy.trail is not None
    assert found["privacy"]["trail"] == model.privacy.trail.to_dict()
    assert (training.token, training.label) == (model.privacy.trail.training, "May")
    assert (training.output, training.digest) == (
        str(tmp_path / "model"),
        model.privacy.trail.digest,
    )
    assert training.ended is not None
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"budget.db", "model", "site", "training.toml"}  # no checkpoint is left
    assert (tmp_path / "model" / "training.toml").exists()


def test_the_log_has_public_facts(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    [handler] = logging.getLogger("apportion").handlers
    assert isinstance(handler, logging.NullHandler)
    budget = ap.Budget.create(tmp_path / "budget.db", ap.PrivacyTarget(5, 1e-5))
    said = []
    with caplog.at_level(logging.DEBUG, "apportion"):
        for users in (300, 301):
            caplog.clear()
            data = ap.simulate_interactions(users=users, items=20, rows=10 * users)
            model = ap.MatrixFactorization(factors=2, sweeps=2, epsilon=1.0)
            model.fit(data, budget=budget).save(tmp_path / "model")
            token = budget.history()[-1].token
            said.append([each.replace(token, "TOKEN") for each in caplog.messages])
    assert said[0] == said[1]
    text = "\n".join(said[0])
    for piece in (
        "epsilon = 1",
        "TOKEN is paid from",
        "sweep 2 of 2",
        "releases: ",
        "saved a model",
    ):
        assert piece in text
