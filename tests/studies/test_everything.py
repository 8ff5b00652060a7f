"""reproduce all: each model once, resumed, and one page beside the published values."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import apportion as ap
from apportion.cli import app
from apportion.studies import benchmark, everything, page, published, skew
from apportion.studies.benchmark import Case
from apportion.studies.everything import Everything, calibrate, estimate, find_archives, simulated
from tests.studies.recommender import write_archive
from tests.studies.test_benchmark import write_ml_20m


def run(*options: str) -> str:
    result = CliRunner().invoke(app, ["reproduce", "all", *options])
    if isinstance(result.exception, ap.ApportionError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """One epsilon, few cases, models of two factors: what is tested is not their quality."""
    monkeypatch.setattr(everything, "EXPONENTS", (0.0, 0.25, 1 / 3, 0.5, 1.0))
    honest = benchmark.Benchmark.model

    def model(self: benchmark.Benchmark, case: Case, seed: int = 0) -> ap.MatrixFactorization:
        return honest(self, case, seed).set_params(factors=2, sweeps=1)

    monkeypatch.setattr(benchmark.Benchmark, "model", model)
    monkeypatch.setenv("COLUMNS", "250")


def test_a_rehearsal_writes_one_page_and_says_what_it_is(tmp_path: Path) -> None:
    options = ("--scale", "0.004", "--epsilon", "1", "--out", str(tmp_path))
    printed = run("--simulate", "ml-10m", "--simulate", "ml-20m", *options)
    assert "a rehearsal on simulated data" in printed
    assert "32 models, 0 of them done" in printed
    text = (tmp_path / "page.md").read_text()
    assert text.startswith("# The paper's figures and tables, a rehearsal\n\n**A rehearsal")
    for piece in ("Table 1", "Figure 1:", "Figure 2:", "Figure 3:", "Figure 9", "Figure 11", "86%"):
        assert piece in text
    for name in ("ml-10m-exponent", "ml-20m-tradeoff", "ml-20m-slices", "ml-20m-overlap", "skew"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"({name}.png)" in text
    assert "(1.346)" in text  # published, ml-10m, bucket 0, exponent 1/4
    # Again: nothing is trained, and the page is the same but for the time it took.
    again = run("--simulate", "ml-10m", "--simulate", "ml-20m", *options)
    assert "32 models, 32 of them done" in again
    same = [line for line in text.splitlines() if not line.startswith("It took")]
    other = (tmp_path / "page.md").read_text().splitlines()
    assert [line for line in other if not line.startswith("It took")] == same


def test_it_resumes_where_it_stopped(tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    study = Everything([simulated("msd", 0.001)], tmp_path, (1.0,))
    assert len(study.jobs) == 6  # ALS, uniform, tail, and the exponents 1/4, 1/2 and 1

    def stop(job: object) -> None:
        if job is study.jobs[2]:
            raise StoppedError

    with pytest.raises(StoppedError):
        study.run(stop)
    fits = tmp_path / "fits"
    before = {path.name: path.stat().st_mtime_ns for path in fits.iterdir()}
    assert len(before) == 3
    rows = study.run(lambda job: None)
    assert len(rows) == 7  # exponent 1/4 is that of the settings: two rows of one model
    assert len(list(fits.iterdir())) == 6
    assert all((fits / name).stat().st_mtime_ns == when for name, when in before.items())


def test_scores_of_other_data_or_settings_are_not_taken(tmp_path: Path) -> None:
    [job, *_] = Everything([simulated("msd", 0.001)], tmp_path, (1.0,)).jobs
    row = job.train(job.benchmark.split(0))
    job.write(row, 1.0)
    assert job.read() == row
    [other, *_] = Everything([simulated("msd", 0.001, seed=1)], tmp_path, (1.0,)).jobs
    assert other.read() is None
    path = next((tmp_path / "fits").iterdir())
    content = json.loads(path.read_text())
    content["made_with"]["sweeps"] = "7"
    path.write_text(json.dumps(content))
    assert job.read() is None


def test_archives_are_found_by_the_names_that_they_are_distributed_under(tmp_path: Path) -> None:
    assert find_archives(tmp_path) == {}
    with pytest.raises(
        ap.DataError, match=r"none of ml-10m.zip, ml-20m.zip, train_triplets.txt.zip"
    ):
        run("--data", str(tmp_path))
    for name in ("ml-1m.zip", "ml-20m.zip", "train_triplets.txt.zip"):
        (tmp_path / name).write_bytes(b"")
    assert list(find_archives(tmp_path)) == ["ml-20m", "msd"]
    (tmp_path / "ml-20m.zip").unlink()
    (tmp_path / "train_triplets.txt.zip").unlink()
    assert list(find_archives(tmp_path)) == ["ml-1m"]


def test_ml_1m_stands_in_where_nothing_else_is_there_and_the_page_says_so(tmp_path: Path) -> None:
    write_archive(tmp_path / "ml-1m.zip")
    out = tmp_path / "out"
    options = ("--held-out", "10", "--epsilon", "1", "--out", str(out))
    printed = run("--data", str(tmp_path), *options)
    assert "34 models, 0 of them done" in printed
    assert "None of the paper's data sets is here" in printed
    text = (out / "page.md").read_text()
    assert text.startswith("# The paper's figures and tables\n\n**None of the paper's data sets is")
    # Both protocols, each with the figures of the paper's data set of its kind; nothing is beside them.
    for piece in (
        "## ml-1m-rating",
        "## ml-1m-top-k",
        "As figure 1:",
        "As figure 2:",
        "As figure 11:",
    ):
        assert piece in text
    assert "published" not in text
    assert "| ml-1m-rating | 120 | 40 | 2,500 |" in text
    assert "| as figure 3 | ml-1m-rating, AdaDPALS: the best exponent" in text
    assert "Film " in text  # neighbors, by their titles
    shown = re.findall(r"^\| AdaDPALS, exponent (\S+) \|  \|", text, re.MULTILINE)
    assert shown == ["0", "1/4", "1/3", "1/2", "1", "0", "0.1", "1/4", "1/3", "1/2", "1"]
    assert "34 models, 34 of them done" in run("--data", str(tmp_path), *options)


def test_a_small_archive_with_few_held_out_users(tmp_path: Path) -> None:
    write_ml_20m(tmp_path / "ml-20m.zip")
    out = tmp_path / "out"
    options = ("--held-out", "10", "--epsilon", "5", "--out", str(out))
    printed = run("--data", str(tmp_path), *options)
    assert "rehearsal" not in printed
    assert "| ml-20m | 100 (136,677) | 44 (20,108) |" in (out / "page.md").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give --data DIR"),
        (("--data", ".", "--simulate", "msd"), "give --data DIR"),
        (("--simulate", "ml-1m"), "--simulate takes ml-10m"),
        (("--simulate", "msd", "--scale", "2"), "--scale must be"),
    ],
)
def test_wrong_usage(options: tuple[str, ...], message: str) -> None:
    with pytest.raises(ap.ParameterError, match=message):
        run(*options)


def test_time_is_estimated_for_what_is_left() -> None:
    speed = calibrate()
    assert all(0 < unit < 1e-3 for unit in speed)
    small, large = (
        Everything([simulated("msd", scale)], Path("nowhere"), (1.0,)).jobs
        for scale in (0.001, 0.004)
    )
    assert sum(estimate(large, speed)) > 2 * sum(estimate(small, speed)) > 0


def _row(
    method: str, mu: float | None, buckets: tuple[float, ...], test: float
) -> dict[str, object]:
    where = {"data": "ml-10m", "protocol": "rating", "method": method, "epsilon": 1.0}
    scores = {f"bucket_{b}": value for b, value in enumerate(buckets)}
    return {**where, "weight_exponent": mu, "seed": 0, "metric": "RMSE", "test": test, **scores}


def test_claims_are_judged_by_what_was_measured() -> None:
    published_rows = [
        _row(method, mu, values[1.0], 0.9 if method == "AdaDPALS" else 1.0)
        for (method, mu), values in published.SLICES["ml-10m"].items()
    ]
    published_rows.append(
        _row("AdaDPALS", None, published.SLICES["ml-10m"]["AdaDPALS", 0.25][1.0], 0.9)
    )
    baseline = _row("ALS", None, (0.8,) * 5, 0.7772)
    rows = [*published_rows, {**baseline, "epsilon": float("inf")}]
    found = {claim.what: claim for claim in page.claims(_results(rows))}
    assert found["ml-10m: AdaDPALS is better than uniform and tail sampling at every epsilon"].holds
    assert found["ml-10m, not private: RMSE 0.7772 (the authors' notebook)"].holds
    # The notebook's own bars contradict the text of section D.2.
    gaps = [claim for what, claim in found.items() if "every exponent is better" in what]
    assert len(gaps) == 4
    assert not any(claim.holds for claim in gaps)
    for row in rows:
        if row["method"] == "AdaDPALS":
            row.update({f"bucket_{b}": 0.5 for b in range(5)}, test=1.1)
    found = {claim.what: claim for claim in page.claims(_results(rows))}
    assert all(claim.holds for what, claim in found.items() if "every exponent is better" in what)
    assert not found[
        "ml-10m: AdaDPALS is better than uniform and tail sampling at every epsilon"
    ].holds


def test_equal_scores_are_neither_better_nor_worse() -> None:
    kinds = [("AdaDPALS", mu) for mu in (0.0, 0.25, 0.5, 1.0, None)]
    kinds += [("DPALS uniform", None), ("DPALS tail", None)]
    rows = [{**_row(method, mu, (0.5,) * 5, 0.9), "data": "msd"} for method, mu in kinds]
    found = [claim for claim in page.claims(_results(rows)) if "exponent 1 is" in claim.what]
    assert len(found) == 3
    assert not any(claim.holds for claim in found)


def test_neighbors_are_compared_in_every_bucket_and_shown_so() -> None:
    def shared(method: str, buckets: tuple[float, ...]) -> dict[str, object]:
        return {"method": method, **{f"bucket_{b}": value for b, value in enumerate(buckets)}}

    overlap = [
        shared("DPALS uniform", (0.1, 0.2, 0.3, 0.4, 0.5)),
        shared("DPALS tail", (0.2, 0.2, 0.4, 0.5, 0.6)),
        shared("AdaDPALS", (0.3, 0.4, 0.5, 0.6, 0.7)),
    ]
    results = replace(_results([]), neighbors={"ml-20m": (overlap, [], [])})
    [claim] = page.claims(results)
    assert "in every bucket" in claim.what
    assert "DPALS uniform 0.100 0.200 0.300 0.400 0.500" in claim.measured
    assert not claim.holds
    overlap[1]["bucket_1"] = 0.3
    assert page.claims(results)[0].holds


def _results(rows: list[dict[str, object]]) -> page.Results:
    return page.Results(rows, skew.run([]), {})


def test_published_values_are_whole() -> None:
    for by_method in published.SLICES.values():
        for by_epsilon in by_method.values():
            assert set(by_epsilon) == {1.0, 5.0, 20.0}
            assert all(
                len(values) == 5 and np.isfinite(values).all() for values in by_epsilon.values()
            )
