"""Folding in, recommending, predicting and comparing items, against plain NumPy."""

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

import apportion as ap
from apportion.privacy import Ledger, PrivacyTarget
from apportion.recommend import FoldIn, ItemModel, Recommender

ITEMS, FACTORS = 9, 3
REPORT = ap.PrivacyReport(ledger=Ledger(PrivacyTarget(math.inf, 1e-5)))
EXPLICIT = FoldIn("explicit", 0.3, 0.5, mean=3.0, rating_range=(1.0, 5.0))
IMPLICIT = FoldIn("implicit", 0.3, 0.5, unobserved_weight=0.2, center="none")
SINGLE = 1e-5  # users are solved in single precision


INTERCEPTS = np.array([0.5, -0.25, 1.5, 0.0, -1.0, 0.75, 0.125, -0.5, 2.0], dtype=np.float32)


def recommender(
    step: FoldIn, ids: Any = None, counts: Any = None, intercepts: Any = None
) -> Recommender:
    items = np.random.default_rng(0).normal(size=(ITEMS, FACTORS)).astype(np.float32)
    item_ids = np.arange(ITEMS) * 10 if ids is None else np.array(ids, dtype=object)
    return Recommender(ItemModel(items, item_ids, counts, None, step, REPORT, intercepts))


def alike(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    """The same items in the same order; products of other shapes may differ in the last bits."""
    same = one.drop("score").equals(other.drop("score"))
    return same and np.allclose(one["score"], other["score"], rtol=1e-6, atol=1e-6)


def solve(model: Recommender, places: list[int], y: Any) -> Any:
    step, items = model.released.fold_in, model.items.astype(float)
    own = items[places]
    A = own.T @ own + step.unobserved_weight * items.T @ items
    A += step.regularization * len(places) ** step.exponent * np.eye(FACTORS)
    return np.linalg.solve(A, own.T @ np.asarray(y, dtype=float))


class TestOneUser:
    def test_implicit(self) -> None:
        model = recommender(IMPLICIT)
        expected = solve(model, [1, 4], [1, 1])
        np.testing.assert_allclose(model.fold_in([10, 40]), expected, rtol=SINGLE)
        np.testing.assert_allclose(model.fold_in({10: 5.0, 40: 1.0}), expected, rtol=SINGLE)
        scores = model.items.astype(float) @ expected
        np.testing.assert_allclose(model.predict([40, 10], [0, 80]), scores[[0, 8]], rtol=SINGLE)
        ids, best = model.recommend([10, 40], k=4)
        order = [place for place in np.argsort(-scores) if place not in (1, 4)][:4]
        assert ids.tolist() == [10 * place for place in order]
        np.testing.assert_allclose(best, scores[order], rtol=1e-5)

    def test_explicit(self) -> None:
        model = recommender(EXPLICIT)
        history = {10: 5.0, 40: 2.0, 70: 2.0}
        vector = solve(model, [1, 4, 7], [2, -1, -1])
        np.testing.assert_allclose(model.fold_in(history), vector, rtol=SINGLE)
        expected = np.clip(3 + model.items.astype(float) @ vector, 1, 5)
        np.testing.assert_allclose(model.predict(history, model.item_ids), expected, rtol=SINGLE)

    def test_one_mean_for_all(self) -> None:
        model = recommender(replace(EXPLICIT, center="global", mean=3.5))
        np.testing.assert_allclose(model.fold_in({10: 5.0}), solve(model, [1], [1.5]), rtol=SINGLE)

    def test_history_may_be_recommended_if_wanted(self) -> None:
        model = recommender(IMPLICIT)
        assert set(model.recommend([10], k=ITEMS, exclude=False)[0]) == set(model.item_ids)
        assert set(model.recommend([10], k=100)[0]) == set(model.item_ids) - {10}

    def test_items_named_twice_count_once(self) -> None:
        model = recommender(IMPLICIT)
        np.testing.assert_array_equal(model.fold_in([10, 10, 40]), model.fold_in([40, 10]))

    def test_unknown_items(self) -> None:
        model = recommender(EXPLICIT)
        with pytest.raises(ap.DataError, match="history: item 11 is not in the model's catalog"):
            model.recommend({10: 5.0, 11: 3.0})
        with pytest.raises(ap.DataError, match="by whole numbers"):
            model.recommend({"10": 5.0})
        with pytest.raises(ap.DataError, match="items: item 12 is not in"):
            model.predict({10: 5.0}, [12])
        # An unknown item says nothing about taste, but its rating belongs to the user's mean.
        vector = model.fold_in({10: 5.0, 11: 3.0}, unknown="ignore")
        np.testing.assert_allclose(vector, solve(model, [1], [1.0]), rtol=SINGLE)

    def test_no_history(self) -> None:
        model = recommender(EXPLICIT)
        np.testing.assert_allclose(model.predict({}, [0, 10]), [3.0, 3.0])
        assert len(model.recommend({}, k=3)[0]) == 3

    def test_newcomers_get_what_is_popular(self) -> None:
        counts = np.array([1, 9, 3, 4, 2, 8, 1, 1, 1], dtype=float)
        model = recommender(IMPLICIT, counts=counts)
        ids, scores = model.recommend([], k=3)
        assert ids.tolist() == [10, 50, 30]
        np.testing.assert_array_equal(scores, 0.0)

    def test_a_history_that_says_nothing(self) -> None:
        # All ratings are equal: less the user's mean, nothing is left.
        counts = np.arange(ITEMS, dtype=float)
        ids, scores = recommender(EXPLICIT, counts=counts).recommend({80: 5.0, 0: 5.0}, k=2)
        assert ids.tolist() == [70, 60]
        np.testing.assert_array_equal(scores, 5.0)

    def test_what_it_is_shows(self) -> None:
        shown = repr(recommender(IMPLICIT))
        assert shown.startswith("Recommender(9 items, 3 factors, implicit: NOT PRIVATE")

    def test_ratings_are_needed_and_checked(self) -> None:
        model = recommender(EXPLICIT)
        with pytest.raises(ap.DataError, match="trained on ratings"):
            model.recommend([10, 20])
        wrong: Any
        for wrong in (0.5, 6.0, math.nan, "5", None):
            with pytest.raises(ap.DataError, match="the rating in row 0"):
                model.fold_in({10: wrong})

    def test_wrong_arguments(self) -> None:
        model = recommender(IMPLICIT)
        with pytest.raises(ap.ParameterError, match="k must be"):
            model.recommend([10], k=0)
        with pytest.raises(ap.ParameterError, match="unknown must be"):
            model.recommend([10], unknown="drop")
        with pytest.raises(ap.DataError, match="history must be a list"):
            model.recommend(10)

    def test_string_ids(self) -> None:
        model = recommender(IMPLICIT, ids=[f"item {place}" for place in range(ITEMS)])
        ids, _ = model.recommend(["item 3"], k=2)
        assert all(isinstance(value, str) for value in ids)
        with pytest.raises(ap.DataError, match="history"):
            model.recommend("item 3")


class TestManyUsers:
    def data(self) -> ap.Interactions:
        user = ["ann", "ann", "bob", "bob", "cy", "dee"]
        item = [10, 40, 40, 999, 999, 0]
        return ap.Interactions(
            user, item, [5, 2, 4, 1, 2, 3], items=[0, 10, 40, 50, 999], rating_range=(1, 5)
        )

    @pytest.mark.parametrize("step", [EXPLICIT, IMPLICIT], ids=["explicit", "implicit"])
    @pytest.mark.parametrize("intercepts", [None, INTERCEPTS], ids=["without", "with intercepts"])
    def test_same_as_one_by_one(self, step: FoldIn, intercepts: Any) -> None:
        model, data = recommender(step, intercepts=intercepts), self.data()
        vectors = model.fold_in_many(data)
        table = model.recommend_many(data, k=5)
        predictions = model.predict_many(data, data)
        for user, name in enumerate(data.user_ids):
            rows = slice(data.by_user.start[user], data.by_user.start[user + 1])
            assert data.by_user.rating is not None
            ids, ratings = data.item_ids[data.by_user.other[rows]], data.by_user.rating[rows]
            history = dict(zip(ids.tolist(), ratings.tolist(), strict=True))
            # To the last bit: nobody's list depends on who else is asked for.
            own_vector = model.fold_in(history, unknown="ignore")
            np.testing.assert_array_equal(vectors[user], own_vector)
            best, scores = model.recommend(history, k=5, unknown="ignore")
            own = table.filter(table["user"] == name)
            assert own["item"].to_list() == best.tolist()
            assert own["rank"].to_list() == [1, 2, 3, 4, 5]
            np.testing.assert_array_equal(own["score"], scores)
            known = [key for key in history if key in model.item_ids]
            expected: Any = model.predict(history, known, unknown="ignore") if known else []
            np.testing.assert_array_equal(predictions[rows][np.isin(ids, known)], expected)

    @pytest.mark.parametrize("factors", [3, 20, 48])
    @pytest.mark.parametrize("step", [EXPLICIT, IMPLICIT], ids=["explicit", "implicit"])
    def test_bits_do_not_depend_on_who_else_is_asked_for(self, step: FoldIn, factors: int) -> None:
        rng = np.random.default_rng(1)
        items = rng.normal(size=(300, factors)).astype(np.float32)
        counts = np.arange(300.0)
        model = Recommender(ItemModel(items, np.arange(300), counts, None, step, REPORT))
        # Histories of 0 to 250 items, beyond the factors and far below.
        pairs = [
            (user, item, float(rng.integers(1, 6)))
            for user in range(60)
            for item in rng.permutation(300)[: int(250 * (user / 59) ** 4)]
        ]
        user, item, rating = map(np.array, zip(*pairs, strict=True))
        data = ap.Interactions(user, item, rating, items=np.arange(300), rating_range=(1, 5))
        vectors, predicted = model.fold_in_many(data), model.predict_many(data, data)
        _, places, scores = next(model.recommend_blocks(data, 20))
        assert len(places) == data.users > 10
        for one in range(data.users):
            some = [one, (one + 7) % data.users, (3 * one) % data.users][: 1 + one % 3]
            [(_, its_places, its_scores)] = model.recommend_blocks(data, 20, users=some)
            np.testing.assert_array_equal(its_places[0], places[one])
            np.testing.assert_array_equal(its_scores[0], scores[one])
            rows = slice(data.by_user.start[one], data.by_user.start[one + 1])
            assert data.by_user.rating is not None
            ids = data.item_ids[data.by_user.other[rows]]
            history = dict(zip(ids.tolist(), data.by_user.rating[rows].tolist(), strict=True))
            np.testing.assert_array_equal(model.fold_in(history), vectors[one])
            np.testing.assert_array_equal(model.predict(history, ids), predicted[rows])

    def test_unknown_item_is_predicted_as_the_mean(self) -> None:
        model, data = recommender(EXPLICIT), self.data()
        unknown = data.item_ids[data.by_user.other] == 999
        means = {"bob": 2.5, "cy": 2.0}
        expected = [means[data.user_ids[user]] for user in data.user_of_row[unknown]]
        np.testing.assert_allclose(model.predict_many(data, data)[unknown], expected)

    def test_blocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from apportion.recommend import scoring as module

        model, data = recommender(IMPLICIT), self.data()
        whole = model.recommend_many(data, k=3)
        monkeypatch.setattr(module, "BLOCK_BYTES", 1)
        assert len(list(model.recommend_blocks(data, 3))) == data.users
        assert alike(whole, model.recommend_many(data, k=3))
        some = [block[0].tolist() for block in model.recommend_blocks(data, 3, users=[2, 0])]
        assert some == [[2], [0]]

    def test_lists_end_where_the_catalog_does(self) -> None:
        model = recommender(IMPLICIT)
        data = ap.Interactions([1] * 7 + [2], [*range(0, 70, 10), 0], items=model.item_ids)
        table = model.recommend_many(data, k=8)
        assert table.group_by("user", maintain_order=True).len()["len"].to_list() == [2, 8]
        assert table["score"].is_finite().all()

    def test_wrong_arguments(self) -> None:
        model, data = recommender(EXPLICIT), self.data()
        with pytest.raises(ap.ParameterError, match="users must be numbers"):
            model.recommend_blocks(data, 3, users=[True, False])
        with pytest.raises(ap.ParameterError, match="users must be numbers"):
            model.recommend_blocks(data, 3, users=[99])
        with pytest.raises(ap.ParameterError, match="k must be"):
            model.recommend_blocks(data, 0)
        with pytest.raises(ap.DataError, match="Interactions"):
            model.fold_in_many([[10]])
        with pytest.raises(ap.DataError, match="same users"):
            model.predict_many(data, ap.Interactions(["z"], [10], [3.0], items=[10]))
        with pytest.raises(ap.DataError, match="trained on ratings"):
            model.fold_in_many(ap.Interactions(["z"], [10], items=[10]))
        with pytest.raises(ap.DataError, match="by strings or by numbers"):
            model.fold_in_many(ap.Interactions(["z"], ["10"], [3.0], items=["10"]))

    def test_nobody(self) -> None:
        model = recommender(IMPLICIT)
        nobody = ap.Interactions([], [], items=model.item_ids)
        assert len(model.recommend_many(nobody)) == 0
        assert model.fold_in_many(nobody).shape == (0, FACTORS)


class TestIntercepts:
    """A rating is the user's mean, the item's intercept and what the vectors say, in this order."""

    history: ClassVar = {10: 5.0, 40: 2.0, 70: 2.0}
    places: ClassVar = [1, 4, 7]
    # Ratings less the intercepts of their items, and the mean of those.
    offset = np.array([5.25, 3.0, 2.5])
    mean = 10.75 / 3

    def expected(self, model: Recommender) -> Any:
        vector = solve(model, self.places, self.offset - self.mean)
        return self.mean + INTERCEPTS + model.items.astype(float) @ vector

    def test_predictions(self) -> None:
        model = recommender(EXPLICIT, intercepts=INTERCEPTS)
        vector = solve(model, self.places, self.offset - self.mean)
        np.testing.assert_allclose(model.fold_in(self.history), vector, rtol=SINGLE)
        found = model.predict(self.history, model.item_ids)
        np.testing.assert_allclose(found, np.clip(self.expected(model), 1, 5), rtol=SINGLE)
        some = model.predict(self.history, [80, 20, 20])
        np.testing.assert_allclose(some, found[[8, 2, 2]])

    def test_recommendations(self) -> None:
        model = recommender(EXPLICIT, intercepts=INTERCEPTS)
        expected = self.expected(model)
        order = [place for place in np.argsort(-expected) if place not in self.places]
        ids, scores = model.recommend(self.history, k=ITEMS)
        assert ids.tolist() == [10 * place for place in order]
        np.testing.assert_allclose(scores, expected[order], rtol=1e-5)
        # They matter: without them the order is another one.
        without = recommender(EXPLICIT).recommend(self.history, k=ITEMS)[0]
        assert ids.tolist() != without.tolist()

    @pytest.mark.parametrize(("center", "subtracted"), [("global", 3.5), ("none", 0.0)])
    def test_one_mean_for_all(self, center: Any, subtracted: float) -> None:
        step = replace(EXPLICIT, center=center, mean=3.5)
        model = recommender(step, intercepts=INTERCEPTS)
        vector = solve(model, self.places, self.offset - subtracted)
        np.testing.assert_allclose(model.fold_in(self.history), vector, rtol=SINGLE)

    def test_many_users(self) -> None:
        model = recommender(EXPLICIT, intercepts=INTERCEPTS)
        data = ap.Interactions(
            ["a"] * 3 + ["b"] * 2, [10, 40, 70, 0, 999], [5, 2, 2, 4, 3],
            items=[*model.item_ids, 999], rating_range=(1, 5),
        )  # fmt: skip
        every = ap.Interactions(
            ["a"] * 10 + ["b"] * 10, [*model.item_ids, 999] * 2, [3.0] * 20,
            items=[*model.item_ids, 999],
        )  # fmt: skip
        found = model.predict_many(data, every)
        np.testing.assert_allclose(found[:9], np.clip(self.expected(model), 1, 5), rtol=SINGLE)
        assert found[9] == pytest.approx(self.mean)  # an unknown item has no intercept
        # The second user: an unknown item says nothing about taste, but belongs to its mean, as it is.
        mean = (3.5 + 3.0) / 2
        vector = solve(model, [0], [3.5 - mean])
        np.testing.assert_allclose(model.fold_in_many(data)[1], vector, rtol=SINGLE)
        expected = np.clip(mean + INTERCEPTS + model.items.astype(float) @ vector, 1, 5)
        np.testing.assert_allclose(found[10:19], expected, rtol=SINGLE)
        assert found[19] == pytest.approx(mean)
        table = model.recommend_many(data, k=ITEMS)
        own = table.filter(table["user"] == "a")
        ids, scores = model.recommend(self.history, k=ITEMS)
        assert own["item"].to_list() == ids.tolist()
        np.testing.assert_array_equal(own["score"], scores)

    def test_unknown_items_of_one_user(self) -> None:
        model = recommender(EXPLICIT, intercepts=INTERCEPTS)
        vector = model.fold_in({0: 4.0, 999: 3.0}, unknown="ignore")
        np.testing.assert_allclose(vector, solve(model, [0], [0.25]), rtol=SINGLE)
        # Nothing but unknown items: the mean is theirs.
        found = model.predict({999: 2.0, 998: 3.0}, [20, 30], unknown="ignore")
        np.testing.assert_allclose(found, [2.5 + 1.5, 2.5])

    def test_newcomers(self) -> None:
        model = recommender(EXPLICIT, intercepts=INTERCEPTS)
        np.testing.assert_allclose(model.predict({}, [10, 20, 80]), [2.75, 4.5, 5.0])
        # Who is not known gets what is liked, by the rule that predicts, also where counts are known.
        assert model.recommend({}, k=3)[0].tolist() == [80, 20, 50]
        counts = np.array([1, 9, 3, 4, 2, 8, 1, 1, 1], dtype=float)
        model = recommender(EXPLICIT, counts=counts, intercepts=INTERCEPTS)
        ids, scores = model.recommend({}, k=9)
        assert ids[:3].tolist() == [80, 20, 50]
        np.testing.assert_allclose(scores, model.predict({}, ids))

    def test_unknown_items_may_be_left_out_of_every_list(self) -> None:
        model = recommender(EXPLICIT, intercepts=INTERCEPTS)
        named: dict[str, Any] = {"exclude": [20, 999], "items": [10, 20, 30, 998]}
        ids, _ = model.recommend({0: 4.0}, k=5, unknown="ignore", **named)
        assert sorted(ids.tolist()) == [10, 30]
        for name in named:
            with pytest.raises(ap.DataError, match=f"{name}: item 99[89] is not in the model"):
                model.recommend({0: 4.0}, **{name: named[name]})

    @pytest.mark.parametrize("intercepts", [None, INTERCEPTS[:0]], ids=["without", "with"])
    def test_a_model_without_items(self, intercepts: Any) -> None:
        items, ids = np.zeros((0, FACTORS), np.float32), np.zeros(0, np.int64)
        model = Recommender(ItemModel(items, ids, None, None, EXPLICIT, REPORT, intercepts))
        data = ap.Interactions([1, 1], [7, 8], [2.0, 3.0], items=[7, 8])
        np.testing.assert_array_equal(model.predict_many(data, data), [2.5, 2.5])
        np.testing.assert_array_equal(model.fold_in_many(data), np.zeros((1, FACTORS)))
        assert len(model.recommend({7: 2.0}, unknown="ignore")[0]) == 0

    def test_blocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from apportion.recommend import scoring as module

        model = recommender(EXPLICIT, intercepts=INTERCEPTS)
        data = TestManyUsers().data()
        whole = model.predict_many(data, data), model.recommend_many(data, k=3)
        monkeypatch.setattr(module, "BLOCK_BYTES", 1)
        np.testing.assert_array_equal(model.predict_many(data, data), whole[0])
        assert alike(model.recommend_many(data, k=3), whole[1])

    def test_similarity_is_of_tastes_alone(self) -> None:
        pair = (recommender(EXPLICIT), recommender(EXPLICIT, intercepts=INTERCEPTS))
        found = [model.similar_items(20)[1].tolist() for model in pair]
        assert found[0] == found[1]


class TestSimilarItems:
    @pytest.mark.parametrize("by", ["dot", "cosine"])
    def test_one_and_many(self, by: Any) -> None:
        model = recommender(IMPLICIT)
        factors = model.items.astype(float)
        if by == "cosine":
            factors /= np.linalg.norm(factors, axis=1, keepdims=True)
        similar = factors @ factors.T
        np.fill_diagonal(similar, -np.inf)
        ids, scores = model.similar_items([20, 50], k=4, by=by)
        for row, place in enumerate((2, 5)):
            order = np.argsort(-similar[place])[:4]
            assert ids[row].tolist() == (10 * order).tolist()
            np.testing.assert_allclose(scores[row], similar[place][order], rtol=1e-5)
            alone = model.similar_items(10 * place, k=4, by=by)
            assert alone[0].tolist() == ids[row].tolist()
            np.testing.assert_array_equal(alone[1], scores[row])

    def test_wrong_arguments(self) -> None:
        model = recommender(IMPLICIT)
        with pytest.raises(ap.DataError, match="item: item 5 is not in the model's catalog"):
            model.similar_items(5)
        with pytest.raises(ap.ParameterError, match="by must be"):
            model.similar_items(10, by="l2")
        with pytest.raises(ap.DataError, match="need an item"):
            model.similar_items([])
        assert len(model.similar_items(10, k=100)[0]) == ITEMS - 1
