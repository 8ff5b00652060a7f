"""Faults of published code, planted on purpose, with the training and the canary that show them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.audit import AuditReport, Effort, run
from apportion.engine import Session, choice, queries, session
from apportion.privacy import (
    Ledger,
    NoiseSource,
    OpenRelease,
    Record,
    UserBound,
    UserWeights,
    release,
    rounding,
    truncated,
)
from apportion.recommend import offsets, releases
from tests.soundness.harness import plant

Patch = pytest.MonkeyPatch


def labels_not_clipped(patch: Patch) -> None:
    patch.setattr(session, "clip_values", lambda values, bound: values)


def parts_not_scaled_down(patch: Patch) -> None:
    patch.setattr(session, "scale_down", lambda norms, bound: np.full(len(norms), 5.0))


def features_not_bounded(patch: Patch) -> None:
    """Rows beyond the bound come out four times as long as they may be."""

    def fault(honest: Any) -> Any:
        def longer(self: Any, bound: float, **given: Any) -> None:
            honest(self, bound, **given)
            if np.abs(self._given.features).max() > bound:
                self._unit *= 4

        return longer

    plant(patch, "bound_features", fault)
    on_the_reference_engine(patch)  # the compiled kernels would refuse such rows


def on_the_reference_engine(patch: Patch) -> None:
    patch.setitem(choice.ENGINES, "auto", ap.ReferenceEngine)


def roots_longer_than_their_weights(patch: Patch) -> None:
    honest = rounding.square_roots
    patch.setattr(rounding, "square_roots", lambda x, roots: honest(x, 2 * roots))
    on_the_reference_engine(patch)


def right_hand_sides_too_large(patch: Patch) -> None:
    honest = rounding.right_hand_sides
    patch.setattr(rounding, "right_hand_sides", lambda x, factor: honest(x, 4 * factor))
    on_the_reference_engine(patch)


def gradients_not_shortened(patch: Patch) -> None:
    # Up to 3.5 times the bound: a part that is far beyond it gives nothing at all.
    honest = rounding.shortened
    patch.setattr(
        rounding, "shortened", lambda slope, excess: honest(slope, np.maximum(excess / 3.5, 1.0))
    )
    on_the_reference_engine(patch)


def count_not_recorded(patch: Patch) -> None:
    append = Ledger.append

    def forgetful(self: Ledger, *records: Record) -> None:
        append(self, *(record for record in records if record.name != "counts"))

    patch.setattr(Ledger, "append", forgetful)


def count_past_the_releases(patch: Patch) -> None:
    release = ap.PrivateCounts.release

    def own_noise(self: ap.PrivateCounts, session: Session, curator: Any) -> Any:
        release(self, session, curator)  # it is in the ledger; but what is used is not what it gave
        [(_, (sizes,))] = session.exact_sums(queries.Counts(1))
        noise = np.random.default_rng().normal(size=len(sizes))
        return np.maximum(sizes[:, 0] + noise, 1.0)

    patch.setattr(ap.PrivateCounts, "release", own_noise)


def root_of_k(patch: Patch) -> None:
    """The sum of a user's k ratings moves by k times the largest, and is noised for sqrt(k) times that."""

    def mean(run: Any, plan: Any) -> Any:
        session, curator = run.session, run.curator
        rating = session._given.label.astype(float)
        declared = plan[releases.MEAN]
        bound = UserBound(np.sqrt(2 * session.tasks), "wrong")
        mu = declared.mu(curator.target)
        raw = np.array([[((rating - 3.0) / 2.0).sum(), float(len(rating))]])
        units = np.trunc(raw / bound.grid(mu)).astype(np.int64)
        [[total, rows]] = curator.release("mean", units, bound, mu, "ratings")
        return offsets.Offset(float(np.clip(3.0 + 2.0 * total / max(rows, 1.0), 1.0, 5.0)))

    patch.setattr(offsets, "release", mean)


def clipping_after_summing(patch: Patch) -> None:
    def fault(honest: Any) -> Any:
        def summed_then_clipped(self: Any, query: queries.Gradients, grid: float) -> Any:
            # Nothing is clipped by such a bound, on a grid that is still far finer than the usual one.
            total = honest(self, replace(query, bound=64.0), 2.0**-20) * 2.0**-20
            norm = np.linalg.norm(total, axis=1, keepdims=True)
            return truncated(total * np.minimum(1, query.bound / np.maximum(norm, 1e-300)), grid)

        return summed_then_clipped

    plant(patch, "_gradients", fault)


