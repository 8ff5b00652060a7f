"""Settings of a recommender: in groups as people set them, and as a training uses them."""

import math
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any, Literal, TypeGuard

from apportion.allocation import AdaptiveWeights, Allocation, UniformWeights
from apportion.checks import LEAST_SHARE, number, whole, word
from apportion.engine.queries import UserSystems
from apportion.errors import ParameterError
from apportion.privacy import PrivacyTarget
from apportion.recommend.catalog import ItemCatalog, find_catalog

Feedback = Literal["explicit", "implicit"]
# Up to these, what is released and what follows from it is within the range of numbers.
LARGEST, LARGEST_BOUND = 1e12, 1e30


@dataclass(frozen=True)
class Bounds:
    """Public bounds: they decide how much noise there is. Take them from what the data means.

    Attributes
        feature: longer user vectors are scaled down to this norm.
        label: the largest norm of a user's centered and weighted ratings, about their root mean square
            (``clip="user"``), or the largest centered rating (``"row"``). By default a quarter of the
            rating range if each user's mean is subtracted, half of it for a global mean.
        normalize: scale shorter user vectors up to the bound, too; by default for implicit feedback, where
            only the order of scores matters.
    """

    feature: float = 0.25
    label: float | None = None
    normalize: bool | None = None

    def __post_init__(self) -> None:
        check_bound("bounds.feature", self.feature)
        if self.label is not None:
            check_bound("bounds.label", self.label)
            if self.label > LARGEST_BOUND * self.feature:
                raise ParameterError("bounds.label is too large for bounds.feature")
        word("bounds.normalize", self.normalize, (None, True, False))


@dataclass(frozen=True)
class Offsets:
    """What is known of ratings before anything is said about tastes; for explicit feedback.

    Attributes
        center: ``"user"`` subtracts each user's own mean rating, drawn towards that of all as if the user had
            k ratings more. Its own never leaves the user's side; the mean of all and k follow from a small
            release. ``"global"`` subtracts the released mean of all, ``"none"`` nothing.
        mean_share: the portion of the whole budget for that release.
        intercept_share: the portion of the budget of intercepts and sweeps that is spent on the items'
            intercepts; 0 for none, ``"auto"`` for what the forecast advises.
    """

    center: Literal["user", "global", "none"] = "user"
    mean_share: float = 0.02
    intercept_share: float | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        word("offsets.center", self.center, ("user", "global", "none"))
        number("offsets.mean_share", self.mean_share, at_least=LEAST_SHARE, below=1)
        if not is_auto(self.intercept_share):
            share = number("offsets.intercept_share", self.intercept_share, at_least=0, below=1)
            if 0 < share < LEAST_SHARE:
                raise ParameterError(
                    f"offsets.intercept_share must be 0, or at least {LEAST_SHARE:g}"
                )


@dataclass(frozen=True)
class Regularization:
    """The penalty regularization * n^exponent |.|^2 of every item and user with n rows.

    Items' numbers of rows are released counts; a user's own number stays with it.

    Attributes
        items: by default 0.05 (explicit) or 1.5 (implicit).
        users: by default a third of that of items (implicit); for ratings that of items in training, and a
            penalty that does not grow with n when vectors are made from the released items. It follows
            from a small release after the last sweep: how much users' vectors help to predict ratings
            that they were not made from.
        exponent: by default 1 (explicit) or 0 (implicit).
        unobserved_weight: of pairs without an event (implicit), in training and ever after; ``"auto"`` for
            what is chosen.
        validation_share: the portion of the whole budget for that release.
    """

    items: float | None = None
    users: float | None = None
    exponent: float | None = None
    unobserved_weight: float | Literal["auto"] = "auto"
    validation_share: float = 0.03

    def __post_init__(self) -> None:
        for name in ("items", "users"):
            if getattr(self, name) is not None:
                number(f"regularization.{name}", getattr(self, name), at_least=0, at_most=LARGEST)
        if self.exponent is not None:
            number("regularization.exponent", self.exponent, at_least=0, at_most=2)
        if not is_auto(self.unobserved_weight):
            name = "regularization.unobserved_weight"
            number(name, self.unobserved_weight, at_least=0, at_most=LARGEST)
        share = self.validation_share
        number("regularization.validation_share", share, at_least=LEAST_SHARE, below=1)


