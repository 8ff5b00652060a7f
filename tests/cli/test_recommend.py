"""``apportion fit``, ``evaluate``, ``recommend``, ``similar`` and ``report``, as a user runs them."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl
import pytest
from rich.progress import Progress
from typer.testing import CliRunner

from apportion.accounts.budget import Budget
from apportion.accounts.checkpoint import steps_done
from apportion.audit.observer import observed
from apportion.cli import app
from apportion.data import Interactions, simulate_interactions
from apportion.data.files import read_columns
from apportion.engine import CpuEngine, Engine, ReferenceEngine
from apportion.errors import ApportionError, DataError, ParameterError
from apportion.privacy import PrivacyTarget
from apportion.recommend import MatrixFactorization
from apportion.recommend.files import load
from apportion.recommend.recommender import Recommender
from tests.cli.test_commands import apportion
from tests.recommend.test_files import make_model, texts

QUICK = ["--factors", "4", "--sweeps", "2", "--epsilon", "20"]


def run(*arguments: object, code: int = 0, answer: str | None = None) -> str:
    """What a command prints. Errors that the command line would print in one line are raised."""
    words = [str(argument) for argument in arguments]
    result = CliRunner().invoke(app, words, input=answer, env={"COLUMNS": "150"})
    if isinstance(result.exception, ApportionError | OSError):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


@contextmanager
def watched(
    command: list[str], folder: Path | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """A process whose standard error is a terminal, and what is seen there."""
    ours, theirs = os.openpty()
    environment = {**os.environ, "COLUMNS": "150", "NO_COLOR": "1"}
    with (
        os.fdopen(ours, "rb", buffering=0) as seen,
        subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=theirs, env=environment
        ) as process,
    ):
        os.close(theirs)
        yield process, seen


def rest(seen: IO[bytes]) -> bytes:
    """What is still to be seen there, until the process ends."""
    said = b""
    with suppress(OSError):  # nobody writes there any more
        while piece := seen.read(1000):
            said += piece
    return said


def watch(*arguments: object) -> tuple[str, str]:
    """What somebody at a terminal sees on standard error, and what goes to standard output."""
    command = [sys.executable, "-m", "apportion", *map(str, arguments)]
    with watched(command) as (process, seen):
        said = rest(seen)
        found, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    return said.decode(), found.decode()


def interactions(explicit: bool = True) -> pl.DataFrame:
    """About 15 rows for each of 600 users, 40 items."""
    data = simulate_interactions(
        users=600, items=40, rows=9000, rating_range=(1.0, 5.0) if explicit else None
    )
    frame = pl.DataFrame({"user": data.user_of_row, "item": data.by_user.other.astype(np.int64)})
    if data.by_user.rating is None:
        return frame
    return frame.with_columns(pl.Series("rating", data.by_user.rating.round(1)))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of data and two trained models, one of ratings with titles, one of events."""
    folder = tmp_path_factory.mktemp("data")
    rated = interactions()
    rated.write_csv(folder / "ratings.csv")
    in_test = pl.Series(np.arange(len(rated)) % 10 == 0)
    rated.filter(~in_test).write_csv(folder / "train.csv")
    rated.filter(in_test).write_csv(folder / "test.csv")
    interactions(False).write_parquet(folder / "events.parquet")
    (folder / "items.txt").write_text("".join(f"{n}\n" for n in range(40)))
    titles = pl.DataFrame({"item": range(40), "title": [f"Film {n} [b]" for n in range(40)]})
    titles.write_csv(folder / "titles.csv")
    run(
        "fit", folder / "train.csv", "--rating-range", 1, 5, "--items", folder / "items.txt",
        "--titles", folder / "titles.csv", "--out", folder / "rated", *QUICK,
    )  # fmt: skip
    run(
        "fit", folder / "events.parquet", "--implicit", "--items", "public", "--out",
        folder / "events", *QUICK,
    )  # fmt: skip
    return folder


# --- fit ---


def test_fit_shows_plan_progress_report_and_place(here: Path, tmp_path: Path) -> None:
    seen, found = watch(
        "fit", here / "ratings.csv", "--rating-range", 1, 5, "--items", "public", "--out",
        tmp_path / "m", *QUICK,
    )  # fmt: skip
    for text, pieces in (
        (seen, ("plan for epsilon = 20", "2/2")),
        (found, ("privacy report", "not covered", "saved")),
    ):
        places = [text.index(piece) for piece in pieces]
        assert places == sorted(places)
    assert load(tmp_path / "m").privacy.epsilon == pytest.approx(20)


