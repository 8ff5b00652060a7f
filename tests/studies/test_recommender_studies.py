"""tradeoff, exponent, slices, neighbors and skew, as a user runs them, on a small archive."""

import csv
import io
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import apportion as ap
from apportion.audit.observer import observed
from apportion.cli import app
from apportion.cli.reproduce_recommender import skew_table
from apportion.studies import benchmark, skew, tradeoff
from apportion.studies.benchmark import Case, TopKBenchmark, read_benchmarks
from apportion.studies.neighbors import Neighbors, titles_of
from tests.studies.recommender import both_protocols, small_data, write_archive

Run = Callable[..., str]


@pytest.fixture(autouse=True)
def _settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "settings"
    folder.mkdir()
    (folder / "ml-1m.toml").write_text(both_protocols())
    monkeypatch.setattr(benchmark, "SETTINGS", folder)
    monkeypatch.setenv("COLUMNS", "140")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_archive(tmp_path / "ml-1m.zip")


@pytest.fixture
def run(archive: Path, tmp_path: Path) -> Run:
    """Runs a study with few repetitions; returns what it prints."""

    def run(study: str, *options: str) -> str:
        arguments = ["reproduce", study, "--data", "ml-1m", "--path", str(archive)]
        arguments += ["--out", str(tmp_path / "out"), *options]
        result = CliRunner().invoke(app, arguments)
        if isinstance(result.exception, ap.ApportionError):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    return run


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def written(folder: Path) -> set[str]:
    for path in folder.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    return {path.name for path in folder.iterdir()}


def test_tradeoff(run: Run, tmp_path: Path) -> None:
    printed = run("tradeoff", "--protocol", "top-k", "--epsilon", "5", "--seeds", "2")
    for piece in ("ml-1m, top-k: test Recall@20", "DPSGD tail", "not private", "+-"):
        assert piece in printed
    assert written(tmp_path / "out") == {"tradeoff.csv", "tradeoff-top-k.png"}
    rows = read(tmp_path / "out" / "tradeoff.csv")
    assert len(rows) == 16
    assert {row["method"] for row in rows} == set(benchmark.METHODS)


@pytest.mark.parametrize("epsilons", [(1.0,), (1.0, 5.0)])
def test_points_of_a_single_epsilon_do_not_hide_each_other(epsilons: tuple[float, ...]) -> None:
    where = {"data": "x", "metric": "RMSE", "test": 1.0}
    kinds = [*((name, math.inf) for name in tradeoff.NOT_PRIVATE)]
    kinds += [(n, e) for n in benchmark.METHODS if n not in tradeoff.NOT_PRIVATE for e in epsilons]
    rows = [{**where, "method": method, "epsilon": epsilon} for method, epsilon in kinds]
    [axes, _] = tradeoff.draw(rows).axes
    places = [np.asarray(line.get_xdata(), dtype=float).tolist() for line in axes.lines]
    lines = {tuple(place) for place in places if len(place) == len(epsilons) and place != [0, 1]}
    if len(epsilons) == 1:
        assert len(lines) == 3
        assert all(0.5 < place < 2 for [place] in lines)
    else:
        assert lines == {epsilons}


def test_exponent(run: Run, tmp_path: Path) -> None:
    printed = run("exponent", "--protocol", "rating", "--epsilon", "1", "--seeds", "1")
    assert "AdaDPALS, exponent 1/3" in printed
    assert written(tmp_path / "out") == {"exponent.csv", "exponent-rating.png"}
    rows = read(tmp_path / "out" / "exponent.csv")
    private = [row for row in rows if row["epsilon"] == "1.0"]
    assert len(private) == 10
    for method in ("AdaDPALS", "AdaDPSGD"):
        tests = {row["test"] for row in private if row["method"] == method}
        assert len(tests) == 5  # each exponent is another model


def test_slices(run: Run, tmp_path: Path) -> None:
    printed = run("slices", "--epsilon", "5", "--seeds", "1")
    assert "by popularity" in printed
    assert "tail" in printed
    assert written(tmp_path / "out") == {"slices.csv", "slices-rating.png", "slices-top-k.png"}
    rows = read(tmp_path / "out" / "slices.csv")
    assert len(rows) == 2 * (1 + 5)
    ratings = [row for row in rows if row["protocol"] == "rating"]
    for row in ratings:
        buckets = [float(row[f"bucket_{b}"]) for b in range(5)]
        assert min(buckets) <= float(row["test"]) <= max(buckets)


def test_neighbors(run: Run, tmp_path: Path) -> None:
    options = ("--query", "film 7 (", "--query", "Film 12", "--seeds", "1")
    printed = run("neighbors", "--epsilon", "1", "--epsilon", "5", *options)
    assert "Film 7 (1999): Drama|War" in printed
    assert written(tmp_path / "out") == {"neighbors.csv", "overlap.csv", "overlap.png"}
    lists = read(tmp_path / "out" / "neighbors.csv")
    assert len(lists) == 2 * 2 * 3 * 6
    assert {row["query"] for row in lists} == {"Film 7 (1999)", "Film 12 (1999)"}
    assert all(row["query"] != row["title"] for row in lists)
    overlap = read(tmp_path / "out" / "overlap.csv")
    assert len(overlap) == 2 * 3
    assert all(0 <= float(row[f"bucket_{b}"]) <= 1 for row in overlap for b in range(5))