def noise_of_two_items(patch: Patch) -> None:
    """Item 1 has the noise of item 0."""
    add = release._add_noise

    def reused(noise: Any, run: Any, scales: Any, record: Record, *rest: Any) -> Any:
        units = rest[-1].copy()  # noise is added in place
        noisy = add(noise, run, scales, record, *rest)
        if len(noisy) > 1:
            noisy[1] = units[1] * record.grid + (noisy[0] - units[0] * record.grid)
        return noisy

    patch.setattr(release, "_add_noise", reused)


def noise_of_two_releases(patch: Patch) -> None:
    source = NoiseSource._source

    def one_stream(self: NoiseSource, purpose: bytes, stream: str, step: int, tile: int) -> Any:
        return source(self, purpose, "", step, tile)

    patch.setattr(NoiseSource, "_source", one_stream)


def noise_of_a_fixed_key(patch: Patch) -> None:
    patch.setattr("secrets.token_bytes", lambda size: bytes(size))


def too_little_noise(patch: Patch) -> None:
    add = release._add_noise

    def stingy(noise: Any, run: Any, scales: Any, record: Record, *rest: Any) -> Any:
        units = rest[-1].copy()  # noise is added in place
        return (add(noise, run, scales, record, *rest) + units * record.grid) / 2

    patch.setattr(release, "_add_noise", stingy)


def released_past_the_record(patch: Patch) -> None:
    """A second copy of every sum is released under a name of its own, and not written down."""
    feed = OpenRelease.feed

    def twice(self: OpenRelease, first_task: int, *sums: Any) -> Any:
        values = feed(self, first_task, *sums)
        if self._listener is not None:
            other = tuple(replace(record, name=f"{record.name} again") for record in self.records)
            self._listener.released(other, self._parts, values)
        return values

    patch.setattr(OpenRelease, "feed", twice)


def duplicates_counted_twice(patch: Patch) -> None:
    patch.setattr(
        UserWeights, "per_row", lambda self, pair_of_row: np.asarray(self.values[pair_of_row])
    )


@dataclass(frozen=True)
class Fault:
    """Attributes
    plant: patches it in.
    training, canaries: that show it.
    """

    plant: Callable[[Patch], None]
    training: str
    canaries: tuple[str, ...]
    runs: int = 200


FAULTS = {
    "labels not clipped": Fault(labels_not_clipped, "ridge-per-task", ("far beyond the bounds",)),
    "features not bounded": Fault(
        features_not_bounded, "ridge-per-task", ("far beyond the bounds",)
    ),
    "roots rounded beyond their weights": Fault(
        roots_longer_than_their_weights, "ridge-per-task", ("at the bounds in every task",)
    ),
    "right-hand sides rounded beyond their weights": Fault(
        right_hand_sides_too_large, "ridge-per-task", ("at the bounds in every task",)
    ),
    "gradients not clipped": Fault(
        gradients_not_shortened, "descent", ("at the bounds in every task",)
    ),
    "a release besides the recorded one": Fault(
        released_past_the_record, "descent", ("alone in a task",), 40
    ),
    "ratings not bounded": Fault(parts_not_scaled_down, "ratings", ("the extremes in turn",), 240),
    "a count released but not recorded": Fault(
        count_not_recorded, "ridge-per-task", ("at the bounds in every task",), 40
    ),
    "a count that comes past the releases": Fault(
        count_past_the_releases, "ratings", ("everything at the top",), 40
    ),
    "noise for sqrt(k) instead of k": Fault(root_of_k, "ratings", ("everything at the top",), 400),
    "clipping after summing": Fault(
        clipping_after_summing, "descent", ("at the bounds in every task",), 300
    ),
    "noise reused between two items": Fault(
        noise_of_two_items, "ridge-per-task", ("far beyond the bounds",)
    ),
    "noise reused between two releases": Fault(
        noise_of_two_releases, "ridge-per-task", ("far beyond the bounds",)
    ),
    "the same noise in all trainings": Fault(
        noise_of_a_fixed_key, "ridge-per-task", ("at the bounds in every task",), 40
    ),
    "half the noise": Fault(too_little_noise, "ridge-per-task", ("far beyond the bounds",), 400),
    "duplicates counted twice": Fault(
        duplicates_counted_twice, "ridge-per-task", ("every row three times",)
    ),
}


def audited(fault: Fault, planted: bool, seed: int = 0, alpha: float = 1e-6) -> AuditReport:
    """The audit that is to notice the fault, with or without it."""
    with pytest.MonkeyPatch.context() as patch:
        if planted:
            fault.plant(patch)
        return run(
            [fault.training],
            effort=Effort(runs=fault.runs, crowd=8, rounds=0),
            canaries=fault.canaries,
            seed=seed,
            alpha=alpha,
        )