@pytest.mark.parametrize("name", ["ratings.csv", "train.csv", "events.parquet"])
def test_fit_prints_no_number_of_users_or_rows(here: Path, tmp_path: Path, name: str) -> None:
    options = ["--implicit"] if name == "events.parquet" else ["--rating-range", 1, 5]
    seen, found = watch(
        "fit", here / name, *options, "--items", "public", "--out", tmp_path / "m", *QUICK
    )  # fmt: skip
    frame = read_columns(here / name, ["user"], [])
    for private in (frame["user"].n_unique(), len(frame)):
        # As a number by itself: its digits may come by chance among those of another.
        itself = re.compile(rf"(?<![\w.])(?:{private}|{private:,})(?!\w|\.\d)")
        for output in (seen, found):
            assert not itself.search(output)


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ("--items private", "catalog", "PrivateCatalog("),
        ("--items public --top-share 0.5", "catalog", "MostFrequent(items=0.5"),
        ("--items public", "allocation", "AdaptiveWeights(exponent=0.1"),
        ("--items public --weight-exponent 0.5", "allocation", "AdaptiveWeights(exponent=0.5"),
        ("--items public --allocation uniform", "allocation", "AdaptiveWeights(exponent=0.0"),
        (
            "--items public --allocation uniform-sampling --k 5",
            "allocation",
            "UniformSampling(k=5",
        ),
        ("--items public --allocation tail-sampling --k 5", "allocation", "TailSampling(k=5"),
        ("--items public --regularization 2", "regularization", "2.0"),
        ("--items public --unobserved-weight 0.05", "unobserved_weight", "0.05"),
        ("--items public --feature-bound 0.5", "feature_bound", "0.5"),
        ("--items public --solver descent", "solver", "{'kind': 'descent'"),
        (
            "--items public --statistics per-item",
            "solver",
            "{'kind': 'ssp', 'matrices': 'per-item'",
        ),
    ],
)
def test_options_of_fit(here: Path, tmp_path: Path, options: str, name: str, value: str) -> None:
    run(
        "fit", here / "events.parquet", "--implicit", "--out", tmp_path / "m", "--delta", "1e-6",
        *options.split(), *QUICK,
    )  # fmt: skip
    model = load(tmp_path / "m")
    assert model.privacy.private
    assert model.privacy.delta == 1e-6
    assert str(model.privacy.public_inputs[name]).startswith(value)
    assert len(model.item_ids) == (20 if "--top-share" in options else 40) or "private" in options


def test_the_seed_is_that_of_the_first_items(here: Path, tmp_path: Path) -> None:
    exactly = ["--not-private", "--factors", 4, "--sweeps", 1, "--seed", 3]
    run("fit", here / "events.parquet", "--implicit", *exactly, "--out", tmp_path / "m")
    data = Interactions.from_path(here / "events.parquet", rating=None)
    model = MatrixFactorization(4, 1, "implicit", epsilon=math.inf, seed=3).fit(data)
    np.testing.assert_array_equal(load(tmp_path / "m").items, model.items)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ([], CpuEngine),
        (["--engine", "auto"], CpuEngine),
        (["--engine", "cpu"], CpuEngine),
        (["--engine", "reference"], ReferenceEngine),
    ],
)
def test_the_engine_is_chosen(
    here: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    kind: type[Engine],
) -> None:
    loaded = []
    for each in (CpuEngine, ReferenceEngine):

        def load_rows(self: Engine, rows: Any, load_rows: Any = each.load) -> Any:
            loaded.append(type(self))
            return load_rows(self, rows)

        monkeypatch.setattr(each, "load", load_rows)
    rated = ["--rating-range", 1, 5, "--items", "public", "--epsilon", 20, *options]
    run("prepare", here / "ratings.csv", *rated, "--yes", "--out", tmp_path / "first.json")
    sizes = ["--factors", 4, "--sweeps", 1]
    first = ["--preparation", tmp_path / "first.json"]
    run("fit", here / "ratings.csv", *rated, *sizes, *first, "--out", tmp_path / "m")
    assert loaded == [kind, kind]
    assert load(tmp_path / "m").privacy.private


def test_not_private(here: Path, tmp_path: Path) -> None:
    output = run(
        "fit", here / "ratings.csv", "--not-private", "--factors", 4, "--out", tmp_path / "m"
    )
    assert "NOT PRIVATE" in output
    assert not load(tmp_path / "m").privacy.private


