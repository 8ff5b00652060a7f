"""Private alternating minimization for recommenders (Algorithm 3)."""

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from apportion.accounts import Budget, PrivacyReport
from apportion.accounts.checkpoint import Checkpoint
from apportion.accounts.costs import part_of_cost, whole_cost
from apportion.accounts.plan import Plan
from apportion.allocation import Allocation
from apportion.allocation.counts import noise_of
from apportion.checks import number, whole
from apportion.data import Interactions
from apportion.data.memory import check_memory
from apportion.data.rows import Rows
from apportion.engine import Engine, Session, find_engine
from apportion.errors import DataError, ParameterError
from apportion.folders.kinds import MOST_FACTORS
from apportion.privacy import Curator, PrivacyTarget, Record
from apportion.privacy.ledger import total_epsilon
from apportion.progress import Wanted, both, watched
from apportion.recommend import exact, exact_choice, exact_events, progress, releases, rules
from apportion.recommend.capacity import MOST, MOST_OF_OTHERS, SERVING, UNOBSERVED, Capacity
from apportion.recommend.catalog import ItemCatalog
from apportion.recommend.contents import from_bytes, to_bytes
from apportion.recommend.fold_in import FoldIn
from apportion.recommend.model import ItemModel
from apportion.recommend.planner import FACTORS, INTERCEPT_SHARES, SWEEPS, Forecast, forecasts
from apportion.recommend.popularity import WARNING, learn_popularity, one_factor
from apportion.recommend.preparation import Preparation
from apportion.recommend.quality import least_epsilon
from apportion.recommend.recommender import Recommender
from apportion.recommend.serving import AVERAGES, choose_penalty, penalty_of
from apportion.recommend.settings import (
    LARGEST,
    Bounds,
    Choice,
    GradientDescent,
    Offsets,
    Regularization,
    Settings,
    Shares,
    SufficientStatistics,
    check_bound,
    find_allocation,
    find_regularization,
    find_solver,
    is_auto,
    public_inputs,
    resolve,
)
from apportion.recommend.training import (
    Knowledge,
    Step,
    as_singles,
    count_warnings,
    data_warnings,
    expected_counts,
    first_items,
    kind_of,
    learn_offsets,
    prepare,
    private_step,
    resume_preparation,
    typical_weights,
)
from apportion.tasks.estimator import Estimator
from apportion.tasks.private_fit import (
    make_report,
    open_checkpoint,
    open_curator,
)

Array = NDArray[np.float64]
OnSweep = Callable[[int, int], object]

_log = logging.getLogger(__name__)


