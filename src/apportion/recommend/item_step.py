"""The private half of a sweep: items fitted to the users' vectors."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from apportion.data import Interactions
from apportion.engine import CpuEngine, TaskRows, UserRows
from apportion.privacy import (
    Curator,
    Part,
    UserBound,
    UserWeights,
    clip_values,
    scale_down,
    short_rows,
    unpack,
)
from apportion.recommend.plan import Plan
from apportion.tasks.descent import Gradients, descend, open_gradients
from apportion.tasks.exact import minimise_smooth
from apportion.tasks.losses import find_loss
from apportion.tasks.penalty import Penalty
from apportion.tasks.ridge import open_statistics, solve_statistics
from apportion.tasks.schedules import Adaptive
from apportion.tasks.shared import open_moments, positive_part, solve_moments

Array = NDArray[np.float64]

# What an item's events scatter about what is expected of them, relative to sum_j w_ij^2 v v'. Chance alone
# makes at most one; as much again is for users who are not all alike.
_SPREAD = 2.0


@dataclass(frozen=True)
class ItemSettings:
    """Parameters of ``MatrixFactorization`` as the item step uses them: defaults filled in."""

    solver: Literal["ssp", "descent"]
    statistics: Literal["shared", "per-task"]
    clip: Literal["user", "row"]
    sweeps: int
    normalise: bool
    feature_bound: float
    label_bound: float
    unobserved_weight: float
    gram_share: float
    noise_ridge: float
    steps: int
    gradient_bound: float
    learning_rate: float


class ItemStep:
    """Fits all items to the users' vectors, sweep after sweep.

    Args:
        settings: see there.
        plan: what each release may cost.
        curator: through which they go.
        weights: of the pairs of users and items.
        labels: of the pairs, not bounded yet, [pairs].
        data: the interactions.
        ridge, scale, sums: for each item, the penalty, the typical weight of its users, and about the
            sum of their weights, [items].
        users: about how many users there are; 1 where nobody needs to know.
    """

    def __init__(
        self,
        settings: ItemSettings,
        plan: Plan,
        curator: Curator,
        weights: UserWeights,
        labels: Array,
        data: Interactions,
        ridge: Array,
        scale: Array,
        sums: Array,
        users: float,
    ) -> None:
        self._settings, self._plan, self._curator = settings, plan, curator
        # What they are bounded by is needed all the time, the weights themselves only here.
        none = np.zeros(0, dtype=np.int64)
        self._weights = UserWeights(none, none, np.zeros(0), bounded=weights.bounded)
        self._exact_users = data.users
        self._ridge, self._scale, self._sums, self._users = ridge, scale, sums, users
        self._label_norms: Array | None = None
        if weights.bounded and (settings.clip == "row" or settings.solver == "descent"):
            labels = clip_values(labels, settings.label_bound)
        elif weights.bounded:
            self._label_norms = weights.part_norms(labels, data.users)
        # A user's whole gradient is clipped, so its rows must lie together.
        whole_users = settings.solver == "descent" and weights.bounded
        order: Any = UserRows if whole_users else TaskRows
        # The features come later, anew in every sweep; a row's are those of its user.
        self._rows = order.sort(
            np.zeros((0, 0)),
            weights.user,
            labels,
            weights.values,
            weights.user,
            weights.task,
            data.items,
        )

    def features(self, vectors: Array) -> tuple[Any, float]:
        """The users' vectors as items are fitted to them: bounded, in whole multiples of a unit."""
        if not self._weights.bounded:
            return vectors, 1.0
        settings = self._settings
        return short_rows(vectors, settings.feature_bound, stretch=settings.normalise)

    def __call__(self, sweep: int, features: Any, unit: float, items: Array) -> Array:
        """New factors of all items, given the users' vectors and the last factors, [items, factors]."""
        settings = self._settings
        private = self._weights.bounded
        alike = private and settings.solver == "ssp" and settings.statistics == "shared"
        gramian = None
        if settings.unobserved_weight or alike:
            gramian = self._gramian(f"sweep {sweep} gramian", features, unit)
        name = f"sweep {sweep}"
        rows = self._bounded_rows(features, unit)
        bounds = (settings.feature_bound, settings.label_bound)
        if gramian is not None and alike:
            release = open_moments(
                self._curator,
                name,
                self._weights,
                rows,
                *bounds,
                self._mu(sweep, name),
                settings.clip,
            )
            # Unobserved pairs weigh on all users alike, so they only add to the mass.
            mass = self._sums + settings.unobserved_weight * self._users * self._scale
            moment = gramian / self._users
            guess = None if sweep == 1 else items  # the first items are random
            # For ratings the regulariser, which grows with the count, stands for this already.
            implicit = settings.unobserved_weight > 0
            spread = _SPREAD * self._sums * self._scale if implicit else None
            return solve_moments(
                rows, release, mass, moment, self._ridge, CpuEngine(), guess, spread
            )
        penalty = Penalty(self._ridge, settings.unobserved_weight * self._scale, gramian)
        if settings.solver == "descent":
            return self._descend(name, rows, items, penalty, self._mu(sweep, name))
        mu = self._mu(sweep, f"{name}.A", f"{name}.b")
        release = open_statistics(
            self._curator,
            name,
            self._weights,
            rows,
            *bounds,
            mu,
            settings.gram_share,
            settings.clip,
        )
        return solve_statistics(rows, release, penalty, settings.noise_ridge, CpuEngine())

    def _bounded_rows(self, features: Any, unit: float) -> Any:
        """All rows, with these vectors as features, such that a user's part in b is within its bound.

        User j's part is w_ij y_ij v_j for all its items i: of norm |(w_ij y_ij)_i| |v_j|. With
        ``clip="user"`` its labels are multiplied by what brings this down to label_bound *
        feature_bound; they were clipped one by one otherwise.
        """
        rows = replace(self._rows, features=features, unit=unit)
        if self._settings.solver == "descent":
            return replace(rows, features=features * unit, unit=1.0)
        if self._label_norms is None:
            return rows
        # In units of feature_bound, so that no product of two bounds is too large or small a number.
        lengths = np.sqrt(np.einsum("ij,ij->i", features, features, dtype=np.float64))
        with np.errstate(invalid="ignore"):
            norms = self._label_norms * (lengths * (unit / self._settings.feature_bound))
        return replace(rows, share=scale_down(norms, self._settings.label_bound))

    def _mu(self, sweep: int, *names: str) -> float:
        """As planned; the last sweep gets whatever is left, to the last digit."""
        if sweep == self._settings.sweeps or not self._weights.bounded:
            return self._curator.ledger.affordable_mu()
        return math.hypot(*(self._plan.mu(name) for name in names))

    def _gramian(self, name: str, features: Any, unit: float) -> Array:
        """The sum of all users' v v', released, as a positive semi-definite matrix [factors, factors].

        Sensitivity: a user adds v v', of Frobenius norm |v|^2 <= feature_bound^2.
        """
        bound = UserBound(math.inf, "not bounded: no privacy asked for")
        if self._weights.bounded:
            bound = UserBound(self._settings.feature_bound**2, "|v v'| <= feature_bound^2")
        users, d = features.shape
        part = Part("gramian", "sum of all users' v v'", bound, d, symmetric=True)
        mu = self._plan.mu(name) if self._weights.bounded else math.inf
        release = self._curator.open(name, [part], 1, mu)
        everybody, alike = np.arange(users), np.ones(users)
        rows = TaskRows(
            features, everybody, alike, alike, everybody, np.array([0, users]), unit=unit
        )
        grid = release.grids[0]
        packed, _ = CpuEngine().statistics(rows, 0, 1, (grid, 1.0) if grid else None)
        return positive_part(unpack(release.feed(0, packed)[0], d)[0])

    def _descend(
        self, name: str, rows: TaskRows | UserRows, items: Array, penalty: Penalty, mu: float
    ) -> Array:
        settings, weights = self._settings, self._weights
        steps, loss, engine = settings.steps, find_loss("squared"), CpuEngine()
        if not weights.bounded:
            open_gradients(self._curator, name, weights, items.shape, "row", 1.0, mu, steps)
            sums = Gradients(rows, self._exact_users, loss, math.inf, engine)
            curvature = sums.largest_eigenvalues() + penalty.largest_eigenvalues()
            return minimise_smooth(
                lambda coef: sums(coef) + penalty.gradient(coef), items, curvature, steps
            )
        bound = settings.gradient_bound
        # An item farther out would predict more than any rating for users at their bound.
        radius = 2 * settings.label_bound / settings.feature_bound
        release = open_gradients(
            self._curator, name, weights, items.shape, "user", bound, mu, steps
        )
        sums = Gradients(rows, self._exact_users, loss, bound, engine)
        schedule = Adaptive(settings.learning_rate * radius)
        return descend(sums, release, items, schedule, penalty, radius=radius)