def test_columns_and_positives(tmp_path: Path) -> None:
    frame = interactions().rename({"user": "who", "item": "what", "rating": "stars"})
    frame.write_parquet(tmp_path / "x.pq")
    run(
        "fit", tmp_path / "x.pq", "--user", "who", "--item", "what", "--rating", "stars",
        "--positives", 4, "--items", "public", "--out", tmp_path / "m", *QUICK,
    )  # fmt: skip
    assert load(tmp_path / "m").released.fold_in.feedback == "implicit"


def test_a_folder_of_parquet_files(here: Path, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    frame = pl.read_parquet(here / "events.parquet")
    frame[:4000].write_parquet(tmp_path / "parts" / "a.parquet")
    frame[4000:].write_parquet(tmp_path / "parts" / "b.parquet")
    run(
        "fit", tmp_path / "parts", "--implicit", "--items", "public", "--out", tmp_path / "m", *QUICK
    )  # fmt: skip
    assert len(load(tmp_path / "m").item_ids) == 40


def test_title_files(here: Path, tmp_path: Path) -> None:
    rows = [(1.0, "1917"), (2.0, None), (None, "none"), (99.0, "unknown")]
    pl.DataFrame(rows, schema=["item", "title"], orient="row").write_parquet(tmp_path / "t.pq")
    run(
        "fit", here / "events.parquet", "--implicit", "--items", "public", "--titles",
        tmp_path / "t.pq", "--out", tmp_path / "m", *QUICK,
    )  # fmt: skip
    titles = load(tmp_path / "m").released.titles
    assert titles is not None
    assert titles.tolist()[:4] == ["", "1917", "", ""]


def archive(path: Path) -> Path:
    """An archive like that of ml-1m."""
    rows = interactions().with_columns(pl.col("rating").round().cast(pl.Int64)).rows()
    with zipfile.ZipFile(path, "w") as file:
        lines = "".join(f"{user}::{item}::{rating}::0\n" for user, item, rating in rows)
        file.writestr("ml-1m/ratings.dat", lines)
        file.writestr("ml-1m/movies.dat", "".join(f"{n}::Film: {n}::Drama\n" for n in range(40)))
    return path


def test_a_known_data_set_brings_its_range_and_titles(tmp_path: Path) -> None:
    data = archive(tmp_path / "ml-1m.zip")
    run("fit", data, "--data-set", "ml-1m", "--out", tmp_path / "m", *QUICK)
    released = load(tmp_path / "m").released
    assert released.fold_in.rating_range == (1.0, 5.0)
    assert released.titles is not None
    assert released.titles[3] == "Film: 3"
    options = ["--positives", 4, "--top-share", 0.5]
    run("fit", data, "--data-set", "ml-1m", *options, "--out", tmp_path / "n", *QUICK)
    assert "recall@k" in run(
        "evaluate", tmp_path / "n", data, "--data-set", "ml-1m", "--positives", 4, "--hold-out", 50
    )


@pytest.mark.parametrize(
    ("catalog", "content", "data"),
    [
        ("items.txt", "1\n2\nx\n", [1, 2]),  # numbers in the data, text in the list
        ("items.txt", "1\r\n2\r\n\r\n", ["1", "2"]),
        ("items.csv", "item,price\n1,9\n2,9\n3,9\n", [1, 2]),
        ("items.csv", "item\n007\n1\n2\n", [1, 2]),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_catalog_files_agree_with_the_data(
    tmp_path: Path, catalog: str, content: str, data: list[Any], ending: str
) -> None:
    (tmp_path / catalog).write_text(content)
    frame = pl.DataFrame({"user": range(400), "item": data * 200})
    (frame.write_csv if ending == "csv" else frame.write_parquet)(tmp_path / f"x.{ending}")
    arguments = [
        "fit", tmp_path / f"x.{ending}", "--implicit", "--items", tmp_path / catalog, "--out",
        tmp_path / "m", *QUICK,
    ]  # fmt: skip
    text = "x" in content or "007" in content
    if ending == "parquet" and text and isinstance(data[0], int):
        with pytest.raises(DataError, match="the ids in item must be text to match"):
            run(*arguments)
        return
    run(*arguments)
    ids = load(tmp_path / "m").item_ids.tolist()
    listed = [line.split(",")[0] for line in content.split() if line != "item,price"]
    assert [str(item) for item in ids] == [line for line in listed if line != "item"]


def test_a_model_is_replaced_only_when_asked(here: Path, tmp_path: Path) -> None:
    arguments = ["fit", here / "events.parquet", "--implicit", "--items", "public", *QUICK]
    run(*arguments, "--out", tmp_path / "m")
    before = (tmp_path / "m" / "items.safetensors").read_bytes()
    with pytest.raises(ParameterError, match="holds a model already; --overwrite replaces it"):
        run(*arguments, "--out", tmp_path / "m")
    assert (tmp_path / "m" / "items.safetensors").read_bytes() == before
    run(*arguments, "--out", tmp_path / "m", "--overwrite")
    assert (tmp_path / "m" / "items.safetensors").read_bytes() != before


def test_a_trained_model_is_saved_even_if_nothing_can_be_printed_any_more(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Progress) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(Progress, "stop", broken)
    with pytest.raises(BrokenPipeError):
        run(
            "fit", here / "events.parquet", "--implicit", "--items", "public", "--out",
            tmp_path / "m", *QUICK,
        )  # fmt: skip
    load(tmp_path / "m")


@pytest.mark.parametrize("trouble", ["foreign", "file", "titles"])
def test_what_could_not_be_saved_is_not_trained(here: Path, tmp_path: Path, trouble: str) -> None:
    options: list[object] = []
    if trouble == "foreign":
        (tmp_path / "m").mkdir()
        (tmp_path / "m" / "notes").touch()
    elif trouble == "file":
        (tmp_path / "m").touch()
    else:
        (tmp_path / "titles.csv").write_text("item,name\n1,x\n")
        options = ["--titles", tmp_path / "titles.csv"]
    with observed() as seen, pytest.raises((DataError, NotADirectoryError)):
        run(
            "fit", here / "events.parquet", "--implicit", "--items", "public", "--out",
            tmp_path / "m", *options,
        )  # fmt: skip
    assert not seen.blocks


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["ratings.csv", "--items", "public"], "--rating-range 1 5"),
        (["ratings.csv", "--rating-range", "1", "5"], "which items exist can give a user away"),
        (["events.parquet", "--implicit", "--positives", "4"], "leave out --implicit"),
        (["x.zip", "--data-set", "ml-1m", "--user", "u"], "'--user'"),
        (["x.zip", "--data-set", "ml-1m", "--rating-range", "1", "5"], "knows its own range"),
        (["x.zip", "--data-set", "ml-1m", "--items", "items.txt"], "has its own list"),
        (["x.zip", "--data-set", "msd"], "add --implicit"),
        (["x.zip", "--data-set", "netflix"], "'--data-set'"),
        (["x", "--implicit", "--items", "private", "--top-share", "0.1"], "public list of items"),
        (["x", "--implicit", "--items", "public", "--k", "3"], "'--k'"),
        (["x", "--implicit", "--items", "public", "--allocation", "tail-sampling"], "needs --k"),
        (
            ["x", "--not-private", "--allocation", "uniform", "--weight-exponent", "0.5"],
            "'--weight-exponent'",
        ),
        (["x", "--implicit", "--not-private", "--epsilon", "1"], "'--not-private'"),
        (["x", "--factors", "0"], "'--factors'"),
        (["x", "--not-private", "--engine", "gpu"], "'--engine'"),
        (
            ["x", "--not-private", "--solver", "descent", "--statistics", "per-item"],
            "goes with --solver ssp only",
        ),
    ],
)
def test_wrong_usage_of_fit(tmp_path: Path, options: list[str], message: str) -> None:
    result = CliRunner().invoke(
        app, ["fit", *options, "--out", str(tmp_path / "m")], env={"COLUMNS": "500"}
    )
    assert (result.exit_code, message in result.output) == (2, True), result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["missing.csv", "--items", "public"], "there is no file or folder missing.csv"),
        (["ratings.csv", "--items", "missing.txt"], "there is no file or folder missing.txt"),
        (["ratings.csv", "--items", "few.txt"], "is not in the catalog"),
        (["ratings.csv", "--items", "public", "--epsilon", "0"], "epsilon must be a number"),
        (["ratings.csv", "--items", "public", "--top-share", "2"], "must be a number above 0"),
        (["ratings.csv", "--items", "public", "--rating", "stars"], "has no column 'stars'"),
        (["wide.csv", "--items", "public"], "is outside 1 to 5"),
    ],
)
def test_errors_of_fit_end_in_one_line(
    here: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "ratings.csv").write_bytes((here / "ratings.csv").read_bytes())
    (tmp_path / "wide.csv").write_text("user,item,rating\n1,2,9\n")
    (tmp_path / "few.txt").write_text("1\n2\n")
    result = apportion(
        "fit", *options, "--rating-range", "1", "5", "--out", "m", cwd=tmp_path
    )  # fmt: skip
    assert (result.returncode, message in result.stderr) == (1, True), result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "m").exists()


