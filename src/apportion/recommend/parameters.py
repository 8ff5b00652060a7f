"""The parameters of a recommender: what they are by default, which go together, what is reported of them."""

import math
from dataclasses import asdict
from typing import Any, Literal

from apportion.allocation import AdaptiveWeights, Allocation, UniformWeights
from apportion.data import Interactions
from apportion.data.memory import check_memory
from apportion.privacy import PrivacyTarget
from apportion.privacy.checks import LEAST_SHARE, number, whole, word
from apportion.privacy.errors import DataError, ParameterError
from apportion.recommend.catalogue import ItemCatalogue, find_catalogue
from apportion.recommend.item_step import ItemSettings
from apportion.recommend.planner import Choice
from apportion.tasks.base import Estimator

# Up to these, what is released and what follows from it is within the range of numbers.
_LARGEST, _LARGEST_BOUND = 1e12, 1e30


class Parameters(Estimator):
    """See ``MatrixFactorization``, whose parameters these are."""

    def __init__(
        self,
        factors: int | Literal["auto"] = "auto",
        sweeps: int | Literal["auto"] = "auto",
        feedback: Literal["explicit", "implicit"] = "explicit",
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        allocation: Allocation | None = None,
        solver: Literal["ssp", "descent"] = "ssp",
        statistics: Literal["shared", "per-task"] = "shared",
        clip: Literal["user", "row"] = "user",
        catalogue: str | ItemCatalogue = "public",
        regularization: float | None = None,
        exponent: float | None = None,
        user_regularization: float | None = None,
        unobserved_weight: float = 0.45,
        centring: Literal["user", "global", "none"] = "user",
        feature_bound: float = 0.25,
        normalise: bool | None = None,
        label_bound: float | None = None,
        intercept_share: float | Literal["auto"] = "auto",
        gram_share: float = 0.2,
        gramian_share: float = 0.05,
        weights_share: float = 0.02,
        mean_share: float = 0.02,
        users_share: float = 0.005,
        noise_ridge: float = 1.0,
        steps: int = 20,
        gradient_bound: float | None = None,
        learning_rate: float = 0.25,
        seed: int = 0,
        noise_seed: int | None = None,
    ) -> None:
        self.factors = factors
        self.sweeps = sweeps
        self.feedback = feedback
        self.epsilon = epsilon
        self.delta = delta
        self.allocation = allocation
        self.solver = solver
        self.statistics = statistics
        self.clip = clip
        self.catalogue = catalogue
        self.regularization = regularization
        self.exponent = exponent
        self.user_regularization = user_regularization
        self.unobserved_weight = unobserved_weight
        self.centring = centring
        self.feature_bound = feature_bound
        self.normalise = normalise
        self.label_bound = label_bound
        self.intercept_share = intercept_share
        self.gram_share = gram_share
        self.gramian_share = gramian_share
        self.weights_share = weights_share
        self.mean_share = mean_share
        self.users_share = users_share
        self.noise_ridge = noise_ridge
        self.steps = steps
        self.gradient_bound = gradient_bound
        self.learning_rate = learning_rate
        self.seed = seed
        self.noise_seed = noise_seed

    def _fixed_choice(self) -> Choice | None:
        """The parameters that may be chosen, if they are given, or need no choice."""
        factors, sweeps, share = self.factors, self.sweeps, self.intercept_share
        if math.isinf(self.epsilon):
            factors, sweeps = (
                (32 if factors == "auto" else factors),
                (10 if sweeps == "auto" else sweeps),
            )
            share = 0.2 if share == "auto" else share
        if self.feedback == "implicit":
            share = 0.0
        if factors == "auto" or sweeps == "auto" or share == "auto":
            return None
        return Choice(int(factors), int(sweeps), float(share))

    @property
    def _target(self) -> PrivacyTarget:
        return PrivacyTarget(self.epsilon, self.delta, self._catalogue.delta_share * self.delta)

    @property
    def _catalogue(self) -> ItemCatalogue:
        found = find_catalogue(self.catalogue)
        if found is None:
            raise ParameterError(
                'catalogue must be "public", "private", a PrivateCatalogue or a MostFrequent, '
                f"got {self.catalogue!r}"
            )
        return found

    @property
    def _allocation(self) -> Allocation:
        if self.allocation is None:
            return AdaptiveWeights(0.25 if self.feedback == "explicit" else 0.1)
        if not isinstance(self.allocation, Allocation):
            raise ParameterError(f"allocation must be an Allocation, got {self.allocation!r}")
        if isinstance(self.allocation, UniformWeights):
            return AdaptiveWeights(exponent=0.0)
        if type(self.allocation).typical_weights is Allocation.typical_weights:
            raise ParameterError(
                "allocation must be adaptive or uniform weights or a sampling for a recommender, "
                f"got {type(self.allocation).__name__}"
            )
        return self.allocation

    @property
    def _centring(self) -> Literal["user", "global", "none"]:
        return self.centring if self.feedback == "explicit" else "none"

    @property
    def _alike(self) -> bool:
        """Whether one second moment stands for all items'."""
        private = math.isfinite(self.epsilon)
        return private and self.solver == "ssp" and self.statistics == "shared"

    @property
    def _normalise(self) -> bool:
        return self.feedback == "implicit" if self.normalise is None else self.normalise

    @property
    def _regularization(self) -> float:
        if self.regularization is not None:
            return float(self.regularization)
        return 0.05 if self.feedback == "explicit" else 1.5

    @property
    def _user_regularization(self) -> float:
        if self.user_regularization is not None:
            return float(self.user_regularization)
        return self._regularization * (1.0 if self.feedback == "explicit" else 2.0)

    @property
    def _exponent(self) -> float:
        if self.exponent is not None:
            return float(self.exponent)
        return 1.0 if self.feedback == "explicit" else 0.0

    def label_bound_of(self, data: Interactions) -> float:
        """The label bound that training on the data would use; forecasts are in units of it."""
        if self.feedback == "implicit":
            return 1.0
        if self.label_bound is not None:
            return float(self.label_bound)
        if data.rating_range is None:
            raise DataError(
                "private training on ratings needs their public range: give rating_range to the data, "
                "or label_bound to the model"
            )
        low, high = data.rating_range
        if self._centring == "none":
            return max(abs(low), abs(high))
        return (high - low) / (4 if self._centring == "user" else 2)

    def _check_size(self, items: int) -> None:
        """Refuse a model that is too large; how many items there are must be public, or released."""
        if self.factors != "auto":
            check_memory(f"a model of {self.factors} factors", 8 * self.factors * items)

    def _check_data(self, data: Interactions) -> None:
        if not isinstance(data, Interactions):
            raise DataError(f"fit takes Interactions, got a {type(data).__name__}")
        if self.feedback == "explicit" and not data.explicit:
            raise DataError('the data has no ratings; train on events with feedback="implicit"')
        if self._centring == "global" and data.rating_range is None:
            raise DataError('centring="global" needs ratings in a public rating_range')
        if data.catalogue_is_public or math.isinf(self.epsilon):
            self._check_size(data.items)
        if math.isfinite(self.epsilon):
            self._catalogue.check(data)
            bound = _check_bound(
                "label_bound, which follows from rating_range,", self.label_bound_of(data)
            )
            if bound > _LARGEST_BOUND * self.feature_bound:
                raise DataError("rating_range is too wide for this feature_bound")

    def _check_parameters(self) -> None:
        whole("steps", self.steps, at_least=1)
        for name in ("factors", "sweeps"):
            if not _is_auto(getattr(self, name)):
                whole(name, getattr(self, name), at_least=1)
        if not _is_auto(self.intercept_share):
            share = number("intercept_share", self.intercept_share, at_least=0, below=1)
            if 0 < share < LEAST_SHARE:
                raise ParameterError(f"intercept_share must be 0, or at least {LEAST_SHARE:g}")
        for name, choices in (
            ("feedback", ("explicit", "implicit")),
            ("solver", ("ssp", "descent")),
            ("statistics", ("shared", "per-task")),
            ("clip", ("user", "row")),
            ("normalise", (None, True, False)),
            ("centring", ("user", "global", "none")),
        ):
            word(name, getattr(self, name), choices)
        PrivacyTarget(self.epsilon, self.delta)
        for name in ("feature_bound", "label_bound", "gradient_bound"):
            if getattr(self, name) is not None:
                _check_bound(name, getattr(self, name))
        for name in ("regularization", "user_regularization"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), at_least=0, at_most=_LARGEST)
        for name in ("unobserved_weight", "noise_ridge"):
            number(name, getattr(self, name), at_least=0, at_most=_LARGEST)
        if (self.label_bound or 0.0) > _LARGEST_BOUND * self.feature_bound:
            raise ParameterError("label_bound is too large for this feature_bound")
        if self.exponent is not None:
            number("exponent", self.exponent, at_least=0, at_most=2)
        for name in ("gram_share", "gramian_share", "weights_share", "mean_share", "users_share"):
            number(name, getattr(self, name), at_least=LEAST_SHARE, below=1)
        number("learning_rate", self.learning_rate, above=0, at_most=_LARGEST)
        whole("seed", self.seed, at_least=0)
        _ = self._catalogue, self._allocation

    def _item_settings(self, data: Interactions, choice: Choice) -> ItemSettings:
        # Without privacy it is the unit of the intercepts and no bound.
        known = self.label_bound is not None or data.rating_range is not None
        private = math.isfinite(self.epsilon)
        label_bound = self.label_bound_of(data) if private or known else 1.0
        bound = self.gradient_bound
        return ItemSettings(
            solver=self.solver,
            statistics=self.statistics,
            # Events are all 1, which is their bound: there is nothing to scale.
            clip=self.clip if self.feedback == "explicit" else "row",
            sweeps=choice.sweeps,
            normalise=self._normalise,
            feature_bound=float(self.feature_bound),
            label_bound=label_bound,
            unobserved_weight=0.0 if self.feedback == "explicit" else float(self.unobserved_weight),
            gram_share=float(self.gram_share),
            noise_ridge=float(self.noise_ridge),
            steps=int(self.steps),
            gradient_bound=self.feature_bound * label_bound / 4 if bound is None else float(bound),
            learning_rate=float(self.learning_rate),
        )

    def _used_parameters(self, settings: ItemSettings, choice: Choice) -> dict[str, Any]:
        """What the model depends on, as it was used, for the privacy report."""
        unused = {"catalogue"}
        if self.solver == "ssp":
            unused |= {"steps", "gradient_bound", "learning_rate"}
        else:
            unused |= {"statistics", "clip"}
        if self.solver == "descent" or self._alike:
            unused |= {"gram_share", "noise_ridge"}
        if not self._alike:
            unused |= {"users_share"}
        if self.feedback == "explicit":
            unused |= {"unobserved_weight"} | (set() if self._alike else {"gramian_share"})
        else:
            unused |= {"centring", "label_bound", "clip", "intercept_share"}
        if self._centring != "global":
            unused.add("mean_share")
        if math.isinf(self.epsilon):
            unused |= {"statistics", "normalise", "feature_bound", "label_bound", "gradient_bound"}
            unused |= {"clip"}
            unused |= {"gram_share", "gramian_share", "weights_share", "mean_share"}
            unused |= {"noise_ridge", "learning_rate"}
        used = {
            **self._public_parameters(),
            **asdict(settings),
            **asdict(choice),
            "regularization": self._regularization,
            "user_regularization": self._user_regularization,
            "exponent": self._exponent,
        }
        return {name: value for name, value in used.items() if name not in unused}


def _check_bound(name: str, bound: float) -> float:
    return number(name, bound, at_least=1e-60, at_most=_LARGEST_BOUND)


def _is_auto(value: object) -> bool:
    return isinstance(value, str) and value == "auto"
