"""Private alternating minimisation for recommenders (Algorithm 3)."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from apportion.data import Interactions
from apportion.data.ids import match_ids
from apportion.privacy import Budget, Curator, UserWeights
from apportion.privacy.checkpoint import Checkpoint
from apportion.privacy.costs import part_of_cost, whole_cost
from apportion.privacy.errors import ParameterError
from apportion.recommend.contents import from_bytes, to_bytes
from apportion.recommend.intercepts import release_intercepts
from apportion.recommend.item_step import ItemStep
from apportion.recommend.parameters import Parameters
from apportion.recommend.plan import Plan, PlannedRelease
from apportion.recommend.planner import (
    FACTORS,
    INTERCEPT_SHARES,
    SWEEPS,
    Choice,
    Forecast,
    forecasts,
)
from apportion.recommend.preparation import Preparation, release_mean, release_users
from apportion.recommend.recommender import ItemModel, Recommender, UserStep
from apportion.tasks.base import (
    array_from_bytes,
    array_to_bytes,
    make_report,
    open_checkpoint,
    open_curator,
)
from apportion.tasks.shared import release_weight_sums

Array = NDArray[np.float64]

_LARGEST = float(np.finfo(np.float32).max)


class MatrixFactorization(Parameters, Recommender):
    """A recommender whose item factors may be published, under user-level differential privacy.

    Ratings y of items i by users j are approximated by u_i . v_j. Training alternates: every user's
    vector v_j is solved exactly from the user's own rows and the items, on the user's side, and clipped;
    then all items u_i are fitted to the users' vectors as in ``MultiTaskRidge`` or
    ``MultiTaskDescent``, privately. Only the items are released: a user's vector follows from the
    items and the user's own history (``fold_in``), by that user alone.

    Explicit feedback minimises sum (y - u_i . v_j)^2 over the ratings, y being the rating less an intercept
    of the item, which is released first, and the user's mean; implicit feedback sum (1 - u_i . v_j)^2 over
    the events + unobserved_weight * sum (u_i . v_j)^2 over all users and items. Both add regularization *
    n^exponent |.|^2 for every user and item with n rows.

    Args:
        factors: the length of the vectors. ``"auto"``, here and below, takes what has the least error to
            expect, in closed form, given the released counts (``forecasts_``).
        sweeps: how often users and items are solved in turn.
        feedback: ``"explicit"`` (ratings) or ``"implicit"`` (events; ratings are ignored).
        epsilon, delta: the privacy budget; ``math.inf`` for no privacy.
        allocation: how users split their budget among their items; by default ``AdaptiveWeights(0.25)``
            (explicit) or ``AdaptiveWeights(0.1)`` (implicit). ``UniformWeights()`` counts as
            ``AdaptiveWeights(0)``: item counts are released for the regulariser in any case.
        solver: ``"ssp"`` (noisy sufficient statistics, Algorithm 1) or ``"descent"`` (noisy gradients,
            Algorithm 2).
        catalogue: ``"public"`` (all items of the data's public catalogue), ``"private"`` (those found
            in the data that pass a noisy threshold), a ``PrivateCatalogue`` or a ``MostFrequent``.
        statistics: of ``"ssp"``: ``"shared"`` takes the users' second moment to be the same for all items
            and spends nearly the whole budget on their right-hand sides, which are shrunk by what is
            known of their noise; ``"per-task"`` releases a matrix for every item, as in the paper.
            Without privacy every item has its own in any case.
        clip: how a user's part in the right-hand sides is bounded: ``"user"`` scales it down as a whole,
            to label_bound * feature_bound; ``"row"`` clips every rating, as in the paper.
        regularization: the penalty; by default 0.05 (explicit) or 1.5 (implicit).
        exponent: of the number of rows in the penalty; by default 1 (explicit) or 0 (implicit). Items'
            numbers are released counts, a user's own number stays with it.
        user_regularization: the penalty of users; by default that of items (explicit) or twice that
            (implicit).
        unobserved_weight: for implicit feedback.
        centring: ``"user"`` subtracts each user's own mean rating, which never leaves the user's side;
            ``"global"`` one mean for all, which is released; ``"none"`` nothing.
        feature_bound: public; longer user vectors are scaled down to this norm.
        normalise: scale shorter user vectors up to that norm too; by default for implicit feedback,
            where only the order of scores matters.
        label_bound: public; the largest norm of a user's centred and weighted ratings, about their
            root mean square (``clip="user"``), or the largest centred rating (``"row"``). By default a
            quarter of the rating range if each user's mean is subtracted, half of it for a global mean.
        intercept_share: the portion of the budget of intercepts and sweeps that is spent on the items'
            intercepts (explicit); 0 for none.
        gram_share: of an item step's budget, the portion spent on A; b gets the rest.
        gramian_share: of an item step's budget, the portion for the users' global Gramian (implicit).
        weights_share: the portion of the whole budget for the items' sums of weights, which put the
            regulariser on the scale of the weighted data.
        mean_share: the portion of the whole budget for the global mean, if there is one.
        users_share: the portion of the whole budget for the number of users (``"shared"`` statistics).
        noise_ridge: as in ``MultiTaskRidge``.
        steps, gradient_bound, learning_rate: of ``"descent"``, per sweep, as in ``MultiTaskDescent``.
        seed: for the first item factors; harmless.
        noise_seed: fixes the noise, for tests and studies; the model is then NOT PRIVATE.

    >>> import apportion as ap
    >>> data = ap.simulate_interactions(users=500, items=40, rows=8000)
    >>> model = ap.MatrixFactorization(factors=4, sweeps=2, epsilon=5.0, delta=1e-5).fit(data)
    >>> model.items.shape, round(model.privacy.epsilon, 6)
    ((40, 4), 5.0)
    >>> items, scores = model.recommend({3: 5.0, 7: 1.0}, k=5)
    >>> len(items), 3 in items
    (5, False)
    """

    def fit(
        self,
        data: Interactions,
        on_sweep: Callable[[int, int], object] | None = None,
        preparation: Preparation | None = None,
        budget: Budget | None = None,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Train; the items may be published under ``self.privacy``.

        Args:
            data: the interactions.
            on_sweep: is told, after each sweep, how many are done and how many there are; also at once,
                if it goes on from a checkpoint after some.
            preparation: goes on from it, and pays for it, instead of making its own. (A second training
                from the same one spends the rest of the budget a second time.)
            budget: pays for the training, or refuses it before anything is released. A preparation that
                was paid from the same budget is not paid again.
            checkpoint: a folder. A training that was killed is gone on with, after its last finished
                sweep, by the same call: the model is the same to the bit, and nothing is spent twice. It
                is refused (``CheckpointError``) if anything that could change a sum is another than it
                was. Until it is finished the folder holds the key of the noise, for its owner alone.
        """
        self._check_parameters()
        self._check_data(data)
        paid, cost, prepared = False, None, None
        if preparation is not None:
            prepared = preparation.to_json()
        if budget is not None and preparation is not None:
            if not preparation.secret_noise:
                raise ParameterError("the plan was made with a noise_seed: no budget pays for it")
            paid = budget.holds(preparation.paid, preparation.ledger)
            cost = whole_cost(self._target, preparation.ledger) if paid else None
        what = type(self).__name__
        with (
            open_checkpoint(checkpoint, self, _seen(data), preparation=prepared) as saved,
            open_curator(self._target, self.noise_seed, saved, budget, what, cost) as curator,
        ):
            if saved is not None and saved.finished:
                vars(self).pop("forecasts_", None)
                self.released_ = from_bytes(saved.folder, saved.values)
            else:
                self._train(data, on_sweep, preparation, paid, curator, saved)
                if saved is not None:
                    saved.finish(to_bytes(self.released_), curator.ledger)
        return self

    def _train(
        self,
        data: Interactions,
        on_sweep: Callable[[int, int], object] | None,
        preparation: Preparation | None,
        paid: bool,
        curator: Curator,
        saved: Checkpoint | None,
    ) -> None:
        given, allocation, catalogue = data, self._allocation, self._catalogue
        if preparation is None:
            preparation, data, weights = self._prepare(data, curator)
        else:
            preparation.check(self._kind)
            plan = self._plan(None)
            first = [release.name for release in plan.releases if release.name != "training"]
            preparation.check_ledger({name: plan.mu(name) for name in first})
            data = preparation.restrict(data)
            curator.ledger.append(*preparation.ledger, paid=paid)
            weights, _ = allocation.allocate(data.graph, curator, preparation.sizes)
        users, sizes = preparation.users, preparation.sizes
        user_step = self._user_step(given, preparation.mean)
        if weights.bounded:
            # Multiplied by an item's typical weight, a penalty means the same to its weighted rows as it
            # means to rows of weight one.
            scale, counts = allocation.typical_weights(sizes, preparation.sums)
        else:
            scale, counts = np.ones(data.items), np.maximum(preparation.sums, 1.0)
        vars(self).pop("forecasts_", None)  # of an earlier training
        choice = self._fixed_choice()
        if choice is None:
            self.forecasts_ = self.forecasts(preparation)
            choice = self.forecasts_[0].choice
        settings = self._item_settings(data, choice)
        plan = self._plan(choice)

        intercepts = None
        if choice.intercept_share > 0:
            mu = plan.mu("intercepts") if weights.bounded else math.inf
            bound = settings.label_bound
            found = release_intercepts(
                _labels(given, data, user_step, None), weights, bound, scale, counts, curator, mu
            )
            # Within 32 bits whatever the bound: what is infinite would stop the training.
            intercepts = np.clip(found, -_LARGEST, _LARGEST).astype(np.float32)
        labels = _labels(given, data, user_step, intercepts)
        start, item = data.by_user.start, data.by_user.other
        ridge = self._regularization * scale * counts**self._exponent
        item_step = ItemStep(
            settings, plan, curator, weights, labels, data, ridge, scale, scale * counts, users
        )
        del weights  # the largest array beside the data
        items, done = self._first_items(data.items, choice.factors), 0
        if saved is not None and saved.done:
            items, done = array_from_bytes(saved.values), saved.done
            saved.restore(curator.ledger)
            if on_sweep is not None:
                on_sweep(done, settings.sweeps)
        for sweep in range(done + 1, settings.sweeps + 1):
            # No name for the vectors: they are the largest array, and not needed once they are bounded.
            features = item_step.features(user_step.vectors(start, item, labels, items))
            items = item_step(sweep, *features, items)
            if saved is not None:
                saved.save(sweep, array_to_bytes(items), curator.ledger)
            if on_sweep is not None:
                on_sweep(sweep, settings.sweeps)
        public = {
            "catalogue": f"{catalogue!r}: {data.items} items",
            **({"rating_range": data.rating_range} if data.rating_range else {}),
            **({"events": data.events} if data.events else {}),
            **self._used_parameters(settings, choice),
        }
        known = self._count_warnings  # which the report has already
        warnings = dict.fromkeys((*catalogue.warnings(given), *preparation.warnings))
        others = tuple(warning for warning in warnings if warning not in known)
        report = make_report(curator, allocation, public, others, catalogue.counts)
        if not preparation.secret_noise:
            report = replace(report, secret_noise=False)
        self.released_ = ItemModel(
            items=np.clip(items, -_LARGEST, _LARGEST).astype(np.float32),
            item_ids=data.item_ids,
            counts=sizes,
            titles=None,
            user_step=user_step,
            privacy=report,
            intercepts=intercepts,
        )

    def prepare(self, data: Interactions, budget: Budget | None = None) -> Preparation:
        """Release what comes before the sweeps (counts above all) and stop there.

        ``forecasts`` says what to expect then; ``fit(data, preparation=...)`` goes on and pays for both.
        With a ``budget`` these releases are paid from it now, and ``fit`` pays the rest.
        """
        self._check_parameters()
        self._check_data(data)
        if math.isinf(self.epsilon):
            raise ParameterError("without privacy there is nothing to prepare: epsilon is infinite")
        share = math.fsum(
            release.share for release in self._plan(None).releases if release.name != "training"
        )
        target, what = self._target, "preparation"
        cost = part_of_cost(target, share)
        with open_curator(target, self.noise_seed, None, budget, what, cost) as curator:
            prepared = self._prepare(data, curator)[0]
        return replace(prepared, paid=curator.token)

    def _prepare(
        self, data: Interactions, curator: Curator
    ) -> tuple[Preparation, Interactions, UserWeights]:
        """Also returns the interactions with items of the catalogue, and the weights of their pairs."""
        plan = self._plan(None)
        warnings = (*self._count_warnings, *self._catalogue.warnings(data))
        mean = 0.0
        if self._centring == "global":
            mean = release_mean(data, curator, plan.mu("mean"))
        elif self._centring == "user" and data.rating_range is not None:
            mean = sum(data.rating_range) / 2  # of a user without ratings
        data, sizes = self._catalogue.choose(data, curator)
        self._check_size(data.items)
        weights, sizes = self._allocation.allocate(data.graph, curator, sizes)
        sums, users = data.graph.task_sizes(), 1.0
        if weights.bounded:
            sums = release_weight_sums(weights, data.items, curator, plan.mu("weights"))
        if self._alike:
            users = release_users(data, curator, plan.mu("users"))
        prepared = Preparation(
            item_ids=data.item_ids,
            sizes=sizes,
            sums=sums,
            users=users,
            mean=mean,
            ledger=curator.ledger.copy(),
            secret_noise=curator.noise.secret,
            training=self._kind,
            warnings=warnings,
        )
        return prepared, data, weights

    @property
    def _count_warnings(self) -> tuple[str, ...]:
        """What is to be known of the counts: the catalogue's, or else the allocation's."""
        source = self._allocation if self._catalogue.counts is None else self._catalogue.counts
        return source.warnings()

    @property
    def _kind(self) -> dict[str, str]:
        """What a preparation and the training that goes on from it must have in common."""
        return {
            "feedback": self.feedback,
            "epsilon": repr(float(self.epsilon)),
            "delta": repr(float(self.delta)),
            "solver": self.solver,
            "statistics": self.statistics,
            "catalogue": repr(self._catalogue),
            "allocation": repr(self._allocation),
            "centring": self._centring,
        }

    def forecasts(self, preparation: Preparation) -> list[Forecast]:
        """The error to expect with every setting that ``"auto"`` leaves open, the best first.

        In closed form and from released values: nothing is spent.
        """
        preparation.check(self._kind)
        scale, counts = self._allocation.typical_weights(preparation.sizes, preparation.sums)
        share = self.intercept_share if self.feedback == "explicit" else 0.0
        return forecasts(
            self.feedback,
            counts,
            scale,
            self._plan(None).mu("training"),
            float(self.gramian_share),
            FACTORS if self.factors == "auto" else [int(self.factors)],
            SWEEPS if self.sweeps == "auto" else [int(self.sweeps)],
            INTERCEPT_SHARES if share == "auto" else [float(share)],
        )

    def plan(self) -> Plan:
        """How the budget will be split, from the parameters alone: nothing is spent.

        >>> print(MatrixFactorization(8, sweeps=1, intercept_share=0.5, epsilon=1.0).plan())
        plan for epsilon = 1 at delta = 1e-05 (mu = 0.2681); noise in units of one user's part
          counts               users per item                                10.0%, noise 11.8
          weights              sums of weights per item                       2.0%, noise 26.4
          users                number of users                                0.5%, noise 52.8
          intercepts           weighted sums of centred ratings              43.8%, noise 5.64
          sweep 1 gramian      sum of all users' v v'                         2.2%, noise 25.2
          sweep 1              weighted sums of y x                          41.6%, noise 5.79
        """
        self._check_parameters()
        return self._plan(self._fixed_choice())

    def _plan(self, choice: Choice | None) -> Plan:
        """With what is chosen; None stands for what will be, once the counts are released."""
        catalogue, allocation, target = self._catalogue, self._allocation, self._target
        planned = []
        if self._centring == "global":
            planned.append(PlannedRelease("mean", "mean of users' mean ratings", self.mean_share))
        counts_share = allocation.share if catalogue.counts is None else catalogue.share
        if counts_share:
            planned.append(PlannedRelease("counts", "users per item", counts_share))
        planned.append(PlannedRelease("weights", "sums of weights per item", self.weights_share))
        if self._alike:
            planned.append(PlannedRelease("users", "number of users", self.users_share))
        left = 1 - math.fsum(release.share for release in planned)
        if choice is None:
            what = "intercepts and sweeps, chosen after counts"
            return Plan(target, (*planned, PlannedRelease("training", what, left)))
        if choice.intercept_share > 0:
            what, share = "weighted sums of centred ratings", left * choice.intercept_share
            planned.append(PlannedRelease("intercepts", what, share))
        gramian = self._alike or (self.feedback == "implicit" and self.unobserved_weight > 0)
        rest = 1 - self.gramian_share if gramian else 1.0
        parts = []
        if gramian:
            share = float(self.gramian_share)
            parts.append(PlannedRelease(" gramian", "sum of all users' v v'", share))
        if self.solver == "descent":
            parts.append(PlannedRelease("", f"clipped gradients, {self.steps} steps", rest))
        elif self._alike:
            parts.append(PlannedRelease("", "weighted sums of y x", rest))
        else:
            of_b = 1 - self.gram_share
            parts.append(PlannedRelease(".A", "weighted sums of x x'", rest * self.gram_share))
            parts.append(PlannedRelease(".b", "weighted sums of y x", rest * of_b))
        return Plan.with_sweeps(target, planned, choice.sweeps, parts)

    def _user_step(self, data: Interactions, mean: float) -> UserStep:
        explicit = self.feedback == "explicit"
        return UserStep(
            feedback=self.feedback,
            regularization=self._user_regularization,
            exponent=self._exponent,
            unobserved_weight=0.0 if explicit else float(self.unobserved_weight),
            centring=self._centring,
            mean=mean,
            rating_range=data.rating_range if explicit else None,
        )

    def _first_items(self, items: int, factors: int) -> Array:
        """Random factors, of about the size that explains ratings by users at their bound."""
        rng = np.random.default_rng(self.seed)
        private = math.isfinite(self.epsilon)
        bound = float(self.feature_bound) if private else 1.0
        return rng.normal(0.0, 1 / (bound * math.sqrt(factors)), (items, factors))


def _seen(data: Interactions) -> list[Any]:
    """All of the data that a training sees."""
    public = [data.rating_range, data.events, data.catalogue_is_public, data.catalogue_from_data]
    return [data.by_user, data.user_key, data.item_ids, *public]


def _labels(
    given: Interactions, data: Interactions, user_step: UserStep, intercepts: NDArray[Any] | None
) -> Array:
    """y of every row of the data, whose items are some of those that were given, [rows].

    Users' means are those of all that was given, as they are afterwards (``Recommender``).
    """
    rating = given.by_user.rating
    if rating is None or intercepts is None:
        means = user_step.means(given.by_user.start, rating)
        return user_step.labels(data.by_user.start, data.by_user.rating, means)
    intercepts = intercepts.astype(np.float64)  # differences may be too large for 32 bits
    # -1, not in the catalogue, is the last.
    offset = np.append(intercepts, 0.0)[match_ids(given.item_ids, data.item_ids)]
    means = user_step.means(given.by_user.start, rating - offset[given.by_user.other])
    assert data.by_user.rating is not None
    rating = data.by_user.rating - intercepts[data.by_user.other]
    return user_step.labels(data.by_user.start, rating, means)