def test_an_interrupted_fit_leaves_nothing(here: Path, tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "apportion", "fit", str(here / "events.parquet"), "--implicit",
        "--items", "public", "--sweeps", "1000000", "--out", "m",
    ]  # fmt: skip
    with watched(command, tmp_path) as (process, seen):
        said = b""
        while b"plan for epsilon" not in said:  # and then training begins
            said += seen.read(1000)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        said += rest(seen)
        found, _ = process.communicate(timeout=60)
    assert process.returncode in (4, 130), said  # after the first release, before it
    assert b"interrupted" in said
    assert b"Traceback" not in said
    assert found == b""
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_at_the_end_loses_nothing(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    budget = Budget.create(tmp_path / "budget.db", PrivacyTarget(20, 1e-5))
    options = [
        "fit", here / "events.parquet", "--implicit", "--items", "public", *QUICK, "--budget",
        tmp_path / "budget.db", "--out", tmp_path / "m",
    ]  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr("apportion.folders.files.sync", full)
        with pytest.raises(OSError, match="No space"):
            run(*options)
        assert not budget.history()  # nothing is begun where nothing can be written
        patch.setattr("apportion.folders.files.try_target", lambda folder: False)
        with pytest.raises(OSError, match="No space") as caught:
            run(*options)
    assert budget.epsilon == pytest.approx(20)
    [place] = (tmp_path / "state" / "apportion").iterdir()
    assert str(place) in caught.value.__notes__[0]
    run(*options, "--checkpoint", place)
    assert load(tmp_path / "m").privacy.epsilon == pytest.approx(20)
    assert budget.epsilon == pytest.approx(20)
    assert not place.exists()


def full(file: int) -> None:
    raise OSError(28, "No space left on device")


def test_an_interrupted_fit_is_resumed_from_its_checkpoint(here: Path, tmp_path: Path) -> None:
    options = [
        "fit", str(here / "events.parquet"), "--implicit", "--items", "public", "--factors", "4",
        "--sweeps", "200", "--out", str(tmp_path / "m"), "--checkpoint", str(tmp_path / "going"),
    ]  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "apportion", *options], stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None and not steps_done(tmp_path / "going"):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 4, errors
    assert "Traceback" not in errors
    assert "spent before this: epsilon = " in errors
    assert f"with the checkpoint {tmp_path / 'going'}, resumes" in errors.replace("\n", "")
    done = steps_done(tmp_path / "going")
    assert 0 < done < 200
    assert json.loads(run(*options, "--json"))["resumed_after"] == done
    assert round(load(tmp_path / "m").privacy.epsilon, 6) == 1.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m"]


