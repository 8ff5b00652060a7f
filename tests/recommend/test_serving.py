"""What serving needs: one rule for scores, candidates, diversity, histories as people have them."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import apportion as ap
from apportion.recommend.recommender import Recommender

DATA = ap.simulate_interactions(users=600, items=80, rows=12_000)
RATINGS = ap.MatrixFactorization(4, 2, epsilon=8.0, noise_seed=1).fit(DATA)
EVENTS = ap.MatrixFactorization(4, 2, "implicit", epsilon=8.0, noise_seed=1).fit(DATA)
HISTORIES: list[Any] = [{17: 5.0}, {17: 5.0, 3: 1.0}, {1: 3.0, 2: 3.0}, {}]


def given(model: Recommender, history: dict[int, float]) -> Any:
    return history if model is RATINGS else list(history)


@pytest.mark.parametrize("model", [RATINGS, EVENTS], ids=["ratings", "events"])
@pytest.mark.parametrize("history", HISTORIES, ids=str)
def test_recommend_and_predict_agree(model: Recommender, history: dict[int, float]) -> None:
    items, scores = model.recommend(given(model, history), k=80)
    assert len(items) == 80 - len(history)
    np.testing.assert_allclose(scores, model.predict(given(model, history), items), atol=1e-5)
    assert (np.diff(scores) <= 0).all()


def test_scores_of_ratings_are_in_the_range() -> None:
    loud = RATINGS.released
    model = Recommender(
        ap.recommend.ItemModel(
            50 * loud.items, loud.item_ids, loud.counts, None, loud.fold_in, loud.privacy
        )
    )
    items, scores = model.recommend({17: 5.0, 3: 1.0}, k=78)
    assert (scores.min(), scores.max()) == (1.0, 5.0)
    # In the order of what was not yet brought into the range: not of the catalog.
    assert items[scores == 5.0].tolist() != sorted(items[scores == 5.0].tolist())


class TestCandidates:
    def test_excluded_ids_are_left_out_besides_the_history(self) -> None:
        before, _ = RATINGS.recommend({17: 5.0, 3: 1.0}, k=10)
        after, _ = RATINGS.recommend({17: 5.0, 3: 1.0}, k=9, exclude=before[:1])
        assert after.tolist() == before[1:].tolist()

    def test_a_set_a_series_and_an_array_are_lists(self) -> None:
        expected = RATINGS.recommend({17: 5.0}, exclude=[5, 6])[0].tolist()
        for ids in ({5, 6}, np.array([5, 6]), pd.Series([5, 6]), pl.Series([5, 6]), (5, 6)):
            assert RATINGS.recommend({17: 5.0}, exclude=ids)[0].tolist() == expected

    @pytest.mark.parametrize("one", ["138", 138, None, 1.0])
    def test_one_id_or_nothing_is_refused(self, one: Any) -> None:
        with pytest.raises(ap.ParameterError, match="exclude must be True"):
            RATINGS.recommend({17: 5.0}, exclude=one)

    def test_only_these_items(self) -> None:
        items, scores = RATINGS.recommend({17: 5.0, 3: 1.0}, items=[9, 3, 40, 11])
        assert sorted(items.tolist()) == [9, 11, 40]
        np.testing.assert_allclose(scores, RATINGS.predict({17: 5.0, 3: 1.0}, items), atol=1e-5)
        with pytest.raises(ap.ParameterError, match="items must be a list"):
            RATINGS.recommend({17: 5.0}, items=9)

    @pytest.mark.parametrize("option", ["items", "exclude"])
    def test_unknown_ids_are_named(self, option: str) -> None:
        with pytest.raises(ap.DataError, match=f"{option}: item 138 is not in the model's catalog"):
            RATINGS.recommend({17: 5.0}, **{option: [3, 138]})

    def test_of_many_users(self) -> None:
        table = RATINGS.recommend_many(DATA, k=80, items=[1, 2, 3], exclude=[3])
        assert set(table["item"].to_list()) <= {1, 2}


class TestDiversity:
    def test_it_costs_score_and_brings_difference(self) -> None:
        def likeness(items: Any) -> float:
            factors = RATINGS.items[items]
            factors = factors / np.linalg.norm(factors, axis=1, keepdims=True)
            return float((factors @ factors.T).sum() - len(items))

        plain, best = RATINGS.recommend({17: 5.0, 3: 1.0}, k=8)
        varied, scores = RATINGS.recommend({17: 5.0, 3: 1.0}, k=8, diversity=0.7)
        assert (varied[0], len(set(varied.tolist()))) == (plain[0], 8)
        assert likeness(varied) < likeness(plain)
        assert scores.sum() < best.sum()
        np.testing.assert_allclose(scores, RATINGS.predict({17: 5.0, 3: 1.0}, varied), atol=1e-5)

    def test_none_is_the_order_of_scores(self) -> None:
        plain, tiny = (RATINGS.recommend({17: 5.0}, diversity=each)[0] for each in (0, 1e-9))
        assert plain.tolist() == tiny.tolist()

    def test_a_small_catalog(self) -> None:
        items, _ = RATINGS.recommend({17: 5.0}, k=20, items=[1, 2], diversity=0.5)
        assert sorted(items.tolist()) == [1, 2]
        with pytest.raises(ap.ParameterError, match="diversity"):
            RATINGS.recommend({17: 5.0}, diversity=1.5)


class TestHistories:
    @pytest.mark.parametrize(
        "history",
        [
            pd.Series([5.0, 1.0], index=[17, 3]),
            pd.DataFrame({"item": [17, 3], "rating": [5.0, 1.0]}),
            pl.DataFrame({"item": [17, 3], "rating": [5.0, 1.0], "when": [1, 2]}),
            pl.LazyFrame({"item": [17, 3], "rating": [5.0, 1.0]}),
            pl.DataFrame({"item": [17, 3], "rating": [5.0, 1.0]}).to_arrow(),
        ],
        ids=["Series", "pandas", "polars", "lazy", "pyarrow"],
    )
    def test_of_ratings(self, history: Any) -> None:
        expected = RATINGS.recommend({17: 5.0, 3: 1.0})[1]
        np.testing.assert_array_equal(RATINGS.recommend(history)[1], expected)

    @pytest.mark.parametrize(
        "history",
        [
            pd.Series([17, 3]),
            pl.Series([17, 3]),
            pd.DataFrame({"item": [17, 3]}),
            {17: 5.0, 3: 1.0},
        ],
        ids=["pandas", "polars", "table", "dict"],
    )
    def test_of_events(self, history: Any) -> None:
        np.testing.assert_array_equal(EVENTS.recommend(history)[1], EVENTS.recommend([17, 3])[1])

    def test_wrong_ones(self) -> None:
        with pytest.raises(ap.DataError, match="needs columns item and rating"):
            RATINGS.recommend(pd.DataFrame({"item": [17]}))
        with pytest.raises(ap.DataError, match="same item twice"):
            RATINGS.recommend(pd.DataFrame({"item": [17, 17], "rating": [1.0, 2.0]}))
        with pytest.raises(ap.DataError, match="same item twice"):
            RATINGS.recommend(pd.Series([1.0, 2.0], index=[17, 17]))
        with pytest.raises(ap.DataError, match="pandas Series"):
            RATINGS.recommend([17, 3])
        with pytest.raises(ap.DataError, match="whole numbers"):
            RATINGS.recommend({"17": 5.0})

    def test_a_table_of_many(self) -> None:
        frame = pl.DataFrame({"user": ["a", "b"], "item": [17, 999], "rating": [5.0, 2.0]})
        table = RATINGS.recommend_many(frame, k=3)
        assert table["user"].to_list() == ["a"] * 3 + ["b"] * 3
        assert table["item"].to_list()[:3] == RATINGS.recommend({17: 5.0}, k=3)[0].tolist()
        assert RATINGS.recommend_many(frame.lazy(), k=3).equals(table)
        assert len(EVENTS.recommend_many(frame.drop("rating"), k=3)) == 6
        with pytest.raises(ap.DataError, match="columns user and item"):
            RATINGS.recommend_many([17])


def test_what_was_made_serves_later_calls_until_another_fit() -> None:
    model = ap.MatrixFactorization(2, 1, epsilon=8.0, noise_seed=1).fit(DATA)
    first = model._scorer
    model.recommend({17: 5.0})
    assert model._scorer is first
    before = model.predict({17: 5.0, 3: 1.0}, [1, 2])
    model.set_params(noise_seed=2).fit(DATA)
    assert model._scorer is not first
    assert not np.array_equal(model.predict({17: 5.0, 3: 1.0}, [1, 2]), before)
