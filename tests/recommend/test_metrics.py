"""The metrics against slow ones written out here, and at their edges."""

import math
from typing import Any, Literal

import numpy as np
import pytest

from apportion.accounts import PrivacyReport
from apportion.data import HeldOut, Interactions
from apportion.errors import DataError, ParameterError
from apportion.privacy import Ledger, PrivacyTarget
from apportion.recommend.fold_in import FoldIn
from apportion.recommend.metrics import (
    RankingMetrics,
    neighbor_overlap,
    ranking_metrics,
    rating_metrics,
)
from apportion.recommend.model import ItemModel
from apportion.recommend.recommender import Recommender

RNG = np.random.default_rng(5)
CATALOG = [f"item {i}" for i in range(40)]
COUNTS = RNG.permutation(40)
IMPLICIT = FoldIn("implicit", regularization=1.0, exponent=0.0, unobserved_weight=0.1)
EXPLICIT = FoldIn("explicit", regularization=1.0, exponent=0.0, rating_range=(1.0, 5.0))


def model_of(ids: list[Any], factors: Any, step: FoldIn = IMPLICIT) -> Recommender:
    report = PrivacyReport(ledger=Ledger(PrivacyTarget(math.inf, 1e-5)))
    items = np.array(factors, dtype=np.float32)
    return Recommender(ItemModel(items, np.array(ids, dtype=object), None, None, step, report))


def random_model(ids: list[Any], seed: int, step: FoldIn = IMPLICIT) -> Recommender:
    return model_of(ids, np.random.default_rng(seed).normal(size=(len(ids), 3)), step)


def random_data(rating: bool = False) -> Interactions:
    user, item = np.nonzero(RNG.random((60, 40)) < 0.3)
    ratings = RNG.integers(1, 6, len(user)) if rating else None
    return Interactions(user, np.array(CATALOG)[item], ratings, items=CATALOG)


DATA = random_data()
RATED = random_data(rating=True)
_, HELD = DATA.hold_out_users(50, history=0.5)
# In another order, without some items of the data, with some that are not in the data.
OTHER_IDS = [*CATALOG[31:4:-1], "new", "newer", *CATALOG[35:38]]


def held_of(
    history: dict[str, list[str]], labels: dict[str, list[str]], items: list[str]
) -> HeldOut:
    pairs = {(user, item): True for user, some in history.items() for item in some}
    pairs |= {(user, item): False for user, some in labels.items() for item in some}
    data = Interactions([user for user, _ in pairs], [item for _, item in pairs], items=items)
    rows = zip(data.user_ids[data.user_of_row], data.item_ids[data.by_user.other], strict=True)
    known = np.array([pairs[row] for row in rows])
    return HeldOut(data.take(known), data.take(~known), np.arange(data.users))


