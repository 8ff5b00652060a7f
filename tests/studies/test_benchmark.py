"""The recommender benchmarks: settings files, methods and protocols."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.data import SHAPES, Interactions
from apportion.data.datasets import DATA_SETS
from apportion.data.simulate import _long_tail
from apportion.recommend.metrics import ranking_metrics
from apportion.studies import benchmark, skew
from apportion.studies.benchmark import (
    METHODS,
    Case,
    RatingBenchmark,
    RatingSplit,
    TopKBenchmark,
    TopKSplit,
    read_benchmarks,
    read_settings,
)
from apportion.studies.comparison import Comparison, mean_and_error
from tests.data.test_datasets import write_zip
from tests.studies.recommender import both_protocols, small_data, write_archive

PROTOCOLS = {
    "ml-100k": {"rating", "top-k"},
    "ml-1m": {"rating", "top-k"},
    "ml-10m": {"rating"},
    "ml-20m": {"top-k"},
    "msd": {"top-k"},
}
BENCHMARKS = {"rating": RatingBenchmark, "top-k": TopKBenchmark}


# Published figures: users, items, rows (Table 1 of the paper).
PUBLISHED = {
    "ml-10m": (69_878, 10_677, 10_000_054),
    "ml-20m": (136_677, 20_108, 9_990_682),
    "msd": (571_355, 41_140, 33_633_450),
}
REAL = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of settings with a small file for ml-1m."""
    folder = tmp_path / "settings"
    folder.mkdir()
    (folder / "ml-1m.toml").write_text(both_protocols())
    monkeypatch.setattr(benchmark, "SETTINGS", folder)
    return folder


@pytest.fixture
def rating(settings: Path) -> RatingBenchmark:
    return RatingBenchmark("ml-1m", small_data(), read_settings("ml-1m")["rating"])


@pytest.fixture
def top_k(settings: Path) -> TopKBenchmark:
    return TopKBenchmark("ml-1m", small_data(), read_settings("ml-1m")["top-k"])


def test_every_data_set_has_settings() -> None:
    assert set(PROTOCOLS) == set(DATA_SETS)
    assert {name: set(read_settings(name)) for name in PROTOCOLS} == PROTOCOLS


@pytest.mark.parametrize(
    ("name", "protocol"),
    [(name, each) for name, some in PROTOCOLS.items() for each in sorted(some)],
)
def test_every_settings_file_makes_models_of_all_methods(name: str, protocol: str) -> None:
    here = BENCHMARKS[protocol](name, small_data(), read_settings(name)[protocol])
    for method, kind in METHODS.items():
        budgets = (math.inf,) if kind.budget == "not private" else (0.1, 1.0, 5.0, 20.0)
        for epsilon in budgets:
            plan = here.model(Case(method, epsilon)).plan()
            assert plan.target.epsilon == epsilon


def test_methods_differ_by_solver_and_allocation(rating: RatingBenchmark) -> None:
    def made(method: str) -> tuple[str, Any]:
        model = rating.model(Case(method, 1.0))
        return "ssp" if isinstance(
            model.solver, ap.SufficientStatistics
        ) else "descent", model.allocation

    counts = ap.PrivateCounts(0.1, 20)
    expected = {
        "uniform": ap.UniformSampling(5),
        "tail": ap.TailSampling(5, counts),
        "adaptive": ap.AdaptiveWeights(0.25, counts=counts),
    }
    for method, kind in METHODS.items():
        if kind.budget != "not private":
            assert made(method) == (kind.solver, expected[kind.budget])


def test_a_case_may_have_its_own_weight_exponent(rating: RatingBenchmark) -> None:
    allocation = rating.model(Case("AdaDPALS", 1.0, 0.75)).allocation
    assert isinstance(allocation, ap.AdaptiveWeights)
    assert allocation.exponent == 0.75


def test_the_gradient_bound_is_in_units_of_the_bounds(
    rating: RatingBenchmark, top_k: TopKBenchmark
) -> None:
    assert (
        rating.model(Case("AdaDPSGD", 1.0)).get_params()["solver__gradient_bound"]
        == 0.25 * 0.5 * 1.5
    )
    assert top_k.model(Case("AdaDPSGD", 1.0)).get_params()["solver__gradient_bound"] == 0.25 * 0.5


