"""The second step of a training: what was left open is chosen, from released values alone."""

from dataclasses import dataclass
from typing import Literal

from apportion.accounts.plan import Plan
from apportion.data.memory import check_memory
from apportion.recommend.capacity import MOST, MOST_OF_OTHERS, SERVED, SERVING, UNOBSERVED, Capacity
from apportion.recommend.groups import Regularization, is_auto
from apportion.recommend.planner import FACTORS, INTERCEPT_SHARES, SWEEPS, Forecast, forecasts
from apportion.recommend.preparation import Preparation
from apportion.recommend.settings import Choice, Settings
from apportion.recommend.sizes import Sizes


@dataclass(frozen=True)
class Asked:
    """The parameters that may be left open, as they were given: a value, or ``"auto"``."""

    factors: int | Literal["auto"]
    sweeps: int | Literal["auto"]
    intercept_share: float | Literal["auto"]
    regularization: Regularization

    def fixed(self, settings: Settings) -> Choice | None:
        """The choice, if all are given, or need no choice."""
        factors, sweeps, share = self.factors, self.sweeps, self.intercept_share
        weight = self.regularization.unobserved_weight
        if not settings.private:
            factors = 32 if is_auto(factors) else factors
            sweeps = 10 if is_auto(sweeps) else sweeps
            share = 0.2 if is_auto(share) else share
        if settings.explicit:
            weight = 0.0
        else:
            share = 0.0
        if is_auto(factors) or is_auto(sweeps) or is_auto(share):
            return None
        serving = SERVING if is_auto(weight) else float(weight)
        training = UNOBSERVED if is_auto(weight) and settings.private else serving
        penalty = self._served(settings)
        return Choice(int(factors), int(sweeps), float(share), training, serving, penalty)

    def _served(self, settings: Settings) -> float:
        """The penalty of users' vectors that are served (events); 0 for that in training."""
        own = self.regularization
        given = (own.items, own.users, own.exponent) != (None, None, None)
        if given or settings.explicit or not settings.private:
            return 0.0
        return SERVED * settings.user_regularization

    def open_names(self, settings: Settings) -> set[str]:
        """The settings that are to be chosen."""
        given: dict[str, object] = {"factors": self.factors, "sweeps": self.sweeps}
        if settings.explicit:
            given["intercept_share"] = self.intercept_share
        else:
            weight = self.regularization.unobserved_weight
            given |= {"unobserved_weight": weight, "serving_weight": weight}
        names = {name for name, value in given.items() if is_auto(value)}
        return names | ({"serving_regularization"} if settings.validated else set())

    def choose(
        self, settings: Settings, plan: Plan, preparation: Preparation, sizes: Sizes
    ) -> tuple[Choice, list[Forecast]]:
        """What the forecast advises, and the forecasts; none if everything is given."""
        if (choice := self.fixed(settings)) is not None:
            return choice, []
        found = self.forecasts(settings, plan, preparation, sizes)
        return found[0].choice, found

    def forecasts(
        self, settings: Settings, plan: Plan, preparation: Preparation, sizes: Sizes
    ) -> list[Forecast]:
        """The error to expect with every setting that is open, the best first; of a plan without a choice."""
        if not settings.explicit:
            capacity = Capacity.of(
                preparation.sums,
                sizes.noise,
                sizes.scale * sizes.counts,
                settings.target.mu,
                MOST if settings.shared else MOST_OF_OTHERS,
            )
            return capacity.forecasts(
                None if is_auto(self.factors) else int(self.factors),
                None if is_auto(self.sweeps) else int(self.sweeps),
                settings.unobserved_weight,
                self._served(settings),
            )
        share = self.intercept_share
        return forecasts(
            sizes.counts,
            sizes.scale,
            plan.training_mu,
            settings.shares.gramian,
            FACTORS if is_auto(self.factors) else [int(self.factors)],
            SWEEPS if is_auto(self.sweeps) else [int(self.sweeps)],
            INTERCEPT_SHARES if is_auto(share) else [float(share)],
            preparation.users if settings.shared else None,
            averages=settings.shared and all(map(is_auto, (self.factors, self.sweeps, share))),
        )

    def check_size(self, items: int) -> None:
        """Refuse a model that is too large; how many items there are must be public, or released."""
        if isinstance(self.factors, int):
            check_memory(f"a model of {self.factors} factors", 8 * self.factors * items)