def slow_buckets(ids: list[Any], counts: Any, buckets: int) -> dict[Any, int]:
    order = sorted(range(len(ids)), key=lambda i: (counts[i], i))
    return {ids[i]: place * buckets // len(ids) for place, i in enumerate(order)}


def of_user(data: Interactions, user: int) -> list[Any]:
    start = data.by_user.start
    return data.item_ids[data.by_user.other[start[user] : start[user + 1]]].tolist()


def slow_mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def slow_recall(ranked: list[Any], labels: set[Any], k: int) -> float:
    return len(labels & set(ranked[:k])) / min(k, len(labels))


def slow_ndcg(ranked: list[Any], labels: set[Any], k: int) -> float:
    gain = sum(1 / math.log2(r + 2) for r, item in enumerate(ranked[:k]) if item in labels)
    return gain / sum(1 / math.log2(r + 2) for r in range(min(k, len(labels))))


def slow_reciprocal_rank(ranked: list[Any], labels: set[Any], k: int) -> float:
    return next((1 / r for r, item in enumerate(ranked[:k], 1) if item in labels), 0.0)


def slow_ranking_metrics(
    model: Recommender, held: HeldOut, counts: Any, k: int, k_by_bucket: tuple[int, ...]
) -> RankingMetrics:
    ids = held.labels.item_ids.tolist()
    bucket = slow_buckets(ids, counts, len(k_by_bucket))
    cases = []
    for user, vector in enumerate(model.fold_in_many(held.history)):
        if user in held.users:
            scores = dict(zip(model.item_ids.tolist(), model.items @ vector, strict=True))
            open_to = [item for item in scores if item not in of_user(held.history, user)]
            ranked = sorted(open_to, key=lambda item: -scores[item])
            cases.append((ranked, set(of_user(held.labels, user))))
    seen = {item for ranked, _ in cases for item in ranked[:k]} & set(ids)

    def score(metric: Any, cut: int, inside: set[Any]) -> float:
        kept = [(ranked, labels & inside) for ranked, labels in cases if labels & inside]
        return slow_mean([metric(ranked, labels, cut) for ranked, labels in kept])

    members = [{i for i in ids if bucket[i] == b} for b in range(len(k_by_bucket))]
    slices = list(zip(k_by_bucket, members, strict=True))
    total = sum(counts) + len(ids)
    bits = {item: -math.log2((count + 1) / total) for item, count in zip(ids, counts, strict=True)}
    novelty = [
        slow_mean([bits[item] for item in ranked[:k] if item in bits])
        for ranked, labels in cases
        if labels
    ]
    return RankingMetrics(
        k=k,
        recall=score(slow_recall, k, set(ids)),
        ndcg=score(slow_ndcg, k, set(ids)),
        precision=score(lambda r, la, k: len(la & set(r[:k])) / k, k, set(ids)),
        hit_rate=score(lambda r, la, k: float(bool(la & set(r[:k]))), k, set(ids)),
        mrr=score(slow_reciprocal_rank, k, set(ids)),
        novelty=slow_mean([each for each in novelty if not math.isnan(each)]),
        coverage=len(seen) / len(ids),
        k_by_bucket=k_by_bucket,
        recall_by_bucket=tuple(score(slow_recall, cut, some) for cut, some in slices),
        ndcg_by_bucket=tuple(score(slow_ndcg, cut, some) for cut, some in slices),
        coverage_by_bucket=tuple(slow_mean([i in seen for i in some]) for some in members),
    )


def assert_same(found: RankingMetrics, wanted: RankingMetrics) -> None:
    for name, value in vars(wanted).items():
        np.testing.assert_allclose(getattr(found, name), value, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("ids", [CATALOG, OTHER_IDS], ids=["same items", "other items"])
@pytest.mark.parametrize(
    ("k", "k_by_bucket"),
    [(5, (15, 12, 9, 6, 3)), (1, (1,)), (3, (2,) * 40), (3, (2,) * 60), (100, (100, 30))],
)
def test_ranking(ids: list[str], k: int, k_by_bucket: tuple[int, ...]) -> None:
    model = random_model(ids, seed=1)
    found = ranking_metrics(model, HELD, COUNTS, k, k_by_bucket)
    assert_same(found, slow_ranking_metrics(model, HELD, COUNTS, k, k_by_bucket))


def test_blocks_of_users_and_items_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    model, reference = random_model(CATALOG, seed=1), random_model(CATALOG, seed=2)
    ranking = ranking_metrics(model, HELD, COUNTS)
    overlap = neighbor_overlap(model, reference, COUNTS, k=5)
    # Seven rows of scores at once.
    monkeypatch.setattr("apportion.recommend.scoring.BLOCK_BYTES", 7 * 4 * len(CATALOG))
    assert_same(ranking_metrics(model, HELD, COUNTS), ranking)
    np.testing.assert_allclose(neighbor_overlap(model, reference, COUNTS, k=5), overlap)


def test_users_without_labels_do_not_count_but_are_recommended_to() -> None:
    # The factor orders the items: a, b, c, d. Ann finds b second to a; bob has nothing to find.
    model = model_of(["a", "b", "c", "d"], [[4.0], [3.0], [2.0], [1.0]])
    held = held_of({"ann": ["d"], "bob": ["a", "b"]}, {"ann": ["b"]}, ["a", "b", "c", "d"])
    found = ranking_metrics(model, held, [1, 2, 3, 4], k=2, k_by_bucket=(2, 1))
    assert found.recall == 1.0
    assert found.ndcg == pytest.approx(1 / math.log2(3))
    assert found.coverage == 1.0  # a and b for Ann, c and d for Bob
    np.testing.assert_array_equal(found.recall_by_bucket, [1.0, math.nan])


def test_labels_that_the_model_does_not_know_are_misses() -> None:
    held = held_of({"ann": ["c"]}, {"ann": ["a", "z"]}, ["a", "b", "c", "z"])
    found = ranking_metrics(model_of(["a", "b", "c"], [[2.0], [1.0], [1.0]]), held, [1] * 4, k=3)
    assert found.recall == 0.5
    assert found.ndcg == pytest.approx(1 / (1 + 1 / math.log2(3)))
    assert found.coverage == 0.5


def test_equal_scores_rank_in_the_order_of_the_model() -> None:
    model = model_of(["x", "c", "b", "a"], [[1.0]] * 4)
    held = held_of({"ann": ["x"]}, {"ann": ["c"]}, ["a", "b", "c", "x"])
    assert ranking_metrics(model, held, [1] * 4, k=1).recall == 1.0
    held = held_of({"ann": ["x"]}, {"ann": ["a"]}, ["a", "b", "c", "x"])
    assert ranking_metrics(model, held, [1] * 4, k=2).recall == 0.0


def test_only_held_out_users_count() -> None:
    model = model_of(["a", "b", "c"], [[3.0], [2.0], [1.0]])
    held = held_of(
        {"ann": ["a"], "bob": ["a"]}, {"ann": ["b"], "bob": ["c"]}, model.item_ids.tolist()
    )
    only_ann = HeldOut(held.history, held.labels, np.array([0]))
    assert ranking_metrics(model, held, [1] * 3, k=1).recall == 0.5
    assert ranking_metrics(model, only_ann, [1] * 3, k=1).recall == 1.0


def test_ranking_without_labels_is_refused() -> None:
    nothing = DATA.take(np.zeros(0, dtype=np.int64))
    with pytest.raises(DataError, match="no held-out user has a label"):
        ranking_metrics(
            random_model(CATALOG, 1), HeldOut(HELD.history, nothing, HELD.users), COUNTS
        )


def test_ranking_of_other_users_is_refused() -> None:
    other = held_of({"ann": ["a"]}, {"ann": ["b"]}, ["a", "b"])
    mixed = HeldOut(other.history, HELD.labels, HELD.users)
    with pytest.raises(DataError, match="the same users"):
        ranking_metrics(random_model(CATALOG, 1), mixed, COUNTS)


@pytest.mark.parametrize("ids", [CATALOG, OTHER_IDS], ids=["same items", "other items"])
@pytest.mark.parametrize("buckets", [1, 5, 40])
def test_rating(ids: list[str], buckets: int) -> None:
    history, test = RATED.split((0.8, 0.2))
    model = random_model(ids, 3, EXPLICIT)
    bucket = slow_buckets(CATALOG, COUNTS, buckets)
    squared: list[list[float]] = [[] for _ in range(buckets)]
    predictions = model.predict_many(history, test)
    rows = zip(test.by_user.other, test.by_user.rating, predictions, strict=True)
    for item, rating, prediction in rows:
        squared[bucket[CATALOG[item]]].append((rating - prediction) ** 2)
    found = rating_metrics(model, history, test, COUNTS, buckets)
    assert found.rmse == pytest.approx(math.sqrt(slow_mean([s for some in squared for s in some])))
    wanted = [math.sqrt(slow_mean(some)) for some in squared]
    np.testing.assert_allclose(found.rmse_by_bucket, wanted)


def test_a_bucket_without_test_ratings_is_nan() -> None:
    data = Interactions(["ann", "ann"], ["a", "b"], [5, 3], items=["a", "b", "c"])
    # An item that the model does not know is predicted as the user's mean.
    model = model_of(["a", "c"], [[0.0], [0.0]], EXPLICIT)
    found = rating_metrics(model, data.take([0]), data.take([1]), [30, 20, 10], buckets=3)
    assert found.rmse == pytest.approx(2.0)
    np.testing.assert_array_equal(found.rmse_by_bucket, [math.nan, 2.0, math.nan])


def test_a_test_without_ratings_is_refused() -> None:
    model = random_model(CATALOG, 3, EXPLICIT)
    with pytest.raises(DataError, match="no ratings"):
        rating_metrics(model, DATA, DATA, COUNTS)
    with pytest.raises(DataError, match="no test interactions"):
        rating_metrics(model, RATED, RATED.take(np.zeros(0, dtype=np.int64)), COUNTS)


def slow_neighbors(model: Recommender, ids: list[Any], query: Any, k: int, by: str) -> set[Any]:
    factors = dict(zip(model.item_ids.tolist(), model.items.astype(np.float64), strict=True))

    def near(item: Any) -> float:
        dot = factors[query] @ factors[item]
        return dot / np.linalg.norm(factors[item]) if by == "cosine" else dot

    return set(sorted([i for i in ids if i != query], key=near, reverse=True)[:k])


@pytest.mark.parametrize("by", ["dot", "cosine"])
@pytest.mark.parametrize("ids", [CATALOG, OTHER_IDS], ids=["same items", "other items"])
def test_neighbors(ids: list[str], by: Literal["dot", "cosine"]) -> None:
    model, reference = random_model(CATALOG, 1), random_model(ids, 2)
    bucket = slow_buckets(CATALOG, COUNTS, 4)
    common = [item for item in CATALOG if item in ids]
    shares: list[list[float]] = [[] for _ in range(4)]
    for query in common:
        both = slow_neighbors(model, common, query, 6, by)
        both &= slow_neighbors(reference, common, query, 6, by)
        shares[bucket[query]].append(len(both) / 6)
    found = neighbor_overlap(model, reference, COUNTS, k=6, buckets=4, by=by)
    np.testing.assert_allclose(found, [slow_mean(some) for some in shares])


def test_a_model_has_its_own_neighbors() -> None:
    model = random_model(CATALOG, 1)
    assert neighbor_overlap(model, model, COUNTS, k=3) == (1.0,) * 5


def test_more_neighbors_than_items_are_all_of_them() -> None:
    model, reference = random_model(CATALOG, 1), random_model(CATALOG, 2)
    assert neighbor_overlap(model, reference, COUNTS, k=100) == (1.0,) * 5


def test_factors_that_are_not_finite_have_no_neighbors() -> None:
    lost = model_of(CATALOG, np.full((40, 3), np.nan))
    assert neighbor_overlap(lost, lost, COUNTS, k=3) == (0.0,) * 5


def test_a_bucket_without_common_items_is_nan() -> None:
    model = model_of(["a", "b", "c", "d"], [[1.0]] * 4)
    reference = model_of(["d", "c"], [[1.0]] * 2)
    found = neighbor_overlap(model, reference, [1, 2, 3, 4], buckets=2)
    np.testing.assert_array_equal(found, [math.nan, 1.0])


def test_models_without_common_items_are_refused() -> None:
    with pytest.raises(DataError, match="fewer than two items in common"):
        neighbor_overlap(random_model(["a", "b"], 1), random_model(["b", "c"], 1), [1, 1])


@pytest.mark.parametrize("counts", [COUNTS[:-1], [math.nan] * 40, ["1"] * 40])
def test_counts_must_be_one_number_per_item(counts: Any) -> None:
    model = random_model(CATALOG, 1)
    with pytest.raises(ParameterError, match="counts must be 40 numbers"):
        ranking_metrics(model, HELD, counts)
    with pytest.raises(ParameterError, match="counts must be 40 numbers"):
        rating_metrics(model, RATED, RATED, counts)
    with pytest.raises(ParameterError, match="counts must be 40 numbers"):
        neighbor_overlap(model, model, counts)


def test_more_pairs_of_users_and_items_than_32_bits_count() -> None:
    # Everybody has seen item 0 and likes item 1, which everybody is told.
    users, items = 3000, 1_000_000
    data = Interactions(np.repeat(np.arange(users), 2), np.tile([0, 1], users), items=items)
    second = np.arange(2 * users) % 2 == 1
    held = HeldOut(data.take(~second), data.take(second), np.arange(users - 3, users))
    factors = np.zeros((items, 1), dtype=np.float32)
    factors[:2, 0] = 1.0, 2.0
    report = PrivacyReport(ledger=Ledger(PrivacyTarget(math.inf, 1e-5)))
    model = Recommender(ItemModel(factors, data.item_ids, None, None, IMPLICIT, report))
    assert ranking_metrics(model, held, np.ones(items), 5, (5,)).recall == 1.0
