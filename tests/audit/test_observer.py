"""The observer sees what is released and nothing else, and leaves no trace."""

import threading

import numpy as np
import pytest

import apportion as ap
from apportion.audit.observer import observed
from apportion.privacy import Curator, OpenRelease
from apportion.tasks import ridge
from tests.threads import this_many_threads

DATA = ap.simulate_tasks(users=20, tasks=3, tasks_per_user=2)


def test_everything_in_the_ledger_is_seen_as_it_was_released() -> None:
    with observed() as seen:
        model = ap.MultiTaskRidge(noise_seed=1).fit(DATA)
    assert {record.name for record in model.privacy.ledger} == set(seen.blocks)
    for record in model.privacy.ledger:
        assert seen.rows(record.name).shape == record.shape


def test_off_diagonal_noise_is_brought_to_scale() -> None:
    with observed() as seen:
        ap.MultiTaskRidge(noise_seed=1, statistics="per-task").fit(DATA)
    (block,) = seen.blocks["statistics.A"]
    rows, columns = np.triu_indices(DATA.dimension)
    scale = np.where(rows == columns, 1.0, np.sqrt(2))
    np.testing.assert_array_equal(seen.rows("statistics.A"), block * scale)
    np.testing.assert_array_equal(seen.rows("statistics.b"), seen.blocks["statistics.b"][0])


def test_shown_values_take_the_place_of_released_ones() -> None:
    with observed() as first:
        model = ap.MultiTaskRidge().fit(DATA)
    with observed(shown=first) as second:
        other = ap.MultiTaskRidge().fit(DATA)
    np.testing.assert_array_equal(model.coef_, other.coef_)
    assert (first.rows("statistics.b") != second.rows("statistics.b")).all()


def test_a_selection_is_seen_and_shown() -> None:
    data = ap.Interactions(np.arange(300) // 3, np.arange(300) % 3)
    model = ap.MatrixFactorization(
        2, sweeps=1, epsilon=20.0, feedback="implicit", catalogue="private"
    )
    with observed() as first:
        items = model.fit(data).released_
    with observed(shown=first) as second:
        others = model.fit(data).released_
    np.testing.assert_array_equal(items.counts, others.counts)
    np.testing.assert_array_equal(first.selections["counts"][1], items.counts)
    assert (first.selections["counts"][1] != second.selections["counts"][1]).all()


def test_nothing_is_left_behind_even_after_an_error() -> None:
    feed, select = OpenRelease.feed, Curator.select
    with pytest.raises(ap.DataError), observed():
        ap.MultiTaskRidge().fit("no data")
    assert (OpenRelease.feed, Curator.select) == (feed, select)
    with observed() as seen:
        pass
    ap.MultiTaskRidge().fit(DATA)
    assert seen.blocks == {}


def test_another_thread_is_neither_seen_nor_changed() -> None:
    with observed() as first:
        ap.MultiTaskRidge().fit(DATA)
    models = [ap.MultiTaskRidge(noise_seed=1) for _ in range(2)]
    models[0].fit(DATA)
    with observed(shown=first) as seen:
        thread = threading.Thread(target=models[1].fit, args=(DATA,))
        thread.start()
        thread.join()
    assert seen.blocks == {}
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_one_at_a_time() -> None:
    with observed(), pytest.raises(ap.ReleaseError, match="one training"), observed():
        pass


def test_what_is_observed_stays_in_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing is seen of what other threads feed, and large trainings have these.
    monkeypatch.setattr(ridge, "_OWN_BYTES", 64 * 8 * DATA.dimension * (DATA.dimension + 1))
    many = ap.simulate_tasks(users=2000, tasks=640, tasks_per_user=3)
    with this_many_threads(2), observed() as seen:
        ap.MultiTaskRidge(statistics="per-task").fit(many)
    assert seen.rows("statistics.b").shape == (640, many.dimension)
