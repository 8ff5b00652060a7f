"""Convex losses per task by noisy gradient descent (Algorithm 2)."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from apportion.accounts.affordable import sampled_mu, sampled_mu_of
from apportion.accounts.costs import gaussian_cost, sampled_cost
from apportion.accounts.declared import Declared
from apportion.allocation import AdaptiveWeights, Allocation
from apportion.allocation.counts import COUNTS
from apportion.allocation.denoising import expected_sizes
from apportion.checks import number, word
from apportion.data import TaskData
from apportion.engine import Engine, Session, queries
from apportion.engine.feed import exact
from apportion.errors import ParameterError
from apportion.privacy import (
    Curator,
    Ledger,
    OpenRelease,
    PrivacyTarget,
    Record,
)
from apportion.privacy.bounds import check_bound
from apportion.progress import Step
from apportion.tasks.base import MultiTaskLinear, release_weights
from apportion.tasks.descent_errors import MOST, DescentErrors, masses
from apportion.tasks.exact import Curvature, minimize_rough, minimize_smooth
from apportion.tasks.losses import Loss, find_loss
from apportion.tasks.noisy_descent import declare_gradients, descend, last_steps
from apportion.tasks.penalty import (
    WEIGHTS_SHARE,
    Penalty,
    RegularizationPer,
    exact_ridge,
    private_ridge,
    weight_sums,
)
from apportion.tasks.scaling import Ranges, Scaling
from apportion.tasks.schedules import (
    EXACT_STEPS,
    POWERS,
    Adaptive,
    Decaying,
    Schedule,
    Steps,
    Theory,
    find_steps,
)
from apportion.tasks.trained import Trained

Array = NDArray[np.float64]
# Models that move less in a step are taken to be where they should be.
_STILL = 1e-2


class MultiTaskDescent(MultiTaskLinear):
    """Linear models with any convex loss for many tasks, under user-level differential privacy.

    Every step sums the users' weighted gradients of all tasks, clipped before they are summed, adds
    noise and moves. The number of steps, and so the cost, is fixed before the first one.

    With ``epsilon=math.inf`` there is no noise, no clipping and no ball, every weight is one, and the
    exact minimizer is approached by accelerated descent (for smooth losses).

    Args:
        epsilon, delta: the privacy budget; ``math.inf`` for no privacy.
        loss: ``"squared"``, ``"logistic"``, ``"hinge"``, ``"huber"``, ``"absolute"``, ``"poisson"``, or a
            ``Loss``. For ``"logistic"`` and ``"hinge"`` labels are -1 and 1, and so is what is predicted;
            ``"poisson"`` predicts rates.
        feature_bound: public; longer feature vectors are scaled down to this norm.
        feature_ranges, intercept: as in ``MultiTaskRidge``.
        label_bound: public; labels are clipped to [-label_bound, label_bound].
        gradient_bound: public; gradients are clipped to this norm. Smaller means less noise and more
            bias. By default half of feature_bound times the loss's Lipschitz constant, or a quarter
            of feature_bound * label_bound for losses that have none.
        regularization: lambda of a ridge penalty lambda/2 |theta|^2, in units of users of full
            weight; not private, free.
        regularization_per: ``"task"``, or ``"user"``: every user of a task brings its own penalty, as in
            ``MultiTaskRidge``. Assumption 3.10 of the paper with lambda = regularization.
        radius: public; models are kept in a ball of this radius. By default
            2 * label_bound / feature_bound.
        steps: how many steps, ``"theory"`` for the paper's, or ``Steps``, which has their sizes, too.
        allocation: how users split their budget among tasks.
        engine: ``"auto"``, ``"cpu"``, ``"reference"`` or an engine: where sums are computed.
        noise_seed: fixes the noise, for tests and studies; the model is then NOT PRIVATE.

    Attributes:
        coef_ [tasks, d] and intercept_ [tasks]: the released models.

    >>> import apportion as ap
    >>> data = ap.simulate_tasks(users=2000, tasks=20, tasks_per_user=5)
    >>> model = ap.MultiTaskDescent(epsilon=2.0, delta=1e-5, loss="huber", radius=1.0).fit(data)
    >>> model.coef_.shape, round(model.privacy.epsilon, 6)
    ((20, 5), 2.0)
    >>> [record.name for record in model.privacy.ledger]
    ['counts', 'gradients']
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        loss: str | Loss = "squared",
        feature_bound: float = 1.0,
        feature_ranges: Ranges | None = None,
        intercept: bool = False,
        label_bound: float = 1.0,
        gradient_bound: float | None = None,
        regularization: float = 0.0,
        regularization_per: RegularizationPer = "task",
        radius: float | None = None,
        steps: int | Literal["theory"] | Steps = Steps(),  # noqa: B008 (immutable)
        allocation: Allocation = AdaptiveWeights.for_convex(),  # noqa: B008 (immutable)
        engine: str | Engine = "auto",
        noise_seed: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.feature_bound = feature_bound
        self.feature_ranges = feature_ranges
        self.intercept = intercept
        self.label_bound = label_bound
        self.gradient_bound = gradient_bound
        self.regularization = regularization
        self.regularization_per = regularization_per
        self.radius = radius
        self.steps = steps
        self.allocation = allocation
        self.engine = engine
        self.noise_seed = noise_seed

    def _train(
        self, data: TaskData, session: Session, curator: Curator, scaling: Scaling, told: Step
    ) -> Trained:
        session.bound_features(self._row_bound, whole=False)
        sizes, noisy = release_weights(self.allocation, data, session, curator)
        ridge = private_ridge(float(self.regularization), self.regularization_per, session, curator)
        settings = find_steps(self.steps)
        rate = float(settings.sampling_rate)
        steps, schedule = self._steps(settings, data, curator, sizes)
        shape = (data.tasks, data.dimension)
        declared = declare_gradients(
            settings.clip, self._gradient_bound, data.dimension, steps, rate
        )
        mu = sampled_mu_of(curator, steps, rate)
        release = declared.open(curator, data.tasks, mu)
        errors = None
        if sizes is not None and noisy is not None:
            expected = expected_sizes(noisy, curator.ledger.noise_of(COUNTS))
            errors = self._errors(expected, sizes, ridge, release, steps, settings)
        query = queries.Gradients(
            np.zeros(shape), find_loss(self.loss), self._gradient_bound, float(self.label_bound),
            settings.clip,
        )  # fmt: skip
        coef = descend(
            session,
            query,
            release,
            schedule,
            Penalty.ridge_only(ridge),
            radius=self._radius,
            momentum=float(settings.momentum),
            average=float(settings.average),
            told=told,
            watch=errors,
        )
        found = None if errors is None else errors.errors(scaling.view())
        return Trained(coef, sizes, errors=found)

    def _errors(
        self,
        expected: Array,
        sizes: Array,
        ridge: Array,
        release: OpenRelease,
        steps: int,
        settings: Steps,
    ) -> DescentErrors | None:
        """What computes standard errors; nothing where masses, or the noise of samples, are not known."""
        if (
            not isinstance(self.allocation, AdaptiveWeights)
            or float(settings.sampling_rate) < 1
            or steps * len(sizes) > MOST
        ):
            return None
        return DescentErrors(
            masses(expected, sizes**-self.allocation.exponent),
            ridge,
            release.records[0].noise_scale,
            self._gradient_bound / self._radius,
            last_steps(settings.average, steps),
            float(settings.momentum),
        )

    def _releases(self, dimension: int, ledger: Ledger | None = None) -> list[Declared]:
        counts = None if self.allocation.counts is None else self.allocation.counts.declared()
        found = [] if counts is None else [counts]
        left = 1.0 - sum(release.share for release in found)
        if self.regularization_per == "user" and float(self.regularization) > 0:
            found.append(replace(weight_sums(), share=WEIGHTS_SHARE * left))
            left *= 1 - WEIGHTS_SHARE
        steps = find_steps(self.steps)
        if ledger is not None:
            number = next(record.steps for record in ledger if record.name == "gradients")
        elif steps.by_theory:
            raise ParameterError(
                'how many steps steps="theory" takes follows from counts that are not released yet: a plan '
                "needs a number"
            )
        else:
            number = steps.fixed
        rate = float(steps.sampling_rate)
        gradients = declare_gradients(steps.clip, self._gradient_bound, dimension, number, rate)
        return [*found, replace(gradients, share=left)]

    def _train_exactly(self, data: TaskData, session: Session, told: Step) -> Array:
        """Without privacy: until nothing moves, or as many steps as asked for."""
        loss, regularization = (
            find_loss(self.loss),
            exact_ridge(float(self.regularization), self.regularization_per, session),
        )
        start = np.zeros((data.tasks, data.dimension))
        steps = find_steps(self.steps)
        most = None if steps.by_theory or steps.number is None else steps.fixed
        done = 0

        def gradient(coef: Array) -> Array:
            nonlocal done
            told(done, most or EXACT_STEPS)
            done += 1
            [sums] = exact(session, queries.Gradients(coef, loss, math.inf, math.inf))
            return np.asarray(sums + regularization[:, None] * coef)

        if math.isinf(loss.smoothness):
            return minimize_rough(gradient, start, self._radius, steps=most or EXACT_STEPS)
        curvature = Curvature(session, data.dimension, loss.smoothness, regularization)
        coef, moves = minimize_smooth(gradient, start, curvature.solve, steps=most or EXACT_STEPS)
        if most is None and moves > _STILL:
            warn(
                f"after {EXACT_STEPS} steps without privacy the models still move by {moves:.1g} a step; a "
                "penalty (regularization) helps where classes can be told apart without error, "
                "Steps(number) goes on",
                UserWarning,
                stacklevel=3,
            )
        return coef

    def _cost(self, target: PrivacyTarget) -> Sequence[Record] | None:
        # Sampled steps have a privacy curve of their own: they are reserved as they will be.
        steps = find_steps(self.steps)
        rate = float(steps.sampling_rate)
        if rate == 1 or math.isinf(target.epsilon):
            return None
        if steps.by_theory:
            raise ParameterError(
                'steps="theory" with sampling_rate < 1 has no cost that is known beforehand, '
                "so no budget can pay for it: give a number of steps"
            )
        share = self.allocation.share
        counts = [gaussian_cost(target.mu * math.sqrt(share))] if share > 0 else []
        ledger = Ledger(target)
        ledger.append(*counts)
        mu = sampled_mu(ledger, steps.fixed, rate)
        return [*counts, sampled_cost(mu, steps.fixed, rate)]

    def _steps(
        self, steps: Steps, data: TaskData, curator: Curator, sizes: Array | None
    ) -> tuple[int, Schedule]:
        """The number of steps and their sizes, from public and released values."""
        theory = self._theory(steps, data, curator, sizes)
        count = theory.steps if theory is not None and steps.by_theory else steps.fixed
        if theory is not None and steps.schedule == "theory":
            return count, theory.schedule(count)
        if steps.schedule == "adaptive":
            rate = 0.25 if steps.learning_rate is None else float(steps.learning_rate)
            return count, Adaptive(rate * self._radius)
        rate = 0.1 if steps.learning_rate is None else float(steps.learning_rate)
        return count, Decaying(rate, POWERS[steps.schedule])

    def _theory(
        self, steps: Steps, data: TaskData, curator: Curator, sizes: Array | None
    ) -> Theory | None:
        if not steps.by_theory and steps.schedule != "theory":
            return None
        users, allocation = steps.users, self.allocation
        if sizes is None or users is None or not isinstance(allocation, AdaptiveWeights):
            raise ParameterError(
                '"theory" needs to know the task sizes and the number of users: '
                "use AdaptiveWeights and give Steps(users=...), a public figure"
            )
        if steps.by_theory and float(steps.sampling_rate) < 1 and allocation.share > 0:
            # Sampled steps of different numbers have different privacy curves; which number it is
            # would depend on released counts, which the accounting does not cover.
            raise ParameterError('steps="theory" with sampling_rate < 1 needs public counts')
        return Theory(
            sizes=sizes,
            exponent=allocation.exponent,
            users=users,
            dimension=data.dimension,
            mu=curator.ledger.affordable_mu(),
            gradient_bound=self._gradient_bound,
            diameter=2 * self._radius,
            regularization=float(self.regularization),
            per_user=self.regularization_per == "user",
        )

    def _group(self, name: str) -> Any:
        value = getattr(self, name)
        return find_steps(value) if name == "steps" else value

    def _public_parameters(self) -> dict[str, Any]:
        used: dict[str, Any] = {"gradient_bound": self._gradient_bound, "radius": self._radius}
        used["steps"] = find_steps(self.steps)
        return {**super()._public_parameters(), "loss": find_loss(self.loss).name, **used}

    @property
    def _loss(self) -> Loss:
        return find_loss(self.loss)

    @property
    def _gradient_bound(self) -> float:
        if self.gradient_bound is not None:
            return check_bound("gradient_bound", self.gradient_bound)
        lipschitz = find_loss(self.loss).lipschitz
        G = self._row_bound
        if math.isfinite(lipschitz):
            return check_bound("gradient_bound", G * lipschitz / 2)
        L = check_bound("label_bound", self.label_bound)
        return check_bound("gradient_bound", G * L / 4)

    @property
    def _radius(self) -> float:
        if self.radius is not None:
            return check_bound("radius", self.radius)
        return check_bound("radius", 2 * float(self.label_bound) / float(self.feature_bound))

    def _check_parameters(self) -> None:
        find_loss(self.loss)
        self._check_features()
        check_bound("label_bound", self.label_bound)
        number("regularization", self.regularization, at_least=0, at_most=1e30)
        word("regularization_per", self.regularization_per, ("task", "user"))
        if find_steps(self.steps).sampling_rate < 1 and self.regularization_per == "user":
            raise ParameterError(
                'regularization_per="user" releases the sums of weights, which steps of sampled users do not '
                'account for: use regularization_per="task", or sampling_rate=1'
            )
        _ = self._gradient_bound, self._radius
