"""Two neighboring data sets, one training on each, and what a release would have seen of both.

Guarantees of composed releases are conditional: given the same released values so far, the next raw
sums may differ by at most the recorded sensitivity. So the second training is shown the values that the
first one released, while its own raw sums are recorded. Then

- every raw sum must have moved by no more than the sensitivity in the ledger,
- the difference must be what the user alone would have given, to the last bit: nobody else's part may
  change,
- the weights of all other users must be the same,
- reports and models, with everything they hold, must be equal to the bit, and so must whatever was said
  meanwhile (logs, warnings, output): whatever differs would have come past the releases.
"""

import io
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, fields, replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

import apportion as ap
from apportion.data import Graph
from apportion.data.ids import id_keys
from apportion.engine.cpu import NativeKernels
from apportion.engine.queries import WeightRule
from apportion.engine.reference import TwinKernels
from apportion.engine.session import LocalSession
from apportion.privacy import Curator, OpenRelease, Record, packed_width
from apportion.recommend import ItemModel
from apportion.tasks.models import TaskModel
from tests.reports import undated

Array = np.ndarray[Any, np.dtype[np.float64]]
Fit = Callable[[Any], Any]
Data = ap.TaskData | ap.Interactions

TASKS, DIMENSION = 12, 3
FEATURE_BOUND, LABEL_BOUND = 2.0, 0.7
VICTIM = 15  # in the middle of the others, whose ids are even
VICTIM_KEYS = (VICTIM, int(id_keys(np.array([VICTIM]))[0]))  # with features per user, and per row

PRIVATE_ALLOCATIONS: list[ap.Allocation] = [
    ap.UniformWeights(),
    ap.AdaptiveWeights(0.5),
    ap.AdaptiveWeights(1.0, counts=ap.PrivateCounts(cap=4, method="sample", floor=0.0)),
    ap.AdaptiveWeights(0.25, counts=ap.PrivateCounts(cap=2, over_estimate=True)),
    ap.AdaptiveWeights(0.5, mode="clip", users=30, concentration=0.1),
    ap.UniformSampling(3),
    ap.TailSampling(3),
]


TRAINED = {"released_"}
PLANNED_RECOMMENDER = {"released_", "forecasts_"}  # with settings that were chosen


