"""Settings of a recommender, resolved: as a training uses them."""

import math
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any, Literal

from apportion.allocation import AdaptiveWeights, Allocation, UniformWeights
from apportion.checks import number, whole, word
from apportion.engine.queries import UserSystems
from apportion.errors import ParameterError
from apportion.privacy import PrivacyTarget
from apportion.recommend.catalog import ItemCatalog, find_catalog
from apportion.recommend.groups import (
    LARGEST,
    Bounds,
    GradientDescent,
    Offsets,
    Regularization,
    Shares,
    SufficientStatistics,
    find_regularization,
    find_solver,
    is_auto,
)

Feedback = Literal["explicit", "implicit"]


@dataclass(frozen=True)
class Choice:
    """Settings of a training that may be chosen.

    Attributes
        factors: the length of the vectors.
        sweeps: how often users and items are solved in turn; 0 for a model of popularity (events) or
            averages (ratings) alone.
        intercept_share: of the budget of intercepts and sweeps (ratings); 1 if there are no sweeps.
        unobserved_weight: of pairs without an event (events), in training.
        serving_weight: the same when a user's vector is made from the released items.
        serving_regularization: the penalty of that vector, if it is not that of training.
    """

    factors: int
    sweeps: int
    intercept_share: float
    unobserved_weight: float = 0.0
    serving_weight: float = 0.0
    serving_regularization: float = 0.0

    def __post_init__(self) -> None:
        whole("factors", self.factors, at_least=1)
        whole("sweeps", self.sweeps, at_least=0)
        number("intercept_share", self.intercept_share, at_least=0, at_most=1)
        for name in ("unobserved_weight", "serving_weight", "serving_regularization"):
            number(name, getattr(self, name), at_least=0, at_most=LARGEST)


@dataclass(frozen=True)
class Settings:
    """Every setting of a training, defaults filled in: resolved once, from parameters and public facts.

    ``label_bound`` is None where it follows from a rating range that is not known yet, and
    ``unobserved_weight`` where it is chosen.
    """

    target: PrivacyTarget
    feedback: Feedback
    allocation: Allocation
    catalog: ItemCatalog
    solver: SufficientStatistics | GradientDescent
    center: Literal["user", "global", "none"]
    mean_share: float
    regularization: float
    user_regularization: float
    exponent: float
    unobserved_weight: float | None
    feature_bound: float
    label_bound: float | None
    normalize: bool
    shares: Shares
    rating_range: tuple[float, float] | None
    validation_share: float

    @property
    def private(self) -> bool:
        """Whether there is noise."""
        return math.isfinite(self.target.epsilon)

    @property
    def explicit(self) -> bool:
        """Whether there are ratings."""
        return self.feedback == "explicit"

    @property
    def shared(self) -> bool:
        """Whether one second moment stands for all items'."""
        solver = self.solver
        own = isinstance(solver, SufficientStatistics) and solver.matrices == "shared"
        return self.private and own

    @property
    def validated(self) -> bool:
        """Whether the penalty of served vectors follows from a release after the last sweep."""
        return self.private and self.validation_share > 0

    @property
    def gramian(self) -> bool:
        """Whether every sweep releases the users' second moment."""
        return self.shared or self.unobserved_weight is None or self.unobserved_weight > 0

    @property
    def label(self) -> float:
        """The label bound; one where there is none to be known."""
        return 1.0 if self.label_bound is None else self.label_bound

    @property
    def clip(self) -> Literal["user", "row"]:
        """How labels are bounded. Events are all 1, which is their bound: there is nothing to scale."""
        own = isinstance(self.solver, SufficientStatistics) and self.explicit
        return self.solver.clip if own else "row"  # type: ignore[union-attr]

    @property
    def gradient_bound(self) -> float:
        """Of ``GradientDescent``."""
        assert isinstance(self.solver, GradientDescent)
        given = self.solver.gradient_bound
        return self.feature_bound * self.label / 4 if given is None else float(given)

    @property
    def systems(self) -> UserSystems:
        """What users' vectors solve."""
        return UserSystems(self.user_regularization, self.exponent)