def test_a_model_that_was_finished_but_not_saved(here: Path, tmp_path: Path) -> None:
    options = [
        "fit", here / "events.parquet", "--implicit", "--items", "public", *QUICK,
        "--out", tmp_path / "m", "--checkpoint", tmp_path / "going",
    ]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recommender, "save", stop)
        with pytest.raises(DataError, match="no room"):
            run(*options)
    output = run(*options)
    assert "warning: the training in" in output
    assert "is finished" in output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m"]


def stop(*_: object) -> None:
    raise DataError("no room")


# --- evaluate ---


def test_evaluate_ratings(here: Path) -> None:
    arguments = ["evaluate", here / "rated", here / "train.csv", "--test", here / "test.csv"]
    output = run(*arguments)
    for piece in ("RMSE", "all", "least popular (tail)", "most popular (head)", "does not cover"):
        assert piece in output
    values = json.loads(run(*arguments, "--json"))
    assert 0 < values["rmse"] < 1.5
    assert len(values["rmse_by_bucket"]) == 5
    assert "does not cover" in values["note"]
    assert set(values["baselines"]) == {
        "mean of all ratings", "mean of the user", "mean of the item",
    }  # fmt: skip
    low, high = values["intervals"]["rmse"]
    assert low < values["rmse"] < high
    assert f"measured on {values['rows']} ratings of {values['users']} users" in output
    assert values["verdict"].split(" (")[0] in " ".join(output.split())


