"""What is released before the sweeps: kept, written, read, and gone on from."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.accounts.ledgers import ledger_from_dict, ledger_to_dict
from apportion.privacy import Ledger
from apportion.recommend.preparation import Preparation
from tests.reports import undated

PER_ITEM = {"solver": ap.SufficientStatistics(matrices="per-item")}
DATA = ap.simulate_interactions(users=400, items=30, rows=6000)


RELEASED = ["rating moments", "counts", "weights", "users"]


def model(**settings: Any) -> ap.MatrixFactorization:
    return ap.MatrixFactorization(**{"epsilon": 5.0, "noise_seed": 1, **settings})


def same(one: Preparation, other: Preparation) -> bool:
    return (
        np.array_equal(one.item_ids, other.item_ids)
        and one.item_ids.dtype == other.item_ids.dtype
        and np.array_equal(one.sums, other.sums)
        and ((one.sizes is None) == (other.sizes is None))
        and (one.sizes is None or other.sizes is None or np.array_equal(one.sizes, other.sizes))
        and (one.users, one.offset, one.secret_noise)
        == (other.users, other.offset, other.secret_noise)
        and dict(one.training) == dict(other.training)
        and ledger_to_dict(one.ledger) == ledger_to_dict(other.ledger)
    )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"feedback": "implicit"},
        {"offsets": ap.Offsets(center="global")},
        {"catalog": "private", "epsilon": 50.0},
        {"catalog": ap.MostFrequent(0.5)},
        {"allocation": ap.UniformSampling(5)},
        {**PER_ITEM, "factors": 3, "sweeps": 2},
    ],
    ids=str,
)
def test_going_on_gives_the_same_as_all_at_once(settings: dict[str, Any]) -> None:
    preparation = model(**settings).prepare(DATA)
    copy = Preparation.from_json(preparation.to_json())
    assert same(preparation, copy)
    at_once = model(**settings).fit(DATA)
    went_on = model(**settings).fit(DATA, preparation=copy)
    np.testing.assert_array_equal(went_on.items, at_once.items)
    np.testing.assert_array_equal(went_on.item_ids, at_once.item_ids, strict=True)
    assert undated(went_on.privacy) == undated(at_once.privacy)
    assert went_on.privacy.ledger.mu == pytest.approx(at_once.privacy.ledger.target.mu)


def test_a_preparation_costs_its_part_and_no_more() -> None:
    preparation = model().prepare(DATA)
    assert [record.name for record in preparation.ledger] == RELEASED
    shares = [(record.mu / preparation.ledger.target.mu) ** 2 for record in preparation.ledger]
    assert shares == pytest.approx([0.02, 0.1, 0.02, 0.005])


def test_forecasts_are_free_and_the_first_is_taken() -> None:
    planned = model()
    preparation = planned.prepare(DATA)
    found = planned.forecasts(preparation)
    assert [record.name for record in preparation.ledger] == RELEASED
    by_tastes = [one.error for one in found if one.choice.sweeps > 0]
    assert by_tastes == sorted(by_tastes)
    trained = model().fit(DATA, preparation=preparation)
    assert trained.forecasts_ == found
    assert trained.items.shape[1] == found[0].choice.factors
    inputs = trained.privacy.chosen
    assert (inputs["factors"], inputs["sweeps"]) == (
        found[0].choice.factors,
        found[0].choice.sweeps,
    )


def test_what_is_given_is_not_chosen() -> None:
    planned = model(sweeps=2, offsets=ap.Offsets(intercept_share=0.25))
    choices = [one.choice for one in planned.forecasts(planned.prepare(DATA))]
    assert {(choice.sweeps, choice.intercept_share) for choice in choices} == {(2, 0.25)}
    assert len({choice.factors for choice in choices}) > 1


def test_noise_that_is_no_secret_stays_so() -> None:
    preparation = model(noise_seed=3).prepare(DATA)
    trained = model(noise_seed=None).fit(DATA, preparation=preparation)
    assert not trained.privacy.private
    secret = model(noise_seed=None).prepare(DATA)
    assert model(noise_seed=None).fit(DATA, preparation=secret).privacy.private


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 6.0},
        {"delta": 1e-6},
        {"feedback": "implicit"},
        {"allocation": ap.AdaptiveWeights(0.5)},
        {"catalog": ap.MostFrequent(0.5)},
        {"offsets": ap.Offsets(center="global")},
        {"solver": "descent"},
        PER_ITEM,
    ],
    ids=str,
)
def test_another_training_is_refused(settings: dict[str, Any]) -> None:
    preparation = model().prepare(DATA)
    [name] = settings
    name = {"offsets": "center"}.get(name, "statistics" if settings is PER_ITEM else name)
    with pytest.raises(ap.ParameterError, match=f"made with another {name}"):
        model(**settings).fit(DATA, preparation=preparation)


def test_other_items_are_refused() -> None:
    preparation = model().prepare(DATA)
    fewer = DATA.of_items(np.arange(20))
    with pytest.raises(ap.DataError, match="other items"):
        model().fit(fewer, preparation=preparation)
    rows = (DATA.user_of_row, [f"item {item}" for item in DATA.by_user.other])
    named = ap.Interactions(*rows, DATA.by_user.rating, rating_range=(1, 5), items="public")
    with pytest.raises(ap.DataError, match="other items"):
        model().fit(named, preparation=preparation)


def test_a_ledger_cannot_be_taken_over_twice() -> None:
    preparation = model().prepare(DATA)
    spent = ledger_from_dict(ledger_to_dict(preparation.ledger))
    spent.append(*[replace(record, name=f"other {record.name}") for record in preparation.ledger])
    with pytest.raises(ap.ParameterError, match="already"):
        spent.append(*preparation.ledger)
    # Whatever a ledger has in it counts; where too little is left nothing more is released.
    with pytest.raises(ap.ParameterError, match="other shares"):
        model().fit(DATA, preparation=replace(preparation, ledger=spent))
    with pytest.raises(ap.ParameterError, match="other shares"):
        model(shares=ap.Shares(weights=0.01)).fit(DATA, preparation=preparation)
    assert len(preparation.ledger) == 4


def test_without_privacy_there_is_nothing_to_prepare() -> None:
    with pytest.raises(ap.ParameterError, match="nothing to prepare"):
        model(epsilon=math.inf).prepare(DATA)


@pytest.mark.parametrize("ids", [["a", "b\ud800", "ü"], [b"\xff", b"", b"a"], [2**63, 1, 2]])
def test_ids_of_every_kind_are_written(ids: list[Any]) -> None:
    preparation = replace(
        model().prepare(DATA),
        item_ids=ap.Interactions([1, 2, 3], ids, items="public").item_ids,
        sizes=np.ones(3),
        sums=np.ones(3),
    )
    assert same(preparation, Preparation.from_json(preparation.to_json()))


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"sums": [1.0]},
        {"sums": "abc"},
        {"sums": [math.nan] * 30},
        {"sizes": [math.inf] * 30},
        {"sizes": [None] * 30},
        {"users": -1},
        {"users": "many"},
        {"offset": None},
        {"offset": {"mean": 3.0, "shrinkage": -1.0, "within": None}},
        {"offset": {"mean": 3.0, "shrinkage": 1.0, "within": "much"}},
        {"ledger": {}},
        {"ledger": {"target": {"epsilon": 1, "delta": 1e-5, "selection_delta": 0}, "records": [1]}},
        {"item_ids": [1.5]},
        {"item_ids": [0, 0, *range(2, 30)]},
        {"warnings": "none"},
        {"item_ids": [{"bytes": "xy"}]},
        {"training": [1]},
    ],
    ids=str,
)
def test_files_that_are_no_plan(change: dict[str, Any]) -> None:
    text = model().prepare(DATA).to_json()
    Preparation.from_json(text)
    values = {**json.loads(text), **change}
    with pytest.raises(ap.DataError):
        Preparation.from_json(json.dumps(values))
    for name in values:
        with pytest.raises(ap.DataError):
            Preparation.from_json(json.dumps({n: v for n, v in values.items() if n != name}))
    for other in ("", "[]", "{", "[" * 100_000, "null"):
        with pytest.raises(ap.DataError):
            Preparation.from_json(other)


def test_a_ledger_that_passes_its_target_is_no_plan() -> None:
    values = json.loads(model().prepare(DATA).to_json())
    for record in values["ledger"]["records"]:
        record["noise_scale"] /= 100
    with pytest.raises(ap.DataError, match="refused"):
        Preparation.from_json(json.dumps(values))


def test_the_ledger_of_a_preparation_takes_no_more_releases() -> None:
    ledger = model().prepare(DATA).ledger
    with pytest.raises(ap.ReleaseError, match="takes no more releases"):
        ledger.append(replace(next(iter(ledger)), name="another"))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_ledger_with_less_in_it_is_refused(place: int) -> None:
    # What it lacks would be spent a second time.
    preparation = model().prepare(DATA)
    records = list(preparation.ledger)
    for changed in ([], [replace(records[place], noise_scale=1e9)]):
        ledger = Ledger(preparation.ledger.target)
        ledger.append(*records[:place], *changed, *records[place + 1 :])
        with pytest.raises(ap.ParameterError, match="changed since"):
            model().fit(DATA, preparation=replace(preparation, ledger=ledger))


def test_warnings_of_a_preparation_are_those_of_the_model() -> None:
    rows = (DATA.user_of_row, DATA.by_user.other, DATA.by_user.rating)
    found = ap.Interactions(*rows, rating_range=(1, 5), items="public")
    listed = ap.Interactions(*rows, rating_range=(1, 5), items=list(range(40)))
    preparation = model().prepare(found)
    [warning] = preparation.warnings
    assert "read from the data" in warning
    copy = Preparation.from_json(preparation.to_json())
    assert warning in model().fit(listed, preparation=copy).privacy.warnings
    assert warning in model().fit(found).privacy.warnings
    exact = ap.AdaptiveWeights(counts=ap.PublicCounts())
    twice = model(allocation=exact).prepare(found).warnings
    assert model(allocation=exact).fit(found).privacy.warnings == twice
    assert len(twice) == 2


def test_the_type_of_released_ids_does_not_tell_of_others() -> None:
    # One user with a large id would turn all ids into another type, though its item is not selected.
    users, items = np.repeat(np.arange(300), 10), np.tile(np.arange(10), 300)
    settings = {"feedback": "implicit", "catalog": "private", "epsilon": 20.0}
    kinds = set()
    for extra in ([], [2**63 + 5]):
        data = ap.Interactions([*users.tolist(), *[300 for _ in extra]], [*items.tolist(), *extra])
        for through in (lambda kept: kept, lambda kept: Preparation.from_json(kept.to_json())):
            preparation = through(model(**settings).prepare(data))
            trained = model(**settings).fit(data, preparation=preparation)
            kinds.add(trained.item_ids.dtype.str)
    assert len(kinds) == 1


def test_that_private_data_lacks_an_item_of_the_plan_is_not_told() -> None:
    users, items = np.repeat(np.arange(300), 10), np.tile(np.arange(10), 300)
    settings = {"feedback": "implicit", "catalog": "private", "epsilon": 20.0}
    preparation = model(**settings).prepare(ap.Interactions(users, items))
    assert len(preparation.item_ids) == 10
    some = items != 4
    trained = model(**settings).fit(ap.Interactions(users[some], items[some]), None, preparation)
    np.testing.assert_array_equal(trained.item_ids, preparation.item_ids)
    # What is left is at its own place: the model is that of a list which has the item, without a row.
    listed = ap.Interactions(users[some], items[some], items=list(range(10)))
    again = model(**settings).fit(listed, None, preparation)
    np.testing.assert_array_equal(trained.items, again.items)


def test_a_preparation_is_not_ignored_without_privacy() -> None:
    data = ap.simulate_interactions(users=100, items=10, rows=600)
    prepared = ap.MatrixFactorization(2, 1, noise_seed=0).prepare(data)
    with pytest.raises(ap.ParameterError, match="another epsilon"):
        ap.MatrixFactorization(2, 1, epsilon=float("inf")).fit(data, preparation=prepared)
