"""Settings of a recommender in groups, as people set them: each has defaults that explain themselves."""

from dataclasses import dataclass, fields
from typing import Any, Literal, TypeGuard

from apportion.checks import LEAST_SHARE, number, whole, word
from apportion.errors import ParameterError

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
        users: by default a third of that of items in training (implicit), and four times as much when
            vectors are made from the released items, if nothing is given; for ratings that of items in
            training, and a penalty that does not grow with n when vectors are made from the released
            items. It follows from a small release after the last sweep: how much users' vectors help to
            predict ratings that they were not made from.
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


def check_bound(name: str, bound: float) -> float:
    """A bound as a plain float."""
    return number(name, bound, at_least=1e-60, at_most=LARGEST_BOUND)


def is_auto(value: object) -> bool:
    """Whether the forecast is to choose."""
    return isinstance(value, str) and value == "auto"


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
