"""Faults of published code, planted on purpose, with the training and the canary that show them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.audit import AuditReport, Effort, run
from apportion.engine import CpuEngine
from apportion.privacy import Ledger, NoiseSource, OpenRelease, Record, UserBound, UserWeights
from apportion.recommend import factorization, item_step
from apportion.tasks import ridge

Patch = pytest.MonkeyPatch


def labels_not_clipped(patch: Patch) -> None:
    patch.setattr(ridge, "clip_values", lambda values, bound: values)


def parts_not_scaled_down(patch: Patch) -> None:
    patch.setattr(item_step, "scale_down", lambda norms, bound: np.full(len(norms), 5.0))


def count_not_recorded(patch: Patch) -> None:
    append = Ledger.append

    def forgetful(self: Ledger, *records: Record) -> None:
        append(self, *(record for record in records if record.name != "counts"))

    patch.setattr(Ledger, "append", forgetful)


def count_past_the_releases(patch: Patch) -> None:
    def own_noise(self: ap.PrivateCounts, graph: Any, curator: Any) -> Any:
        noise = np.random.default_rng().normal(size=graph.tasks)
        return np.maximum(graph.task_sizes() + noise, 1.0)

    patch.setattr(ap.PrivateCounts, "estimate", own_noise)


def root_of_k(patch: Patch) -> None:
    """The sum of a user's k ratings moves by k times the largest, and is noised for sqrt(k) times that."""

    def mean(data: ap.Interactions, curator: Any, mu: float) -> float:
        k = data.items
        assert data.by_user.rating is not None
        scaled = (np.asarray(data.by_user.rating) - 3.0) / 2.0
        sums = np.array([[scaled.sum(), float(len(scaled))]])
        bound = UserBound(np.sqrt(2 * k), "wrong")
        [[total, rows]] = curator.sums("mean", sums, bound, mu, "ratings")
        return float(np.clip(3.0 + 2.0 * total / max(rows, 1.0), 1.0, 5.0))

    patch.setattr(factorization, "release_mean", mean)


def clipping_after_summing(patch: Patch) -> None:
    honest = CpuEngine.row_clipped_gradient

    def summed_then_clipped(self, rows, norms, coef, derivative, bound, grid):  # type: ignore[no-untyped-def]
        total = honest(self, rows, norms, coef, derivative, np.inf, grid)
        norm = np.linalg.norm(total, axis=1, keepdims=True)
        clipped = total * np.minimum(1, bound / np.maximum(norm, 1e-300))
        return np.asarray(np.trunc(clipped / grid) * grid)

    patch.setattr(CpuEngine, "row_clipped_gradient", summed_then_clipped)


def noise_of_two_items(patch: Patch) -> None:
    """Item 1 has the noise of item 0."""
    feed = OpenRelease.feed

    def reused(self: OpenRelease, first_task: int, *sums: Any) -> Any:
        released = feed(self, first_task, *sums)
        for noisy, raw in zip(released, sums, strict=True):
            if len(noisy) > 1:
                noisy[1] = raw[1] + (noisy[0] - raw[0])
        return released

    patch.setattr(OpenRelease, "feed", reused)


def noise_of_two_releases(patch: Patch) -> None:
    source = NoiseSource._source

    def one_stream(self: NoiseSource, purpose: bytes, stream: str, step: int, tile: int) -> Any:
        return source(self, purpose, "", step, tile)

    patch.setattr(NoiseSource, "_source", one_stream)


def noise_of_a_fixed_key(patch: Patch) -> None:
    patch.setattr("secrets.token_bytes", lambda size: bytes(size))


def too_little_noise(patch: Patch) -> None:
    feed = OpenRelease.feed

    def stingy(self: OpenRelease, first_task: int, *sums: Any) -> Any:
        released = feed(self, first_task, *sums)
        return tuple((noisy + raw) / 2 for noisy, raw in zip(released, sums, strict=True))

    patch.setattr(OpenRelease, "feed", stingy)


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
