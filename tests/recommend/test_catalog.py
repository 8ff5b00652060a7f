"""Items chosen from private counts."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import apportion as ap
from tests.machines import this_much_memory


def data(public: bool = False, users: int = 600) -> ap.Interactions:
    """Item "k" is had by one user in k + 1, and every user has one item of its own."""
    user = np.repeat(np.arange(users), 6)
    item = np.empty(len(user), dtype=object)
    for row in range(len(user)):
        who, what = divmod(row, 6)
        item[row] = f"own {who}" if what == 5 or who % (what + 1) else f"common {what}"
    return ap.Interactions(user, item, items="public" if public else None)


class TestPrivate:
    def test_common_items_are_found_and_lone_ones_are_not(self) -> None:
        model = ap.MatrixFactorization(
            2, 1, "implicit", epsilon=4.0, catalog=ap.PrivateCatalog(share=0.5, cap=6)
        ).fit(data())
        assert set(model.item_ids) >= {"common 0", "common 1", "common 2"}
        assert not any(name.startswith("own") for name in model.item_ids)
        assert list(model.item_ids) == sorted(model.item_ids)
        assert model.privacy.epsilon == pytest.approx(4.0)
        assert model.privacy.private

    def test_delta_is_split_and_adds_up(self) -> None:
        catalog = ap.PrivateCatalog(share=0.5, delta_share=0.25, cap=6)
        model = ap.MatrixFactorization(
            2, 1, "implicit", epsilon=4.0, delta=1e-6, catalog=catalog
        ).fit(data())
        ledger = model.privacy.ledger
        [record] = [record for record in ledger if record.delta > 0]
        assert record.delta == 0.25e-6
        assert ap.epsilon_from_mu(ledger.mu, 0.75e-6) == pytest.approx(4.0)
        again = ap.PrivacyReport.from_json(model.privacy.to_json())
        assert again.epsilon == model.privacy.epsilon

    def test_counts_serve_the_allocation(self) -> None:
        model = ap.MatrixFactorization(
            2, 1, "implicit", epsilon=4.0, catalog=ap.PrivateCatalog(share=0.5, cap=6)
        ).fit(data())
        assert [record.name for record in model.privacy.ledger].count("counts") == 1
        counts = dict(zip(model.item_ids, model.released.counts, strict=True))
        assert counts["common 0"] == pytest.approx(600, abs=30)

    def test_how_many_items_are_found_decides_no_error(self) -> None:
        # A user with many items of its own would decide whether a model "fits into the memory".
        settings: dict[str, Any] = {"factors": 2, "sweeps": 1, "feedback": "implicit"}
        private = ap.PrivateCatalog(share=0.5, cap=6)
        with this_much_memory(8 * 2 * 100):
            model = ap.MatrixFactorization(**settings, epsilon=4.0, catalog=private).fit(data())
            assert len(model.item_ids) <= 100 < data().items
            for public in (
                ap.MatrixFactorization(**settings, epsilon=math.inf, catalog=private),
                ap.MatrixFactorization(**settings, epsilon=4.0),
            ):
                with pytest.raises(ap.DataError, match="does not fit into the memory"):
                    public.fit(data(public=True))
        with (
            this_much_memory(8),
            pytest.raises(ap.DataError, match="does not fit") as refused,  # by what was released
        ):
            ap.MatrixFactorization(**settings, epsilon=4.0, catalog=private).fit(data())
        assert "releases: 1" in refused.value.__notes__[0]

    @pytest.mark.parametrize("users", [1, 2, 600])
    def test_a_cap_beyond_the_grid_is_refused_whatever_the_data(self, users: int) -> None:
        catalog = ap.PrivateCatalog(share=1e-9, cap=2**50)
        with pytest.raises(ap.ParameterError, match="is too large for a cost"):
            ap.MatrixFactorization(2, 1, "implicit", epsilon=1e-3, catalog=catalog).fit(
                data(users=users)
            )

    def test_items_that_no_longer_count_are_not_found(self) -> None:
        # Low-rated items are no events: they must not be released by chance, however many there are.
        rows = 20_000
        user = np.concatenate([np.arange(300), np.full(rows, 999)])
        item = np.concatenate([np.zeros(300, int), np.arange(1, rows + 1)])
        rating = np.concatenate([np.full(300, 5.0), np.ones(rows)])
        events = ap.Interactions(user, item, rating).positives(4)
        catalog = ap.PrivateCatalog(share=0.5, delta_share=0.5, cap=1)
        model = ap.MatrixFactorization(
            1, 1, "implicit", epsilon=9.0, delta=1e-3, catalog=catalog
        ).fit(events)
        assert model.item_ids.tolist() == [0]

    def test_the_type_of_ids_depends_on_released_ones_only(self, tmp_path: Path) -> None:
        rows = [(user, item) for user in range(300) for item in (7, 11)]
        catalog = ap.PrivateCatalog(share=0.5, cap=2)
        settings = {"epsilon": 9.0, "catalog": catalog, "noise_seed": 0}

        def released(extra: list[tuple[object, object]]) -> tuple[list[object], object]:
            text = "user,item\n" + "".join(f"{user},{item}\n" for user, item in rows + extra)
            (tmp_path / "rows.csv").write_text(text)
            data = ap.Interactions.from_path(tmp_path / "rows.csv", rating=None)
            ids = ap.MatrixFactorization(1, 1, "implicit", **settings).fit(data).item_ids
            return ids.tolist(), ids.dtype

        assert released([]) == released([(999, "secret")]) == released([(999, "007")])
        for kind in (np.int8, np.uint8, np.int32, np.uint64, object):
            for lone in (1, 120):
                user, item = np.array([*rows, (999, lone)]).T
                data = ap.Interactions(user, item.astype(kind))
                ids = ap.MatrixFactorization(1, 1, "implicit", **settings).fit(data).item_ids
                assert ids.tolist() == [7, 11]
                assert ids.dtype == np.int64

    def test_nothing_passes(self) -> None:
        model = ap.MatrixFactorization(2, 1, "implicit", epsilon=0.1, catalog="private")
        with pytest.raises(ap.DataError, match="no item has enough users"):
            model.fit(data(users=20))

    def test_without_privacy_all_items_stay(self) -> None:
        everything = data(users=30)
        model = ap.MatrixFactorization(2, 1, "implicit", epsilon=math.inf, catalog="private").fit(
            everything
        )
        assert len(model.item_ids) == everything.items

    def test_the_report_warns_of_items_declared_public_only(self) -> None:
        for public in (True, False):
            model = ap.MatrixFactorization(2, 1, "implicit", epsilon=9.0, catalog="private").fit(
                data(public=public)
            )
            warned = any("read from the data" in warning for warning in model.privacy.warnings)
            assert warned == public

    @pytest.mark.parametrize("wrong", [{"share": 0}, {"delta_share": 1.0}, {"cap": 0}])
    def test_wrong_arguments(self, wrong: dict[str, float]) -> None:
        with pytest.raises(ap.ParameterError):
            ap.PrivateCatalog(**wrong)


class TestMostFrequent:
    def test_keeps_the_share_asked_for(self) -> None:
        events = ap.simulate_interactions(users=800, items=50, rows=9000, rating_range=None)
        model = ap.MatrixFactorization(
            2, 1, "implicit", epsilon=50.0, catalog=ap.MostFrequent(0.2)
        ).fit(events)
        assert len(model.item_ids) == 10
        top = set(np.argsort(-events.graph.task_sizes())[:10])
        assert len(top & set(model.item_ids)) >= 8
        names = [record.name for record in model.privacy.ledger]
        assert names.count("counts") == 1

    def test_exact_counts_must_be_declared(self) -> None:
        events = ap.simulate_interactions(users=80, items=20, rows=600, rating_range=None)
        catalog = ap.MostFrequent(0.5, counts=ap.PublicCounts())
        for allocation in (ap.AdaptiveWeights(), ap.UniformSampling(5)):
            model = ap.MatrixFactorization(
                2, 1, "implicit", catalog=catalog, allocation=allocation
            ).fit(events)
            assert any("declared public" in warning for warning in model.privacy.warnings)
            assert "exact task counts" in model.privacy.neighboring

    def test_unused_counts_are_not_reported(self) -> None:
        events = ap.simulate_interactions(users=80, items=20, rows=600, rating_range=None)
        model = ap.MatrixFactorization(
            2,
            1,
            "implicit",
            catalog=ap.MostFrequent(0.5),
            allocation=ap.AdaptiveWeights(counts=ap.PublicCounts()),
        ).fit(events)
        assert model.privacy.neighboring == "add or remove one user"
        assert model.privacy.warnings == ()

    def test_needs_a_public_catalog(self) -> None:
        with pytest.raises(ap.DataError, match="must be public"):
            ap.MatrixFactorization(2, 1, "implicit", catalog=ap.MostFrequent()).fit(data())

    def test_histories_with_other_items(self) -> None:
        ratings = ap.simulate_interactions(users=100, items=20, rows=900)
        model = ap.MatrixFactorization(2, 1, catalog=ap.MostFrequent(0.25)).fit(ratings)
        assert model.predict_many(ratings, ratings).shape == (900,)
        assert set(model.recommend_many(ratings, k=3)["item"]) <= set(model.item_ids.tolist())