def test_evaluate_events_of_the_same_users(here: Path, tmp_path: Path) -> None:
    for name in ("train", "test"):  # their ratings do not count
        frame = pl.read_csv(here / f"{name}.csv").select("user", "item")
        frame.write_csv(tmp_path / f"{name}.csv")
    files = [tmp_path / "train.csv", "--test", tmp_path / "test.csv"]
    values = json.loads(run("evaluate", here / "events", *files, "-k", 5, "--json"))
    assert 0 < values["recall"] <= values["hit_rate"] <= 1
    assert list(values["baselines"]) == ["what is popular"]
    known, found = pl.read_csv(tmp_path / "train.csv"), pl.read_csv(tmp_path / "test.csv")
    model = load(here / "events")
    recalls = []
    for (user,), group in found.group_by("user"):
        history = known.filter(pl.col("user") == user)["item"].to_list()
        items, _ = model.recommend(history, k=5, unknown="ignore")
        recalls.append(len(set(items.tolist()) & set(group["item"])) / min(5, len(group)))
    assert values["users"] == len(recalls)
    assert values["recall"] == pytest.approx(np.mean(recalls), abs=1e-9)


def test_events_that_are_repeated_are_not_to_be_found(here: Path, tmp_path: Path) -> None:
    known = pl.read_csv(here / "train.csv").select("user", "item")
    found = pl.read_csv(here / "test.csv").select("user", "item")
    known.write_csv(tmp_path / "train.csv")
    outputs = []
    for name, frame in (("once", found), ("again", pl.concat([found, known.head(50)]))):
        frame.write_csv(tmp_path / f"{name}.csv")
        files = [tmp_path / "train.csv", "--test", tmp_path / f"{name}.csv"]
        outputs.append(run("evaluate", here / "events", *files, "--json"))
    assert outputs[0] == outputs[1]


def test_evaluate_agrees_with_predictions_user_by_user(here: Path, tmp_path: Path) -> None:
    model = load(here / "rated")
    train, test = (
        read_columns(here / f"{name}.csv", ["user", "item"], ["rating"]).filter(pl.col("user") < 20)
        for name in ("train", "test")
    )
    train.write_csv(tmp_path / "train.csv")
    test.write_csv(tmp_path / "test.csv")
    squares = []
    for (user,), group in test.group_by("user"):
        history = train.filter(pl.col("user") == user)
        ratings = dict(zip(history["item"], history["rating"], strict=True))
        predicted = model.predict(ratings, group["item"].to_list())
        squares += ((predicted - group["rating"].to_numpy()) ** 2).tolist()
    files = [tmp_path / "train.csv", "--test", tmp_path / "test.csv"]
    values = json.loads(run("evaluate", here / "rated", *files, "--json"))
    assert values["rmse"] == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-4)


def test_evaluate_events(here: Path) -> None:
    arguments = ["evaluate", here / "events", here / "events.parquet", "--hold-out", 100, "-k", 5]
    output = run(*arguments, "--history", 0.5)
    for piece in ("recall@k", "NDCG@k", "coverage@5", "least popular (tail)", "does not cover"):
        assert piece in output
    values = json.loads(run(*arguments, "--json"))
    assert values["k"] == 5
    assert 0 < values["recall"] <= 1