class MatrixFactorization(Estimator, Recommender):
    """A recommender whose item factors may be published, under user-level differential privacy.

    Ratings y of items i by users j are approximated by u_i . v_j. Training alternates: every user's
    vector v_j is solved exactly from the user's own rows and the items, on the user's side, and clipped;
    then all items u_i are fitted to the users' vectors as in ``MultiTaskRidge`` or
    ``MultiTaskDescent``, privately. Only the items are released: a user's vector follows from the
    items and the user's own history (``fold_in``), by that user alone.

    Explicit feedback minimizes sum (y - u_i . v_j)^2 over the ratings, y being the rating less an intercept
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
            ``AdaptiveWeights(0)``: item counts are released for the regularizer in any case.
        solver: ``"ssp"`` (noisy sufficient statistics, Algorithm 1) or ``"descent"`` (noisy gradients,
            Algorithm 2), or ``ap.SufficientStatistics(...)``, ``ap.GradientDescent(...)`` with settings.
        catalog: ``"public"`` (all items of the data's public catalog), ``"private"`` (those found
            in the data that pass a noisy threshold), a ``PrivateCatalog`` or a ``MostFrequent``.
        regularization: the penalty of items, or ``ap.Regularization(...)``.
        bounds: ``ap.Bounds(...)``: public bounds of vectors and labels.
        offsets: ``ap.Offsets(...)``: what is subtracted from ratings.
        shares: ``ap.Shares(...)``: portions of the budget.
        engine: ``"auto"``, ``"cpu"``, ``"reference"`` or an engine: where sums are computed.
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

    def __init__(
        self,
        factors: int | Literal["auto"] = "auto",
        sweeps: int | Literal["auto"] = "auto",
        feedback: Literal["explicit", "implicit"] = "explicit",
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        allocation: Allocation | None = None,
        solver: Literal["ssp", "descent"] | SufficientStatistics | GradientDescent = "ssp",
        catalog: str | ItemCatalog = "public",
        regularization: float | Regularization | None = None,
        bounds: Bounds = Bounds(),  # noqa: B008 (immutable, as the others)
        offsets: Offsets = Offsets(),  # noqa: B008
        shares: Shares = Shares(),  # noqa: B008
        engine: str | Engine = "auto",
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
        self.catalog = catalog
        self.regularization = regularization
        self.bounds = bounds
        self.offsets = offsets
        self.shares = shares
        self.engine = engine
        self.seed = seed
        self.noise_seed = noise_seed

    def __repr__(self) -> str:
        return Recommender.__repr__(self) if self._trained else Estimator.__repr__(self)

    def _repr_html_(self) -> str:
        return Recommender._repr_html_(self) if self._trained else Estimator._repr_html_(self)

    @property
    def _trained(self) -> bool:
        return hasattr(self, "released_")

    def fit(
        self,
        data: Interactions,
        on_sweep: OnSweep | None = None,
        preparation: Preparation | None = None,
        budget: Budget | None = None,
        checkpoint: str | Path | bool | None = None,
        *,
        progress: Wanted = None,
    ) -> Self:
        """Train; the items may be published under ``self.privacy``.

        Args:
            data: the interactions.
            on_sweep: is told, after each sweep, how many are done and how many there are; also at once,
                if it resumes from a checkpoint after some.
            preparation: resumes it, and pays for it, instead of making its own. (A second training
                from the same one spends the rest of the budget a second time.)
            budget: pays for the training, or refuses it before anything is released. A preparation that
                was paid from the same budget is not paid again.
            checkpoint: a folder. A training that was killed is resumed, after its last finished
                sweep, by the same call: the model is the same to the bit, and nothing is spent twice. It
                is refused (``CheckpointError``) if anything that could change a sum is another than it
                was. Until it is finished the folder holds the key of the noise, for its owner alone.
                With a budget there is one by default, in the user's state folder, until ``save`` or
                ``drop_checkpoint``; True makes one there without a budget, too, and False makes none.
            progress: how far it is: after a second, on a terminal or in a notebook; False shows it nowhere,
                True anywhere.
        """
        settings = self._settings(data)
        self._warn_of_copies()
        if preparation is not None:
            preparation.check(kind_of(settings))
        paid, cost = _paid_before(settings, preparation, budget)
        before = tuple(preparation.ledger) if preparation is not None and paid else ()
        known = None if preparation is None else preparation.to_json()
        engine, what = find_engine(self.engine), type(self).__name__
        with (
            watched("training", progress) as told,
            open_checkpoint(
                checkpoint, self, engine, data.contents(), budget, preparation=known
            ) as saved,
            open_curator(
                settings.target, self.noise_seed, saved, budget, what, cost, before
            ) as curator,
        ):
            vars(self).pop("forecasts_", None)  # of an earlier training
            if saved is not None and saved.finished:
                folder = saved.folder
                self.released_ = saved.read(lambda content: from_bytes(folder, content))
                return self
            session = engine.load(_rows(settings, data))
            on_sweep = told if on_sweep is None else both(told, on_sweep)
            if settings.private:
                self.released_ = self._train_privately(
                    settings, data, session, curator, preparation, paid, saved, on_sweep
                )
            else:
                self.released_ = self._train_exactly(
                    settings, data, session, curator, saved, on_sweep
                )
            if saved is not None:
                saved.finish(to_bytes(self.released_), curator.ledger)
        return self

    def _train_privately(
        self,
        settings: Settings,
        data: Interactions,
        session: Session,
        curator: Curator,
        preparation: Preparation | None,
        paid: bool,
        saved: Checkpoint | None,
        on_sweep: OnSweep | None,
    ) -> ItemModel:
        """Prepare, choose, sweep, report."""
        if preparation is None:
            preparation = prepare(settings, data, session, curator, self._check_size)
        else:
            self._check_size(len(preparation.item_ids))
            resume_preparation(settings, preparation, data, session, curator, paid=paid)
        choice = self._choose(settings, preparation)
        if (known_before := progress.chosen(saved)) is None:
            progress.keep(saved, curator.ledger, choice)  # before it is used
        else:
            choice = known_before
        plan = releases.plan(settings, choice)
        counts = expected_counts(preparation)
        known = learn_offsets(settings, plan, preparation, session, curator)
        if choice.sweeps == 0:
            counts, items = learn_popularity(plan, known.scale, session, curator)
        else:
            step = private_step(settings, choice, plan, known, session, curator)
            items = self._sweep(settings, choice, step, session, curator, saved, on_sweep)
        choice = choose_penalty(
            settings, choice, plan, preparation.offset, known, items, session, curator
        )
        report = _report(settings, choice, data, preparation, curator, self._open_names(settings))
        return _released(settings, choice, preparation, known, items, counts, report)

    def _train_exactly(
        self,
        settings: Settings,
        data: Interactions,
        session: Session,
        curator: Curator,
        saved: Checkpoint | None,
        on_sweep: OnSweep | None,
    ) -> ItemModel:
        """The same without privacy: nothing is released, everything is exact."""
        choice = self._fixed_choice()
        assert choice is not None
        if self._chooses_exactly(settings, data):
            engine = find_engine(self.engine)
            settings, choice = exact_choice.choose(
                settings, choice, data, lambda part: engine.load(part.rows()), curator, self.seed
            )
        elif not settings.explicit and is_auto(self.factors) and isinstance(data.rows(), Rows):
            penalty = find_regularization(self.regularization)
            settings, choice = exact_events.choose(
                settings,
                choice,
                data,
                lambda part: find_engine(self.engine).load(_rows(settings, part)),
                curator,
                self.seed,
                weight=is_auto(penalty.unobserved_weight),
                penalty=(penalty.items, penalty.users, penalty.exponent) == (None, None, None),
            )
        prepared = exact.prepare(settings, data, session, curator)
        known = exact.learn_offsets(settings, choice, prepared, session)
        counts = expected_counts(prepared)
        if choice.sweeps == 0:
            counts = prepared.sums
            items = one_factor(counts)
        else:
            step = exact.exact_step(settings, choice, known, session)
            items = self._sweep(settings, choice, step, session, curator, saved, on_sweep)
        report = _report(settings, choice, data, prepared, curator, set())
        return _released(settings, choice, prepared, known, items, counts, report)

    def _chooses_exactly(self, settings: Settings, data: Interactions) -> bool:
        """Whether penalties follow from rows that are kept out, which takes rows in memory."""
        penalty = find_regularization(self.regularization)
        given = penalty.items is not None or penalty.users is not None
        return settings.explicit and not given and isinstance(data.rows(), Rows)

    def _sweep(
        self,
        settings: Settings,
        choice: Choice,
        step: Step,
        session: Session,
        curator: Curator,
        saved: Checkpoint | None,
        on_sweep: OnSweep | None,
    ) -> Array:
        """All sweeps, or those that a checkpoint lacks; the items, [items, factors]."""
        items, done = first_items(settings, session.tasks, choice.factors, self.seed), 0
        if saved is not None and saved.done:
            items, done = progress.items(saved, items.shape), saved.done
            saved.restore(curator.ledger)
            if on_sweep is not None:
                on_sweep(done, choice.sweeps)
        for sweep in range(done + 1, choice.sweeps + 1):
            items = step(sweep, items)
            _log.info("sweep %d of %d", sweep, choice.sweeps)
            progress.keep(saved, curator.ledger, choice, sweep, items)
            if on_sweep is not None:
                on_sweep(sweep, choice.sweeps)
        return items

    def _choose(self, settings: Settings, preparation: Preparation) -> Choice:
        """The settings that are left open: what the forecast advises."""
        choice = self._fixed_choice()
        if choice is None:
            self.forecasts_ = self._forecasts(settings, preparation)
            choice = self.forecasts_[0].choice
        return choice

    def prepare(self, data: Interactions, budget: Budget | None = None) -> Preparation:
        """Release what comes before the sweeps (counts above all) and stop there.

        ``forecasts`` says what to expect then; ``fit(data, preparation=...)`` resumes it and pays for both.
        With a ``budget`` these releases are paid from it now, and ``fit`` pays the rest.
        """
        settings = self._settings(data)
        if not settings.private:
            raise ParameterError("without privacy there is nothing to prepare: epsilon is infinite")
        cost = _preparation_cost(settings)
        with open_curator(
            settings.target, self.noise_seed, None, budget, "preparation", cost
        ) as curator:
            session = find_engine(self.engine).load(_rows(settings, data))
            prepared = prepare(settings, data, session, curator, self._check_size)
        return replace(
            prepared, paid=None if curator.reservation is None else curator.reservation.token
        )

    def preparation_epsilon(self) -> float:
        """The epsilon, at this delta, that ``prepare`` costs: from the parameters alone.

        >>> round(MatrixFactorization(epsilon=1.0, delta=1e-5).preparation_epsilon(), 2)
        0.35
        """
        settings = self._settings(None)
        return total_epsilon(_preparation_cost(settings), settings.target.delta)

    def save(self, folder: str | Path, titles: Any = None) -> None:
        """As of every recommender; what a budget paid for is kept in a checkpoint until this is done."""
        with self._kept_until_saved(folder):
            super().save(folder, titles)

    def forecasts(self, preparation: Preparation) -> list[Forecast]:
        """The error to expect with every setting that ``"auto"`` leaves open, the best first.

        In closed form and from released values: nothing is spent.
        """
        settings = self._settings(None)
        _check_preparation(preparation)
        preparation.check(kind_of(settings))
        return self._forecasts(settings, preparation)

    def least_epsilon(self, preparation: Preparation, error: float) -> tuple[float, Forecast]:
        """The least epsilon that is expected to give no larger an error, and the forecast with it.

        The error is that of ``forecasts``: of ratings the RMSE in units of the label bound, of events the
        share of what could be learned that is lost. What was released before stays as it is; only what
        training would cost is another. Nothing is spent.
        """
        settings = self._settings(None)
        _check_preparation(preparation)
        preparation.check(kind_of(settings))
        error = number("error", error, above=0, at_most=1e6)

        def best(target: PrivacyTarget) -> Forecast:
            return self._forecasts(replace(settings, target=target), preparation)[0]

        return least_epsilon(best, error, settings.target.delta - settings.target.selection_delta)

    def _forecasts(self, settings: Settings, preparation: Preparation) -> list[Forecast]:
        scale, counts = typical_weights(settings, preparation)
        if not settings.explicit:
            capacity = Capacity.of(
                preparation.sums,
                noise_of(preparation.ledger, releases.WEIGHTS),
                scale * counts,
                settings.target.mu,
                MOST if settings.shared else MOST_OF_OTHERS,
            )
            return capacity.forecasts(
                None if is_auto(self.factors) else int(self.factors),
                None if is_auto(self.sweeps) else int(self.sweeps),
                settings.unobserved_weight,
            )
        share = self.offsets.intercept_share
        return forecasts(
            settings.feedback,
            counts,
            scale,
            releases.plan(settings, None).training_mu,
            settings.shares.gramian,
            FACTORS if is_auto(self.factors) else [int(self.factors)],
            SWEEPS if is_auto(self.sweeps) else [int(self.sweeps)],
            INTERCEPT_SHARES if is_auto(share) else [float(share)],
        )

    def plan(self) -> Plan:
        """How the budget will be split, from the parameters alone: nothing is spent.

        >>> from apportion import Offsets
        >>> print(MatrixFactorization(8, sweeps=1, offsets=Offsets(intercept_share=0.5)).plan())
        plan for epsilon = 1 at delta = 1e-05 (mu = 0.2681); noise in units of one user's part
          rating moments       users, their means, and moments within and between them   2.0%, noise 26.4
          counts               users per task, users of many tasks scaled down  10.0%, noise 11.8
          weights              sums of weights per item                       2.0%, noise 26.4
          users                number of users                                0.5%, noise 52.8
          intercepts           weighted sums of centered ratings             41.2%, noise 5.81
          sweep 1 gramian      sum of all users' v v'                         2.1%, noise 26
          sweep 1              weighted sums of y x                          39.2%, noise 5.96
          fold-in gains        by how much users' vectors help, by penalty    3.0%, noise 21.5
        """
        return releases.plan(self._settings(None), self._fixed_choice())

    def _group(self, name: str) -> Any:
        value = getattr(self, name)
        if name == "solver":
            return find_solver(value)
        if name == "regularization":
            return find_regularization(value)
        if name == "allocation" and value is None:
            return find_allocation(None, self.feedback)
        return value

    def label_bound_of(self, data: Interactions) -> float:
        """The label bound that training on the data would use; forecasts are in units of it."""
        return self._settings(data).label

    def _settings(self, data: Interactions | None) -> Settings:
        """All parameters, checked and resolved; with data, checked against its public facts, too."""
        for name in ("factors", "sweeps"):
            if not is_auto(getattr(self, name)):
                most = MOST_FACTORS if name == "factors" else None
                whole(name, getattr(self, name), at_least=1, at_most=most)
        whole("seed", self.seed, at_least=0)
        if data is not None and not isinstance(data, Interactions):
            raise DataError(f"fit takes Interactions, got a {type(data).__name__}")
        settings = resolve(
            epsilon=self.epsilon,
            delta=self.delta,
            feedback=self.feedback,
            allocation=self.allocation,
            catalog=self.catalog,
            solver=self.solver,
            regularization=self.regularization,
            bounds=self.bounds,
            offsets=self.offsets,
            shares=self.shares,
            rating_range=None if data is None else data.rating_range,
        )
        if data is not None:
            _check_data(settings, data)
            if data.catalog_is_public or not settings.private:
                self._check_size(data.items)
        return settings

    def _check_size(self, items: int) -> None:
        """Refuse a model that is too large; how many items there are must be public, or released."""
        if isinstance(self.factors, int):
            check_memory(f"a model of {self.factors} factors", 8 * self.factors * items)

    def _open_names(self, settings: Settings) -> set[str]:
        """The settings that are left open, to be chosen from released values."""
        given: dict[str, object] = {"factors": self.factors, "sweeps": self.sweeps}
        if settings.explicit:
            given["intercept_share"] = self.offsets.intercept_share
        else:
            weight = find_regularization(self.regularization).unobserved_weight
            given |= {"unobserved_weight": weight, "serving_weight": weight}
        names = {name for name, value in given.items() if is_auto(value)}
        return names | ({"serving_regularization"} if settings.validated else set())

    def _fixed_choice(self) -> Choice | None:
        """The parameters that may be chosen, if they are given, or need no choice."""
        factors, sweeps, share = self.factors, self.sweeps, self.offsets.intercept_share
        weight = find_regularization(self.regularization).unobserved_weight
        if math.isinf(self.epsilon):
            factors = 32 if is_auto(factors) else factors
            sweeps = 10 if is_auto(sweeps) else sweeps
            share = 0.2 if is_auto(share) else share
        if self.feedback == "implicit":
            share = 0.0
        else:
            weight = 0.0
        if is_auto(factors) or is_auto(sweeps) or is_auto(share):
            return None
        serving = SERVING if is_auto(weight) else float(weight)
        training = UNOBSERVED if is_auto(weight) and self.epsilon < math.inf else serving
        return Choice(int(factors), int(sweeps), float(share), training, serving)


def _rows(settings: Settings, data: Interactions) -> Rows:
    """What is loaded: an event's label is one, also if it has a rating."""
    rows = data.rows()
    return rows if settings.explicit else rows.without_labels()