@pytest.mark.parametrize(
    ("epsilon", "factors", "sweeps"), [(0.1, 3, 2), (1.5, 3, 2), (1.7, 4, 1), (5.0, 4, 1)]
)
def test_the_nearest_epsilon_is_taken_in_ratio(
    rating: RatingBenchmark, epsilon: float, factors: int, sweeps: int
) -> None:
    model = rating.model(Case("AdaDPALS", epsilon))
    assert (model.factors, model.sweeps) == (factors, sweeps)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[rating.SGD]\n", "[rating.SGD]\nfactor = 3\n", r"ml-1m.toml \[rating.SGD\].* 'factor'"),
        ("[rating.SGD]\n", "[rating.SGD]\nk = 3\n", r"ml-1m.toml \[rating.SGD\].* 'k'"),
        ("[rating.SGD]\n", '[rating.SGD]\nsolver = "ssp"\n', "'solver'"),
        ("epsilon.5]\nfactors = 4", "epsilon.5]\nnoise = 4", r"\[rating.AdaDPALS\].* 'noise'"),
        ("k = 5\n", "", r"\[rating.DPALS uniform\]: k is missing"),
        ("bounds__label = 1.5\n", "", r"\[rating.AdaDPSGD\]: bounds__label is missing"),
        ("[rating.ALS]\n", "[rating.ALS]\nsolver__steps = 3\n", r"ALS\].* 'solver__steps'"),
        ("[rating.ALS]\n", "[rating.ALS]\nbounds__normalize = true\n", "'bounds__normalize'"),
        ("[rating.ALS]\n", "[rating.ALS]\nregularization = 0.1\n", "'regularization'"),
        ("[rating]\n", "[rating]\nheld_out = 3\n", r"ml-1m.toml \[rating\].* 'held_out'"),
        ("[rating.SGD]", "[rating.PGD]", r"ml-1m.toml \[rating\].* 'PGD'"),
        ("[rating]\n", "[ratings]\n[rating]\n", "ml-1m.toml: there is no protocol 'ratings'"),
    ],
)
def test_mistakes_in_a_settings_file_are_named(
    settings: Path, old: str, new: str, message: str
) -> None:
    content = both_protocols()
    assert old in content
    (settings / "ml-1m.toml").write_text(content.replace(old, new, 1))

    def make_all() -> None:
        made = RatingBenchmark("ml-1m", small_data(), read_settings("ml-1m")["rating"])
        for method in METHODS:
            made.model(Case(method, 5.0))

    with pytest.raises(ap.ParameterError, match=message):
        make_all()


def test_a_method_may_not_be_missing(settings: Path) -> None:
    content = both_protocols()
    start = content.index("[rating.AdaDPSGD]")
    (settings / "ml-1m.toml").write_text(content[:start])
    with pytest.raises(ap.ParameterError, match=r"\[rating\]: there is no table for AdaDPSGD"):
        read_settings("ml-1m")


def test_settings_like_those_of_another_data_set() -> None:
    small, large = read_settings("ml-100k"), read_settings("ml-1m")
    assert small["top-k"] == {**large["top-k"], "held_out": 100}
    assert small["rating"] == large["rating"]


def _users_mean(name: str, share: float, exponent: float) -> float:
    shape = SHAPES[name]
    rows = np.maximum(
        share * shape["rows"] * _long_tail(shape["users"], shape["active_tenth"]), 1.0
    )
    return float((rows ** (1 + exponent)).sum() / rows.sum())