def resolve(
    *,
    epsilon: float,
    delta: float,
    feedback: Feedback,
    allocation: Allocation | None,
    catalog: str | ItemCatalog,
    solver: str | SufficientStatistics | GradientDescent,
    regularization: float | Regularization | None,
    bounds: Bounds,
    offsets: Offsets,
    shares: Shares,
    rating_range: tuple[float, float] | None = None,
) -> Settings:
    """Check all parameters and fill in what follows from others."""
    word("feedback", feedback, ("explicit", "implicit"))
    explicit = feedback == "explicit"
    found = find_catalog(catalog)
    penalty = find_regularization(regularization)
    for name, value, kind in (
        ("bounds", bounds, Bounds),
        ("offsets", offsets, Offsets),
        ("shares", shares, Shares),
    ):
        if not isinstance(value, kind):
            raise ParameterError(f"{name} must be ap.{kind.__name__}(...), got {value!r}")
    items = (0.05 if explicit else 1.5) if penalty.items is None else float(penalty.items)
    users = items / (1.0 if explicit else 3.0) if penalty.users is None else float(penalty.users)
    center = offsets.center if explicit else "none"
    label = bounds.label
    if not explicit:
        label = 1.0
    elif label is None and rating_range is not None:
        low, high = rating_range
        label = max(abs(low), abs(high))
        if center != "none":
            label = (high - low) / (4 if center == "user" else 2)
    target = PrivacyTarget(epsilon, delta)
    target = PrivacyTarget(epsilon, delta, found.delta_share * target.delta)
    return Settings(
        target=target,
        feedback=feedback,
        allocation=find_allocation(allocation, feedback),
        catalog=found,
        solver=find_solver(solver),
        center=center,
        mean_share=float(offsets.mean_share),
        regularization=items,
        user_regularization=users,
        exponent=(1.0 if explicit else 0.0)
        if penalty.exponent is None
        else float(penalty.exponent),
        unobserved_weight=_unobserved_weight(penalty, explicit),
        feature_bound=float(bounds.feature),
        label_bound=label,
        normalize=not explicit if bounds.normalize is None else bool(bounds.normalize),
        shares=shares,
        rating_range=rating_range if explicit else None,
        validation_share=float(penalty.validation_share)
        if explicit and penalty.users is None
        else 0.0,
    )


def _unobserved_weight(penalty: Regularization, explicit: bool) -> float | None:
    """As given; None if it is to be chosen."""
    given = penalty.unobserved_weight
    if explicit:
        return 0.0
    return None if is_auto(given) else float(given)


def find_allocation(allocation: Allocation | None, feedback: Feedback) -> Allocation:
    """The allocation of a recommender; by default the one that is best for the feedback."""
    if allocation is None:
        return AdaptiveWeights(0.25 if feedback == "explicit" else 0.1)
    if not isinstance(allocation, Allocation):
        raise ParameterError(
            "allocation must be an Allocation, such as ap.AdaptiveWeights(exponent) or "
            f"ap.UniformWeights(), got {allocation!r}"
        )
    if isinstance(allocation, UniformWeights):
        return AdaptiveWeights(exponent=0.0)
    if type(allocation).typical_weights is Allocation.typical_weights:
        raise ParameterError(
            "allocation must be adaptive or uniform weights or a sampling for a recommender, "
            f"got {type(allocation).__name__}"
        )
    return allocation


def public_inputs(settings: Settings, choice: Choice) -> dict[str, Any]:
    """The settings that a model depends on, as they were used, for the privacy report."""
    unused = {"target", "allocation", "catalog", "solver", "rating_range", "unobserved_weight"}
    if not settings.explicit:
        unused |= {"center", "label_bound", "mean_share"}
    if settings.center == "none":
        unused.add("mean_share")
    if not settings.validated or choice.sweeps == 0:
        unused.add("validation_share")
    if not settings.private:
        unused |= {"normalize", "feature_bound", "label_bound", "shares", "mean_share"}
    used = {
        each.name: _plain(getattr(settings, each.name))
        for each in fields(settings)
        if each.name not in unused
    }
    solver = "ssp" if isinstance(settings.solver, SufficientStatistics) else "descent"
    used["solver"] = {"kind": solver, **asdict(settings.solver)}
    chosen = asdict(choice)
    others = {"unobserved_weight", "serving_weight"} if settings.explicit else {"intercept_share"}
    if settings.unobserved_weight is not None:  # one is given, for both
        others.add("serving_weight")
    if choice.serving_regularization == 0:
        others.add("serving_regularization")
    return used | {name: value for name, value in chosen.items() if name not in others}


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