def _check_data(settings: Settings, data: Interactions) -> None:
    if settings.explicit and not data.explicit:
        raise DataError('the data has no ratings; train on events with feedback="implicit"')
    if settings.center == "global" and data.rating_range is None:
        raise DataError('offsets center="global" needs ratings in a public rating_range')
    if not settings.private:
        return
    settings.catalog.check(data)
    if settings.label_bound is None:
        raise DataError(
            "private training on ratings needs their public range: give rating_range to the data, "
            "or bounds=ap.Bounds(label=...) to the model"
        )
    bound = check_bound("bounds.label, which follows from rating_range,", settings.label_bound)
    if bound > 1e30 * settings.feature_bound:
        raise DataError("rating_range is too wide for bounds.feature")


def _check_preparation(preparation: object) -> None:
    if not isinstance(preparation, Preparation):
        raise ParameterError(
            f"a forecast follows from what prepare(data) has released, got a {type(preparation).__name__}"
        )


def _preparation_cost(settings: Settings) -> tuple[Record, ...]:
    share = math.fsum(release.share for release in releases.before_training(settings))
    return part_of_cost(settings.target, share)


def _paid_before(
    settings: Settings, preparation: Preparation | None, budget: Budget | None
) -> tuple[bool, Any]:
    """Whether the budget has paid for the preparation, and what is left to pay then."""
    if budget is None or preparation is None:
        return False, None
    if not preparation.secret_noise:
        raise ParameterError("the preparation was made with a noise_seed: no budget pays for it")
    paid = budget.holds(preparation.paid, preparation.ledger)
    return paid, whole_cost(settings.target, preparation.ledger) if paid else None