def test_the_translated_settings_of_ml_10m() -> None:
    shape = SHAPES["ml-10m"]
    users = shape["users"]
    counts = 0.8 * shape["rows"] * _long_tail(shape["items"], shape["popular_tenth"])
    counts = np.clip(counts, 1, users)
    c = math.sqrt(users / (counts**0.5).sum())
    mean = (counts**1.25).sum() / counts.sum()
    table = read_settings("ml-10m")["rating"]
    for epsilon, sampling, adaptive in (("1", 60, 40), ("5", 40, 60), ("20", 40, 40)):
        for method in ("DPALS uniform", "DPALS tail"):
            here = table[method]["epsilon"][epsilon]
            users_mean = _users_mean("ml-10m", 0.8, 0.25)
            assert here["regularization__items"] == pytest.approx(sampling / mean, rel=0.01)
            assert here["regularization__users"] == pytest.approx(sampling / users_mean, rel=0.01)
        here = table["AdaDPALS"]["epsilon"][epsilon]
        users_mean = _users_mean("ml-10m", 0.8, 0.5)
        assert here["regularization__items"] == pytest.approx(adaptive / (10 * c * mean), rel=0.01)
        assert here["regularization__users"] == pytest.approx(adaptive / users_mean, rel=0.01)


@pytest.mark.parametrize(
    ("name", "rarest", "most_popular"),
    [
        ("ml-10m", (0.15, 1.7, 4.1, 19), (2.5, 0.67, 0.25, 0.0043)),
        ("ml-20m", (0.57, 1.1, 1.4, 2.1), (2.2, 0.73, 0.37, 0.038)),
    ],
)
def test_what_the_settings_files_say_of_other_exponents(
    name: str, rarest: tuple[float, ...], most_popular: tuple[float, ...]
) -> None:
    shape = SHAPES[name]
    users, share = (shape["users"], 0.8) if name == "ml-10m" else (shape["users"] - 20_000, None)
    rows = shape["rows"] * (users / shape["users"] if share is None else share)
    counts = np.clip(rows * _long_tail(shape["items"], shape["popular_tenth"]), 1, users)
    if share is None:
        counts = counts[: math.ceil(0.1 * len(counts))]

    def weights(mu: float) -> np.ndarray:
        return counts**-mu * math.sqrt(users / (counts ** (1 - 2 * mu)).sum())

    # The settings' penalty is multiplied by the weight; what it is for 1/4 is theirs.
    theirs = weights(0.25)
    for mu, low, high in zip((0.0, 1 / 3, 0.5, 1.0), rarest, most_popular, strict=True):
        ratio = weights(mu) / theirs
        assert (ratio[-1], ratio[0]) == pytest.approx((low, high), rel=0.05)
    text = (benchmark.SETTINGS / f"{name}.toml").read_text()
    stated = " ".join(text.replace("#", " ").split())
    for values in (rarest, most_popular):
        assert ", ".join(f"{v:g}" for v in values[:3]) + f" and {values[3]:g} times" in stated


def test_the_translated_settings_of_ml_20m() -> None:
    shape = SHAPES["ml-20m"]
    train = shape["users"] - 20_000
    rows = shape["rows"] * train / shape["users"]
    counts = np.clip(rows * _long_tail(shape["items"], shape["popular_tenth"]), 1, train)
    top = counts[: math.ceil(0.1 * len(counts))]
    c = math.sqrt(train / (top**0.5).sum())
    users_mean = _users_mean("ml-20m", 0.86, 0.25)  # the top tenth has 86 % of the events
    table = read_settings("ml-20m")["top-k"]
    for epsilon, penalty in (("1", 30), ("5", 40), ("20", 30)):
        here = table["AdaDPALS"]["epsilon"][epsilon]
        assert here["regularization__items"] == pytest.approx(penalty / (10 * c), rel=0.01)
        assert here["regularization__users"] == pytest.approx(penalty / users_mean, rel=0.01)


@pytest.mark.parametrize("name", ["ml-10m", "ml-20m", "msd"])
@pytest.mark.parametrize(("epsilon", "share"), [(1.0, 0.12), (5.0, 0.14), (20.0, 0.2)])
def test_counts_have_the_paper_s_share_of_the_rdp_budget(
    name: str, epsilon: float, share: float
) -> None:
    [protocol] = PROTOCOLS[name]
    here = BENCHMARKS[protocol](name, small_data(), read_settings(name)[protocol])
    for method, kind in METHODS.items():
        if kind.budget == "not private":
            continue
        plan = here.model(Case(method, epsilon)).plan()
        paid = [release.share for release in plan.releases if "counts" in release.name]
        # On ml-10m nobody needs counts for uniform sampling; elsewhere the catalog follows from them.
        expected = [] if name == "ml-10m" and kind.budget == "uniform" else [share]
        assert paid == pytest.approx(expected), method