@dataclass(frozen=True)
class SufficientStatistics:
    """Items are solved from noisy sufficient statistics (Algorithm 1).

    Attributes
        matrices: ``"shared"`` takes the users' second moment to be the same for all items and spends nearly
            the whole budget on their right-hand sides, which are shrunk by what is known of their noise;
            ``"per-item"`` releases a matrix for every item, as in the paper. Without privacy every item
            has its own in any case.
        clip: how a user's part in the right-hand sides is bounded: ``"user"`` scales it down as a whole,
            to the label bound times the feature bound; ``"row"`` clips every rating, as in the paper.
        gram_share: of an item step's budget, the portion spent on A (``"per-item"``); b gets the rest.
        noise_ridge: as in ``MultiTaskRidge`` (``"per-item"``).
    """

    matrices: Literal["shared", "per-item"] = "shared"
    clip: Literal["user", "row"] = "user"
    gram_share: float = 0.2
    noise_ridge: float = 1.0

    def __post_init__(self) -> None:
        word("matrices", self.matrices, ("shared", "per-item"))
        word("clip", self.clip, ("user", "row"))
        number("gram_share", self.gram_share, at_least=LEAST_SHARE, below=1)
        number("noise_ridge", self.noise_ridge, at_least=0, at_most=LARGEST)


@dataclass(frozen=True)
class GradientDescent:
    """Items take noisy gradient steps in every sweep (Algorithm 2), as in ``MultiTaskDescent``.

    Attributes
        steps: per sweep.
        gradient_bound: to which a user's gradient is clipped; by default a quarter of the product of the
            feature bound and the label bound.
        learning_rate: the first step size, in units of the radius.
    """

    steps: int = 20
    gradient_bound: float | None = None
    learning_rate: float = 0.25

    def __post_init__(self) -> None:
        whole("steps", self.steps, at_least=1)
        if self.gradient_bound is not None:
            check_bound("gradient_bound", self.gradient_bound)
        number("learning_rate", self.learning_rate, above=0, at_most=LARGEST)


@dataclass(frozen=True)
class Shares:
    """Portions of the budget (of mu^2) for what is released besides the items' sums.

    Attributes
        gramian: of an item step's budget, for the users' second moment.
        weights: of the whole, for the items' sums of weights, which put the regularizer on the scale of
            the weighted data.
        users: of the whole, for the number of users (``matrices="shared"``).
    """

    gramian: float = 0.05
    weights: float = 0.02
    users: float = 0.005

    def __post_init__(self) -> None:
        for each in fields(self):
            number(f"shares.{each.name}", getattr(self, each.name), at_least=LEAST_SHARE, below=1)


SOLVERS: dict[str, type[SufficientStatistics] | type[GradientDescent]] = {
    "ssp": SufficientStatistics,
    "descent": GradientDescent,
}


@dataclass(frozen=True)
class Choice:
    """Settings of a training that may be chosen.

    Attributes
        factors: the length of the vectors.
        sweeps: how often users and items are solved in turn; 0 for a model of popularity alone (events).
        intercept_share: of the budget of intercepts and sweeps (ratings).
        unobserved_weight: of pairs without an event (events), in training.
        serving_weight: the same when a user's vector is made from the released items.
        serving_regularization: the penalty of that vector (ratings), if it follows from a release.
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
        number("intercept_share", self.intercept_share, at_least=0, below=1)
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
        raise ParameterError(f"allocation must be an Allocation, got {allocation!r}")
    if isinstance(allocation, UniformWeights):
        return AdaptiveWeights(exponent=0.0)
    if type(allocation).typical_weights is Allocation.typical_weights:
        raise ParameterError(
            "allocation must be adaptive or uniform weights or a sampling for a recommender, "
            f"got {type(allocation).__name__}"
        )
    return allocation


def find_regularization(regularization: Any) -> Regularization:
    """The group that a number, or None, stands for; or the group itself."""
    if isinstance(regularization, Regularization):
        return regularization
    if regularization is None or _is_number(regularization):
        return Regularization(regularization)
    raise ParameterError(
        f"regularization must be a number or ap.Regularization(...), got {regularization!r}"
    )


def find_solver(solver: Any) -> SufficientStatistics | GradientDescent:
    """The solver of this name, or the solver itself."""
    if isinstance(solver, (SufficientStatistics, GradientDescent)):
        return solver
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise ParameterError(
            'solver must be "ssp" or "descent", or ap.SufficientStatistics(...) or '
            f"ap.GradientDescent(...), got {solver!r}"
        )
    return SOLVERS[solver]()


def public_inputs(settings: Settings, choice: Choice) -> dict[str, Any]:
    """The settings that a model depends on, as they were used, for the privacy report."""
    unused = {"target", "allocation", "catalog", "solver", "rating_range", "unobserved_weight"}
    if not settings.explicit:
        unused |= {"center", "label_bound", "mean_share"}
    if settings.center == "none":
        unused.add("mean_share")
    if not settings.validated:
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


def check_bound(name: str, bound: float) -> float:
    """A bound as a plain float."""
    return number(name, bound, at_least=1e-60, at_most=LARGEST_BOUND)


def is_auto(value: object) -> bool:
    """Whether the forecast is to choose."""
    return isinstance(value, str) and value == "auto"


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