def _report(
    settings: Settings,
    choice: Choice,
    data: Interactions,
    preparation: Preparation,
    curator: Curator,
    chosen: set[str],
) -> PrivacyReport:
    """The guarantee; these settings were chosen from released values."""
    used = public_inputs(settings, choice)
    public = {
        "catalog": f"{settings.catalog!r}: {len(preparation.item_ids)} items",
        **({"rating_range": data.rating_range} if data.rating_range else {}),
        **({"events": data.events} if data.events else {}),
        **{name: value for name, value in used.items() if name not in chosen},
    }
    counted = count_warnings(settings)  # which the report has already
    warnings = dict.fromkeys((*data_warnings(settings, data), *preparation.warnings))
    others = tuple(warning for warning in warnings if warning not in counted)
    if choice.sweeps == 0:
        others = (WARNING, *others)
    if choice.serving_regularization >= LARGEST:
        others = (AVERAGES, *others)
    report = make_report(
        curator,
        settings.allocation,
        public,
        others,
        settings.catalog.counts,
        training="" if curator.reservation is None else curator.reservation.token,
    )
    secret = report.secret_noise and preparation.secret_noise
    named = {name: used[name] for name in used if name in chosen}
    return replace(report, chosen=named, secret_noise=secret)


def _released(
    settings: Settings,
    choice: Choice,
    preparation: Preparation,
    known: Knowledge,
    items: Array,
    counts: Array | None,
    report: PrivacyReport,
) -> ItemModel:
    """Everything that may be published."""
    regularization, exponent = penalty_of(settings, choice)
    return ItemModel(
        items=as_singles(items),
        item_ids=preparation.item_ids,
        counts=counts,
        titles=None,
        fold_in=FoldIn(
            feedback=settings.feedback,
            regularization=regularization,
            exponent=exponent,
            unobserved_weight=choice.serving_weight,
            center=settings.center,
            mean=preparation.offset.mean,
            shrinkage=preparation.offset.shrinkage,
            rating_range=settings.rating_range,
        ),
        privacy=report,
        intercepts=known.intercepts,
        training=rules.declare(settings, choice, report.ledger),
    )