def test_evaluate_with_text_ids(tmp_path: Path) -> None:
    make_model(texts(["1", "2", "x"])).save(tmp_path / "m")
    (tmp_path / "a.csv").write_text("user,item,rating\n7,1,4\n7,2,3\n8,1,2\n")
    (tmp_path / "b.csv").write_text("user,item,rating\n7,x,4\n8,2,2\n")
    values = json.loads(
        run("evaluate", tmp_path / "m", tmp_path / "a.csv", "--test", tmp_path / "b.csv", "--json")
    )
    assert values["rmse"] > 0
    assert None in values["rmse_by_bucket"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rated", "train.csv"], "a file of ratings to predict"),
        (["rated", "train.csv", "--test", "test.csv", "-k", "3"], "'-k'"),
        (["rated", "train.csv", "--test", "test.csv", "--history", "0.5"], "'--history'"),
        (["events", "train.csv", "--test", "test.csv", "--history", "0.5"], "'--history'"),
        (["events", "events.parquet", "--hold-out", "0"], "'--hold-out'"),
    ],
)
def test_wrong_usage_of_evaluate(
    here: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(here)
    assert message in run("evaluate", *arguments, code=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rated", "train.csv", "--test", "train.csv"], "are in DATA too"),
        (["rated", "events.parquet", "--test", "test.csv"], "no column 'rating'"),
        (["events", "events.parquet", "--history", "0"], "history must be a number above 0"),
        (["events", "events.parquet", "--hold-out", "5000"], "fewer than 5000 users"),
        (["nothing", "events.parquet"], "there is no model folder nothing"),
        (["events", "others.csv"], "the model knows none of the items"),
    ],
)
def test_errors_of_evaluate(
    here: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(here)
    Path("others.csv").write_text("user,item\n1,1000\n")
    with pytest.raises(DataError if "must" not in message else ParameterError, match=message):
        run("evaluate", *arguments)


# --- recommend ---


def test_recommend_from_ratings(here: Path) -> None:
    arguments = ["recommend", here / "rated", "--history", "3=5, 7=1.5", "-k", 4]
    model = load(here / "rated")
    ids, scores = model.recommend({3: 5.0, 7: 1.5}, k=4)
    output = run(*arguments)
    for item, score in zip(ids, scores, strict=True):
        assert f"Film {item} [b]" in output
        assert f"{score:.3f}" in output
    values = json.loads(run(*arguments, "--json"))
    assert [row["item"] for row in values["recommendations"]] == ids.tolist()
    assert [row["score"] for row in values["recommendations"]] == scores.tolist()
    assert values["recommendations"][0]["title"] == f"Film {ids[0]} [b]"


def test_recommend_from_events(here: Path) -> None:
    values = json.loads(run("recommend", here / "events", "--history", "3,7", "--json"))
    ids, _ = load(here / "events").recommend([3, 7], k=10)
    assert [row["item"] for row in values["recommendations"]] == ids.tolist()
    assert "title" not in run("recommend", here / "events", "--history", "3,7")


def test_unknown_items_are_left_out_and_named(here: Path) -> None:
    output = run("recommend", here / "events", "--history", "3,77,78")
    assert "not known to the model, left out: 77, 78" in output
    values = json.loads(run("recommend", here / "events", "--history", "3,77", "--json"))
    assert values["unknown"] == [77]


@pytest.mark.parametrize(
    ("ids", "history"),
    [(texts(["a=b", "ü", "7"]), "a=b,7"), (texts([b"a=b", b"\xff", b"7"]), "a=b,7")],
)
def test_ids_of_text_and_bytes(tmp_path: Path, ids: Any, history: str) -> None:
    make_model(ids, "implicit").save(tmp_path / "m")
    values = json.loads(run("recommend", tmp_path / "m", "--history", history, "--json"))
    assert [row["item"] for row in values["recommendations"]] in (["ü"], ["\\xff"])
    make_model(ids).save(tmp_path / "m")
    values = json.loads(run("recommend", tmp_path / "m", "--history", "a=b=4,7=1", "--json"))
    assert [row["item"] for row in values["recommendations"]] in (["ü"], ["\\xff"])


@pytest.mark.parametrize(
    ("model", "history", "message"),
    [
        ("rated", "3", "'3' must be ITEM=RATING"),
        ("rated", "3=good", "'3=good' must be ITEM=RATING"),
        ("rated", "3=9", "the rating in row 0"),
        ("rated", "3=nan", "the rating in row 0"),
        ("rated", "x=3", "'x' is no id of this model: its ids are whole numbers"),
        ("rated", "3=1,3=2", "names '3' twice"),
        ("events", "3=5", "trained on events: name items alone"),
        ("events", " , ", "the history is empty"),
        ("events", "77", "knows none of these items"),
        ("events", "9" * 30, "knows none of these items"),
    ],
)
def test_histories_that_cannot_be_used(here: Path, model: str, history: str, message: str) -> None:
    with pytest.raises(ApportionError, match=message):
        run("recommend", here / model, "--history", history)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_recommend_for_a_file(here: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / "new" / f"lists.{ending}"
    output = run(
        "recommend", here / "rated", "--histories", here / "train.csv", "--out", out, "-k", 3
    )
    assert "600" not in output
    lists = (pl.read_csv if ending == "csv" else pl.read_parquet)(out)
    assert lists.columns == ["user", "rank", "item", "title", "score"]
    history = read_columns(here / "train.csv", ["user", "item"], ["rating"])
    assert lists["user"].n_unique() == history["user"].n_unique()
    mine = history.filter(pl.col("user") == 5)
    ids, scores = load(here / "rated").recommend(
        dict(zip(mine["item"], mine["rating"], strict=True)), k=3
    )
    listed = lists.filter(pl.col("user") == 5).sort("rank")
    assert listed["item"].to_list() == ids.tolist()
    assert listed["title"].to_list() == [f"Film {item} [b]" for item in ids]
    assert listed["score"].to_list() == pytest.approx(scores.tolist(), rel=1e-4)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_lists_of_text_and_bytes(tmp_path: Path, ending: str) -> None:
    (tmp_path / "h.csv").write_text("user,item\nann,1\nbob,2\n")
    for ids in (["1", "2", "3"], [b"1", b"2", b"3"]):
        make_model(texts(ids), "implicit").save(tmp_path / "m")
        out = tmp_path / f"x.{ending}"
        run("recommend", tmp_path / "m", "--histories", tmp_path / "h.csv", "--out", out, "--json")
        lists = (pl.read_csv if ending == "csv" else pl.read_parquet)(out)
        assert lists["user"].to_list() == ["ann", "ann", "bob", "bob"]
        items = {str(item.decode() if isinstance(item, bytes) else item) for item in lists["item"]}
        assert items == {"1", "2", "3"}


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--history", "3", "--histories", "x.csv", "--out", "y.csv"],
        ["--history", "3", "--out", "y.csv"],
        ["--histories", "x.csv"],
        ["--histories", "x.csv", "--out", "y.txt"],
        ["--history", "3", "-k", "0"],
    ],
)
def test_wrong_usage_of_recommend(here: Path, options: list[str]) -> None:
    assert "Usage" in run("recommend", here / "events", *options, code=2)