def _pairs(data: Interactions) -> set[tuple[int, int]]:
    return set(zip(data.user_of_row.tolist(), data.by_user.other.tolist(), strict=True))


def test_the_rating_protocol(rating: RatingBenchmark) -> None:
    split = rating.split(0)
    assert isinstance(split, RatingSplit)
    parts = [_pairs(part) for part in (split.train, split.validation, split.test)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 2_500
    assert [len(part) / 2_500 for part in parts] == pytest.approx([0.8, 0.1, 0.1], abs=0.03)
    assert _pairs(split.known) == parts[0] | parts[1]
    assert _pairs(rating.split(1).train) != parts[0]
    model = rating.model(Case("ALS")).fit(split.train)
    scores = split.scores(model)
    for column, histories, part in (
        ("validation", split.train, split.validation),
        ("test", split.known, split.test),
    ):
        assert part.by_user.rating is not None
        error = model.predict_many(histories, part) - part.by_user.rating
        assert scores[column] == pytest.approx(float(np.sqrt(np.mean(error**2))))


def test_the_top_k_protocol(top_k: TopKBenchmark) -> None:
    split = top_k.split(0)
    assert isinstance(split, TopKSplit)
    assert not split.train.explicit
    sizes = np.diff(top_k.data.by_user.start)
    assert sizes[sizes > 0].min() >= 4
    groups = [set(split.validation.users), set(split.test.users), set(split.train.user_of_row)]
    assert [len(group) for group in groups[:2]] == [20, 20]
    assert sum(map(len, groups)) == len(set.union(*groups))
    kept = small_data().positives(3.0)
    assert _pairs(top_k.data) <= _pairs(kept)


RATED, LIKED = 60, 44


def write_ml_20m(path: Path) -> Path:
    """An archive of ml-20m's form: 100 users rate 60 movies, of which only 44 ever get a 4 or more."""
    rows = [
        (user, movie, 5.0 if movie < LIKED else 2.0)
        for user in range(100)
        for movie in range(RATED)
        if (user + movie) % 4 == 0
    ]
    lines = "".join(f"{user},{movie},{rating},1\n" for user, movie, rating in rows)
    content = f"userId,movieId,rating,timestamp\n{lines}".encode()
    titles = "".join(f"{movie},Movie {movie} (1999),Drama\n" for movie in range(RATED))
    named = f"movieId,title,genres\n{titles}".encode()
    return write_zip(path, {"ml-20m/ratings.csv": content, "ml-20m/movies.csv": named})


def test_the_catalog_of_ml_20m_is_the_movies_with_events(tmp_path: Path) -> None:
    [here] = read_benchmarks("ml-20m", write_ml_20m(tmp_path / "ml-20m.zip"), held_out=10)
    [statistics] = skew.run([here]).statistics
    assert (statistics["users"], statistics["items"]) == (100, LIKED)
    split = here.split(0)
    assert isinstance(split, TopKSplit)
    assert (split.train.items, len(split.sliced)) == (LIKED, math.ceil(0.1 * LIKED))
    model = here.model(Case("ALS")).set_params(factors=2, sweeps=1).fit(split.train)
    assert len(model.item_ids) == 5


def test_movies_of_held_out_users_alone_are_dropped(settings: Path) -> None:
    table = read_settings("ml-1m")["top-k"]
    users, items = np.repeat(np.arange(60), 5), np.tile(np.arange(5), 60)
    first = TopKBenchmark("x", _loved(users, items), {**table, "held_out": 10}).split(0)
    assert isinstance(first, TopKSplit)
    alone = int(first.test.users[0])  # now with a movie that nobody else has
    data = _loved(np.append(users, alone), np.append(items, 5))
    split = TopKBenchmark("x", data, {**table, "held_out": 10}).split(0)
    assert isinstance(split, TopKSplit)
    assert alone in split.test.users
    parts = (split.train, split.validation.labels, split.test.history, split.test.labels)
    assert [part.items for part in parts] == [5] * 4
    assert 5 not in split.train.item_ids


def _loved(users: Any, items: Any) -> Interactions:
    return Interactions(
        users, items, np.full(len(users), 5.0), items="public", rating_range=(1.0, 5.0)
    )


def test_too_many_held_out_users_are_refused(tmp_path: Path) -> None:
    [here] = read_benchmarks("ml-20m", write_ml_20m(tmp_path / "ml-20m.zip"))
    with pytest.raises(ap.DataError, match=r"too few to hold out 10,000 .*--held-out"):
        here.split(0)


def test_items_of_few_users_are_left_out_if_asked_for(settings: Path) -> None:
    table = {**read_settings("ml-1m")["top-k"], "item_users": 30}
    counts = small_data().positives(3.0).graph.task_sizes()
    here = TopKBenchmark("ml-1m", small_data(), table)
    assert here.data.items == (counts >= 30).sum() < 40


def test_buckets_are_of_the_items_that_are_learned(settings: Path) -> None:
    table = dict(read_settings("ml-1m")["top-k"])
    table["most_frequent"] = 0.5
    table["DPALS uniform"] = {**table["DPALS uniform"], "counts_share": 0.1, "counts_cap": 9}
    here = TopKBenchmark("ml-1m", small_data(), table)
    uniform = here.model(Case("DPALS uniform", 1.0))
    assert uniform.catalog == ap.MostFrequent(0.5, ap.PrivateCounts(0.1, 9))
    split = here.split(0)
    assert isinstance(split, TopKSplit)
    model = here.model(Case("ALS")).fit(split.train)
    assert len(model.item_ids) == len(split.sliced) == 20
    scores = split.scores(model)
    overall = ranking_metrics(model, split.test, split.counts)
    assert scores["test"] == overall.recall
    # Of all items the lower half is not learned: nothing of the two lowest fifths is found.
    assert overall.recall_by_bucket[:2] == (0.0, 0.0)
    assert scores["bucket_0"] > 0


class TwoCases(Comparison):
    @property
    def cases(self) -> list[Case]:
        return [Case("ALS"), Case("AdaDPALS", 5.0, 0.5)]


def test_cases_are_run_on_every_split(rating: RatingBenchmark, top_k: TopKBenchmark) -> None:
    calls: list[None] = []
    study = TwoCases([rating, top_k], seeds=2)
    rows = study.run(on_fit=lambda: calls.append(None))
    assert len(rows) == len(calls) == study.fits == 8
    assert [row["metric"] for row in rows] == ["RMSE"] * 4 + ["Recall@20"] * 4
    again = TwoCases([rating], seeds=2).run()
    assert again == rows[:4]  # the noise is fixed by the seed
    assert rows[0]["test"] != rows[2]["test"]
    both = [rows[0]["test"], rows[2]["test"]]
    mean, error = mean_and_error(rows, protocol="rating", method="ALS")
    assert mean == pytest.approx(np.mean(both))
    assert error == pytest.approx(abs(both[0] - both[1]) / 2)


def test_reading_benchmarks(settings: Path, tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "ml-1m.zip")
    assert [each.protocol for each in read_benchmarks("ml-1m", archive)] == ["rating", "top-k"]
    [only] = read_benchmarks("ml-1m", archive, "top-k")
    assert only.protocol == "top-k"
    (settings / "ml-1m.toml").write_text(both_protocols().split("[top-k]")[0])
    with pytest.raises(ap.ParameterError, match="ml-1m has no protocol 'top-k', only rating"):
        read_benchmarks("ml-1m", archive, "top-k")


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_figures_on_the_real_archives(name: str) -> None:
    path = REAL / ("train_triplets.txt.zip" if name == "msd" else f"{name}.zip")
    if not path.exists():
        pytest.skip(f"{path.name} is not at hand")
    [here] = read_benchmarks(name, path)
    [statistics] = skew.run([here]).statistics
    users, items, rows = PUBLISHED[name]
    assert (statistics["users"], statistics["rows"]) == (users, rows)
    # Which movies training users have depends on who is held out: Liang et al. drew other users.
    assert statistics["items"] == pytest.approx(items, abs=50 if name == "ml-20m" else 0)
