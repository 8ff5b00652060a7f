"""The observer sees what is released and nothing else, and leaves no trace."""

import threading
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.accounts.listening import current_listener, listening
from apportion.audit.observer import observed
from apportion.privacy import Curator, OpenRelease, Part, Record
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
        2, sweeps=1, epsilon=20.0, feedback="implicit", catalog="private"
    )
    with observed() as first:
        items = model.fit(data).released_
    with observed(shown=first) as second:
        others = model.fit(data).released_
    # Counts follow from everything that was released, and all of it was shown again.
    np.testing.assert_array_equal(items.counts, others.counts)
    assert (first.selections["counts"][1] != second.selections["counts"][1]).all()


def test_a_training_that_is_shown_other_values_is_not_private() -> None:
    with observed() as first:
        seen = ap.MultiTaskRidge().fit(DATA).privacy
    assert seen.private
    with observed(shown=first):
        shown = ap.MultiTaskRidge().fit(DATA).privacy
    assert not shown.private
    assert "NOT PRIVATE" in str(shown)


def test_what_is_seen_cannot_be_changed_by_training() -> None:
    with observed() as seen:
        ap.MultiTaskRidge(noise_seed=1).fit(DATA)
        before = {name: seen.rows(name).copy() for name in seen.blocks}
        ap.MultiTaskRidge(noise_seed=1).fit(DATA)
    for name, rows in before.items():
        np.testing.assert_array_equal(seen.rows(name)[: len(rows)], rows)
        np.testing.assert_array_equal(seen.rows(name)[len(rows) :], rows)


def test_nothing_is_patched_and_nothing_left_behind_even_after_an_error() -> None:
    feed, select = OpenRelease.feed, Curator.select
    with observed():
        assert (OpenRelease.feed, Curator.select) == (feed, select)
        with pytest.raises(ap.DataError):
            ap.MultiTaskRidge().fit("no data")
    assert current_listener() is None
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


def test_two_trainings_are_heard_by_the_observer_of_their_own_block() -> None:
    with observed() as outer:
        with observed() as inner:
            ap.MultiTaskRidge(noise_seed=1).fit(DATA)
        assert outer.blocks == {}
        ap.MultiTaskRidge(noise_seed=1).fit(DATA)
    assert set(outer.blocks) == set(inner.blocks)
    for name in inner.blocks:
        np.testing.assert_array_equal(outer.rows(name), inner.rows(name))


def test_what_other_threads_draw_is_seen_too() -> None:
    # Large trainings draw the noise of their tiles in several threads.
    many = ap.simulate_tasks(users=2000, tasks=640, tasks_per_user=3)
    with this_many_threads(2), observed() as seen:
        model = ap.MultiTaskRidge(statistics="per-task").fit(many)
    assert {record.name for record in model.privacy.ledger} == set(seen.blocks)
    assert seen.rows("statistics.b").shape == (640, many.dimension)


def test_a_listener_is_told_neither_sums_nor_keys() -> None:
    # What arrives is what a release returned, and its record: nothing that noise could be taken off with.
    told: list[Any] = []

    class Curious:
        replaces = False

        def released(self, records: Any, parts: Any, values: Any) -> Any:
            told.append((records, parts, values))
            return values

        def selected(self, name: str, ids: Any, counts: Any) -> Any:
            told.append((name, ids, counts))
            return ids, counts

    data = ap.Interactions(np.arange(300) // 3, np.arange(300) % 3)
    with listening(Curious()):
        ap.MatrixFactorization(
            2, sweeps=1, epsilon=20.0, feedback="implicit", catalog="private", noise_seed=1
        ).fit(data)
    names, kinds = set(), set()
    for first, second, values in told:
        if isinstance(first, str):
            names.add(first)
            assert values.dtype == np.float64
            continue
        names |= {record.name for record in first}
        kinds |= {type(each) for each in (*first, *second)}
        assert all(value.dtype == np.float64 for value in values)
    assert {"counts", "weights", "users", "sweep 1", "sweep 1 gramian"} == names
    assert kinds == {Record, Part}