# --- similar ---


def test_similar(here: Path) -> None:
    ids, scores = load(here / "rated").similar_items(12, k=3)
    for name in ("12", "Film 12 [b]", "FILM 12"):
        output = run("similar", here / "rated", name, "-k", 3)
        assert "items like Film 12 [b] (12)" in output
        for item, score in zip(ids, scores, strict=True):
            assert f"Film {item} [b]" in output
            assert f"{score:.3f}" in output
    values = json.loads(run("similar", here / "rated", 12, "-k", 3, "--by", "dot", "--json"))
    assert (values["item"], values["title"], values["by"]) == (12, "Film 12 [b]", "dot")
    ids, scores = load(here / "rated").similar_items(12, k=3, by="dot")
    assert [row["item"] for row in values["similar"]] == ids.tolist()
    assert [row["similarity"] for row in values["similar"]] == scores.tolist()


def test_a_whole_title_comes_before_pieces(tmp_path: Path) -> None:
    make_model([1, 2, 3], titles=["Alien", "Aliens", ""]).save(tmp_path / "m")
    assert "items like Alien (1)" in run("similar", tmp_path / "m", "alien")


def test_several_titles_are_listed(here: Path) -> None:
    result = apportion("similar", str(here / "rated"), "film 3")
    assert result.returncode == 1
    assert "11 titles hold 'film 3'" in result.stderr
    for item in (3, 30, 39):
        assert f"Film {item} [b]" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("model", "item", "message"),
    [
        ("rated", "opera", "no item and no title like 'opera'"),
        ("rated", "77", "no item and no title like '77'"),
        ("events", "opera", "does not know the item 'opera', and it has no titles"),
        ("events", "77", "does not know the item '77'"),
    ],
)
def test_items_that_are_not_there(here: Path, model: str, item: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        run("similar", here / model, item)


def test_titles_do_not_command_the_terminal(tmp_path: Path) -> None:
    make_model([1, 2], titles=["a\x1b[31m", "b\x1b]0;x\x07"]).save(tmp_path / "m")
    for command in (
        ["similar", tmp_path / "m", 1],
        ["recommend", tmp_path / "m", "--history", "1=5"],
    ):
        assert "\x1b" not in run(*command)


# --- report ---


def test_report(here: Path) -> None:
    output = run("report", here / "rated")
    assert "privacy report" in output
    assert "epsilon = 20 at delta = 1e-05" in output
    values = json.loads(run("report", here / "rated", "--json"))
    assert values["private"] is True
    assert values["epsilon"] == pytest.approx(20)


def test_errors_of_report_end_in_one_line(here: Path, tmp_path: Path) -> None:
    result = apportion("report", "nothing", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (1, "error: there is no model folder nothing\n")
    make_model().save(tmp_path / "m")
    (tmp_path / "m" / "privacy.json").write_text("{}")
    result = apportion("report", "m", cwd=tmp_path)
    assert result.returncode == 1
    assert "privacy.json is damaged" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", ["fit", "evaluate", "recommend", "similar", "report"])
def test_help(command: str) -> None:
    output = run(command, "--help")
    assert "Examples" in output
    assert output.count(f"apportion {command}") >= (4 if command == "fit" else 3)