@dataclass
class Tape:
    """Raw and released values of one training, by record name, then (step, first task).

    ``units`` are the raw sums in units of the grid, ``raw`` are such that norms are those of the guarantee.
    ``said`` is what anybody could read meanwhile.
    """

    units: dict[str, dict[tuple[int, int], Any]] = field(default_factory=dict)
    raw: dict[str, dict[tuple[int, int], Array]] = field(default_factory=dict)
    released: dict[str, dict[tuple[int, int], Array]] = field(default_factory=dict)
    weights: dict[tuple[int, int], float] = field(default_factory=dict)
    selection: dict[str, tuple[dict[Any, int], Any]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Change:
    """How far one release's raw sums moved between neighbors."""

    name: str
    change: float
    sensitivity: float

    @property
    def ratio(self) -> float:
        return self.change / self.sensitivity


def ridge(allocation: ap.Allocation, **settings: Any) -> Fit:
    def fit(data: ap.TaskData) -> Any:
        return ap.MultiTaskRidge(
            epsilon=1.0,
            feature_bound=FEATURE_BOUND,
            label_bound=LABEL_BOUND,
            allocation=allocation,
            noise_seed=1,
            **settings,
        ).fit(data)

    return fit


def descent(
    allocation: ap.Allocation,
    clip: Any = "user",
    sampling_rate: float = 1.0,
    steps: ap.Steps | None = None,
    **settings: Any,
) -> Fit:
    def fit(data: ap.TaskData) -> Any:
        return ap.MultiTaskDescent(
            epsilon=1.0,
            feature_bound=FEATURE_BOUND,
            label_bound=LABEL_BOUND,
            steps=steps or ap.Steps(3, clip=clip, sampling_rate=sampling_rate),
            allocation=allocation,
            noise_seed=1,
            **settings,
        ).fit(data)

    return fit


def classifier(steps: ap.Steps | int = 2, **settings: Any) -> Fit:
    def fit(data: ap.TaskData) -> Any:
        return ap.MultiTaskClassifier(
            epsilon=1.0, feature_bound=FEATURE_BOUND, steps=steps, seed=0, noise_seed=1, **settings
        ).fit(data)

    return fit


@contextmanager
def recording(tape: Tape, replay: Tape | None = None) -> Iterator[None]:
    """Record every block that is fed to a release; answer with the replayed values, if any."""
    feed = OpenRelease.feed

    def recorded(self: OpenRelease, first_task: int, *sums: Any) -> tuple[Array, ...]:
        released = feed(self, first_task, *sums)
        at = (self._step, first_task)
        answer = []
        for part, record, units, noisy in zip(
            self._parts, self.records, sums, released, strict=True
        ):
            tape.units.setdefault(record.name, {})[at] = units.copy()
            isometric = units * record.grid
            if part.symmetric:  # the Frobenius norm counts off-diagonal entries twice
                rows, columns = np.triu_indices(part.width)
                assert units.shape[1] == packed_width(part.width)
                isometric[:, rows != columns] *= np.sqrt(2)
            tape.raw.setdefault(record.name, {})[at] = isometric
            shown = noisy if replay is None else replay.released[record.name][at]
            tape.released.setdefault(record.name, {})[at] = shown.copy()
            answer.append(shown.copy())
        return tuple(answer)

    weigh = LocalSession.weigh

    def weighed(self: LocalSession, rule: WeightRule) -> None:
        def noted(graph: Graph) -> Any:
            weights = rule(graph)
            users = graph.user_key[weights.user].tolist()
            tape.weights.update(
                {
                    (user, task): value
                    for user, task, value in zip(
                        users, weights.task.tolist(), weights.values.tolist(), strict=True
                    )
                    if user not in VICTIM_KEYS
                }
            )
            return weights

        weigh(self, noted)

    select = Curator.select

    def selected(self: Curator, name: str, ids: Any, counts: Any, *rest: Any) -> Any:
        answer = select(self, name, ids, counts, *rest)
        if replay is not None:
            answer = replay.selection[name][1]
            shown = replace(self.ledger._records[-1], shape=(len(answer[0]), 1))
            self.ledger._records[-1] = shown
        tape.selection[name] = (dict(zip(ids.tolist(), counts.tolist(), strict=True)), answer)
        return answer

    with (
        mock.patch.object(Curator, "select", selected),
        mock.patch.object(OpenRelease, "feed", recorded),
        mock.patch.object(LocalSession, "weigh", weighed),
        listening_to_everything(tape.said),
    ):
        yield


class _Log(logging.Handler):
    """Writes down every message of every logger."""

    def __init__(self, said: list[str]) -> None:
        super().__init__(logging.NOTSET)
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(f"log: {record.name} {record.levelname} {record.getMessage()}")


@contextmanager
def listening_to_everything(said: list[str]) -> Iterator[None]:
    """Write down logs, warnings, and what is printed, by Python or past it."""
    root, handler = logging.getLogger(), _Log(said)
    compiler = logging.getLogger("numba")  # speaks of what it compiles, once
    before = root.level, compiler.level
    printed = io.StringIO()
    with ExitStack() as stack:
        root.addHandler(handler)
        stack.callback(root.removeHandler, handler)
        root.setLevel(logging.DEBUG)
        stack.callback(root.setLevel, before[0])
        compiler.setLevel(logging.WARNING)
        stack.callback(compiler.setLevel, before[1])
        warned = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        stack.enter_context(redirect_stdout(printed))
        stack.enter_context(redirect_stderr(printed))
        beyond = stack.enter_context(tempfile.TemporaryFile())
        for number in (1, 2):
            kept = os.dup(number)
            stack.callback(os.close, kept)
            stack.callback(os.dup2, kept, number)
            os.dup2(beyond.fileno(), number)
        try:
            yield
        finally:
            said += [f"warning: {each.category.__name__} {each.message}" for each in warned]
            beyond.seek(0)
            said += [f"printed: {printed.getvalue()}", f"written: {beyond.read()!r}"]


def compare(fit: Fit, data: Data, neighbor: Data) -> list[Change]:
    """Train on both; check ledgers and models; return the change of every release."""
    first, second, alone = Tape(), Tape(), Tape()
    with recording(first):
        model = fit(data)
    with recording(second, replay=first):
        other = fit(neighbor)
    with recording(alone, replay=first):
        fit(victim_alone(data, neighbor))
    assert undated(model.privacy) == undated(other.privacy)
    released = {*first.raw, *first.selection}
    assert {record.name for record in model.privacy.ledger} == released
    assert set(first.raw) == set(second.raw)
    assert first.weights == second.weights
    assert first.said == second.said
    assert_same_contents(model, other)
    changes = []
    for record in model.privacy.ledger:
        if record.name in first.selection:
            changes.append(selection_change(record, first, second))
            continue
        blocks = first.raw[record.name]
        assert sum(len(block) for block in blocks.values()) == record.shape[0] * record.steps
        for at, units in first.units[record.name].items():
            moved = np.abs(units - second.units[record.name][at])
            # To the last bit: sums are exact.
            np.testing.assert_array_equal(moved, np.abs(alone.units[record.name][at]))
        for step in range(record.steps):
            squared = sum(
                np.sum((raw - second.raw[record.name][at]) ** 2)
                for at, raw in blocks.items()
                if at[0] == step
            )
            changes.append(Change(record.name, float(np.sqrt(squared)), record.sensitivity))
    return changes


def selection_change(record: Record, first: Tape, second: Tape) -> Change:
    """How far the counts of a selection moved; whoever one user alone has must count for little."""
    counts, others = first.selection[record.name][0], second.selection[record.name][0]
    larger, smaller = sorted((counts, others), key=lambda each: -sum(each.values()))
    moved = {key: value - smaller.get(key, 0.0) for key, value in larger.items()}
    assert all(0 <= value <= 1 for value in moved.values())
    lone = [key for key, value in larger.items() if value > 0 and smaller.get(key, 0.0) == 0]
    assert len(lone) <= record.sensitivity**2 * (1 + 1e-9)
    released = [tape.selection[record.name][1][0].tolist() for tape in (first, second)]
    assert all(counts[key] > 0 for key in released[0])
    assert record.delta > 0
    squared = sum(value**2 for value in moved.values())
    return Change(record.name, float(np.sqrt(squared)), record.sensitivity * (1 + 1e-9))


def victim_alone(data: Data, neighbor: Data) -> Data:
    """The data of the one user that only one of the two has."""
    if isinstance(data, ap.Interactions):
        assert isinstance(neighbor, ap.Interactions)
        both = [data, neighbor]
        larger = max(both, key=lambda each: len(each.by_user.other))
        return larger.take(np.isin(larger.user_key[larger.user_of_row], VICTIM_KEYS))
    assert isinstance(neighbor, ap.TaskData)
    larger_tasks = max([data, neighbor], key=lambda each: len(each.labels))
    keys = larger_tasks.user_key[larger_tasks.user]
    return larger_tasks.take(np.isin(keys, VICTIM_KEYS))


def assert_same_contents(model: Any, other: Any) -> None:
    """Equal attributes, none of them unknown to this test."""
    assert set(vars(model)) == set(vars(other))
    learned = set(vars(model)) - set(model.get_params())
    assert learned in (TRAINED, PLANNED_RECOMMENDER)
    assert repr(model) == repr(other)
    assert repr(model.get_params()) == repr(other.get_params())
    if learned == PLANNED_RECOMMENDER:
        assert model.forecasts_ == other.forecasts_
    model, other = model.released_, other.released_
    learned = {each.name for each in fields(ItemModel if hasattr(model, "items") else TaskModel)}
    assert set(vars(model)) == set(vars(other)) == learned
    for name in learned - {"privacy"}:
        np.testing.assert_array_equal(getattr(model, name), getattr(other, name), strict=True)


def check(fit: Fit, data: Data, neighbor: Data) -> list[Change]:
    """``compare``, and fail if any release moved by more than it says."""
    changes = compare(fit, data, neighbor)
    for change in changes:
        assert change.ratio <= 1, f"{change.name} moved by {change.ratio:.3g} times its sensitivity"
    return changes


def population(users: int = 30, seed: int = 0) -> dict[str, Array]:
    """Ordinary users, in tasks 0 to TASKS - 2: nobody is in the last task."""
    rng = np.random.default_rng(seed)
    joined = rng.random((users, TASKS - 1)) < np.linspace(0.7, 0.1, TASKS - 1)
    user, task = np.nonzero(joined)
    user = 2 * user
    features = rng.normal(size=(len(user), DIMENSION))
    return {"user": user, "task": task, "features": features, "labels": features.sum(axis=1)}


def worst_users() -> dict[str, dict[str, Array]]:
    """Rows of users who try to change as much as they can."""
    everywhere = np.arange(TASKS)
    large = np.full((TASKS, DIMENSION), 1e6)
    return {
        "at the bound in all tasks": _rows(everywhere, large, np.full(TASKS, 1e6)),
        "all labels negative": _rows(everywhere, -large, np.full(TASKS, -1e6)),
        "alone in a task": _rows(np.array([TASKS - 1]), large[:1], np.full(1, 1e6)),
        "each row a hundred times": _rows(
            np.repeat(everywhere, 100), np.repeat(large, 100, axis=0), np.full(100 * TASKS, 1e6)
        ),
        "one row a thousand times": _rows(
            np.zeros(1000, int), large[:1].repeat(1000, 0), np.full(1000, 1e6)
        ),
        "ordinary": _rows(everywhere[:3], large[:3] / 1e6, np.full(3, 0.1)),
    }


def _rows(task: Any, features: Any, labels: Any) -> dict[str, Any]:
    return {
        "user": np.full(len(task), VICTIM),
        "task": task,
        "features": features,
        "labels": labels,
    }


def neighbors(extra: dict[str, Array], users: int = 30) -> tuple[ap.TaskData, ap.TaskData]:
    """The population with one more user, and without it."""
    base = population(users)
    both = {name: np.concatenate([base[name], extra[name]]) for name in base}
    order = np.random.default_rng(5).permutation(len(both["user"]))
    with_user = {name: values[order] for name, values in both.items()}
    return ap.TaskData(**with_user, tasks=TASKS), ap.TaskData(**base, tasks=TASKS)


def caught(fit: Fit, extra: dict[str, Array]) -> bool:
    """Whether ``check`` notices something wrong between the neighbors."""
    return notices(fit, *neighbors(extra))


def notices(fit: Fit, data: Data, neighbor: Data) -> bool:
    """Whether ``check`` notices something wrong between these two."""
    try:
        check(fit, data, neighbor)
    except AssertionError:
        return True
    return False


def astray(fit: Fit, where: Any, name: str, fault: Callable[[Any], Any]) -> Fit:
    """The training with ``where.name`` replaced by what the fault makes of the training's own data."""

    def led(data: Any) -> Any:
        with mock.patch.object(where, name, fault(data)):
            return fit(data)

    return led


def plant(patch: pytest.MonkeyPatch, method: str, fault: Callable[[Any], Any]) -> None:
    """Put a fault in the place of a session's method. ``fault`` is given the honest method."""
    patch.setattr(LocalSession, method, fault(getattr(LocalSession, method)))


def plant_kernel(patch: pytest.MonkeyPatch, method: str, fault: Callable[[Any], Any]) -> None:
    """Put a fault in the place of a kernel, compiled or not."""
    for kind in (TwinKernels, NativeKernels):
        patch.setattr(kind, method, fault(vars(kind)[method]))