def test_neighbors_are_those_of_the_model(archive: Path) -> None:
    [here] = read_benchmarks("ml-1m", archive, "top-k")
    titles = titles_of("ml-1m", archive)
    found = Neighbors(here, titles, ("Film 7 (",), epsilons=(5.0,), seeds=1).run()
    split = here.split(0)
    model = here.model(Case("AdaDPALS", 5.0, 1 / 3)).fit(split.train)
    expected, _ = model.similar_items(7, 6, by="dot")
    rows = [row for row in found.lists if row["method"] == "AdaDPALS"]
    assert [row["title"] for row in rows] == [f"Film {item} (1999)" for item in expected]
    assert [row["count"] for row in rows] == [split.counts[item] for item in expected]


def test_items_to_look_at_go_from_popular_to_rare(archive: Path) -> None:
    [here] = read_benchmarks("ml-1m", archive, "top-k")
    found = Neighbors(here, {}, epsilons=(5.0,), seeds=1).run()
    counts = list(dict.fromkeys(row["query_count"] for row in found.lists))
    assert len(counts) == 5
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == here.split(0).counts.max()
    assert {row["title"] for row in found.lists} <= {str(item) for item in range(40)}


def test_a_query_without_a_match_is_reported_before_anything_is_trained(
    run: Run,
) -> None:
    with (
        observed() as seen,
        pytest.raises(ap.DataError, match="ml-1m has no item with 'Pinocchio' in its title"),
    ):
        run("neighbors", "--epsilon", "1", "--seeds", "1", "--query", "Pinocchio")
    assert not seen.blocks


def test_neighbors_are_asked_for_as_in_the_paper(archive: Path) -> None:
    [here] = read_benchmarks("ml-1m", archive, "top-k")
    ids = here.split(0).train.item_ids
    titles = {ids[3]: ("Pinocchio (1940)", ""), ids[9]: ("Interstellar (2014)", "")}
    study = Neighbors(here, titles, seeds=1)
    assert tuple(study.epsilons) == (1.0,)
    assert study.case("AdaDPALS", 1.0) == Case("AdaDPALS", 1.0, 1 / 3)
    assert study.case("DPALS tail", 1.0) == Case("DPALS tail", 1.0)
    assert len(study.not_there) == 3
    assert all("Pinocchio" not in title for title in study.not_there)
    found = study.run()
    assert {row["query"] for row in found.lists} == {"Pinocchio (1940)", "Interstellar (2014)"}


def test_skew(archive: Path, tmp_path: Path) -> None:
    twice = ["--data", "ml-1m", "--path", str(archive)] * 2
    out = ["--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, ["reproduce", "skew", *twice, *out])
    assert result.exit_code == 0, result.output
    assert "top 10%" in result.output
    assert written(tmp_path / "out") == {"skew.csv", "skew.png", "statistics.csv"}
    for title in ("|Omega|", "R_0", "R_1"):
        assert title in result.output


def test_the_largest_data_set_fits_into_a_terminal() -> None:
    sizes = {"data": "ml-20m", "users": 571_355, "items": 41_140, "rows": 33_633_450}
    row = {**sizes, "top_0.01": 0.1, "top_0.1": 0.445, "top_0.5": 0.924, "R_0": 1.2, "R_1": 123.45}
    paper = io.StringIO()
    Console(width=80, file=paper).print(skew_table([row]))
    printed = paper.getvalue()
    assert all(piece in printed for piece in ("33,633,450", "92.4%", "123.45"))
    assert "…" not in printed


def test_the_curve_of_skew(archive: Path) -> None:
    [here] = read_benchmarks("ml-1m", archive, "rating")
    found = skew.run([here])
    counts = np.sort(small_data().graph.task_sizes())[::-1]
    assert [row["count"] for row in found.items] == counts.tolist()
    assert found.items[-1]["share_of_rows"] == found.items[-1]["share_of_items"] == 1.0
    [statistics] = found.statistics
    assert [statistics[name] for name in ("users", "items", "rows")] == [120, 40, 2_500]
    assert statistics["top_0.1"] == pytest.approx(counts[:4].sum() / 2_500)
    roots = np.sqrt(counts).sum()
    assert statistics["R_0"] == pytest.approx(math.sqrt(40 * 2_500) / roots)
    assert statistics["R_1"] == pytest.approx((1 / counts).sum() * 2_500 / 40**2)


def test_a_missing_archive_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["reproduce", "tradeoff", "--data", "ml-20m"])
    assert isinstance(result.exception, ap.DataError)
    assert "apportion data fetch ml-20m" in str(result.exception)


def test_paths_without_their_data_sets(archive: Path) -> None:
    arguments = ["--data", "ml-1m", "--path", str(archive), "--path", str(archive)]
    result = CliRunner().invoke(app, ["reproduce", "skew", *arguments])
    assert result.exit_code == 2
    assert "give one for each --data" in result.output


@pytest.mark.parametrize("study", ["tradeoff", "exponent", "slices", "neighbors", "skew"])
def test_help(study: str) -> None:
    result = CliRunner().invoke(app, ["reproduce", study, "--help"])
    assert result.exit_code == 0
    assert f"apportion reproduce {study} --data ml-1m" in result.output


def test_not_private_means_no_noise(archive: Path) -> None:
    [here] = read_benchmarks("ml-1m", archive, "top-k")
    assert isinstance(here, TopKBenchmark)
    model = here.model(Case("SGD"), seed=1)
    assert model.epsilon == math.inf
    assert "NOT PRIVATE" in str(model.fit(here.split(0).train).privacy)
