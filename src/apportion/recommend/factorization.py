"""The recommender: its parameters, and what may be done with them."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from apportion.accounts import Budget
from apportion.accounts.plan import Plan
from apportion.allocation import Allocation
from apportion.checks import number, whole
from apportion.data import Interactions
from apportion.engine import Engine, find_engine
from apportion.errors import DataError, ParameterError
from apportion.folders.kinds import MOST_FACTORS
from apportion.privacy import PrivacyTarget
from apportion.privacy.ledger import total_epsilon
from apportion.progress import Wanted, both, watched
from apportion.recommend import releases
from apportion.recommend.catalog import ItemCatalog
from apportion.recommend.choose import Asked
from apportion.recommend.contents import from_bytes, to_bytes
from apportion.recommend.groups import (
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
from apportion.recommend.planner import Forecast
from apportion.recommend.preparation import Preparation
from apportion.recommend.prepare import check_data, cost_of_preparing, kind_of, paid_before, prepare
from apportion.recommend.quality import least_epsilon
from apportion.recommend.recommender import Recommender
from apportion.recommend.run import OnSweep, Run
from apportion.recommend.settings import Settings, find_allocation, resolve
from apportion.recommend.sizes import Sizes
from apportion.recommend.training import train_exactly, train_privately
from apportion.tasks.estimator import Estimator
from apportion.tasks.private_fit import open_checkpoint, open_curator


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
        settings = self._settings(_interactions(data))
        self._warn_of_copies()
        if preparation is not None:
            preparation.check(kind_of(settings))
        paid, cost = paid_before(settings, preparation, budget)
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
            on_sweep = told if on_sweep is None else both(told, on_sweep)
            run = Run(self._asked, settings, data, engine, curator, self.seed, saved, on_sweep)
            if settings.private:
                self.released_, found = train_privately(run, preparation, paid=paid)
                if found:
                    self.forecasts_ = found
            else:
                self.released_ = train_exactly(run)
            if saved is not None:
                saved.finish(to_bytes(self.released_), curator.ledger)
        return self

    def prepare(self, data: Interactions, budget: Budget | None = None) -> Preparation:
        """Release what comes before the sweeps (counts above all) and stop there.

        ``forecasts`` says what to expect then; ``fit(data, preparation=...)`` resumes it and pays for both.
        With a ``budget`` these releases are paid from it now, and ``fit`` pays the rest.
        """
        settings = self._settings(_interactions(data))
        if not settings.private:
            raise ParameterError("without privacy there is nothing to prepare: epsilon is infinite")
        engine, cost = find_engine(self.engine), cost_of_preparing(settings)
        with open_curator(
            settings.target, self.noise_seed, None, budget, "preparation", cost
        ) as curator:
            run = Run(self._asked, settings, data, engine, curator, self.seed)
            prepared = prepare(run, releases.plan(settings))
        return replace(
            prepared, paid=None if curator.reservation is None else curator.reservation.token
        )

    def preparation_epsilon(self) -> float:
        """The epsilon, at this delta, that ``prepare`` costs: from the parameters alone.

        >>> round(MatrixFactorization(epsilon=1.0, delta=1e-5).preparation_epsilon(), 2)
        0.35
        """
        settings = self._settings(None)
        return total_epsilon(cost_of_preparing(settings), settings.target.delta)

    def save(self, folder: str | Path, titles: Any = None) -> None:
        """As of every recommender; what a budget paid for is kept in a checkpoint until this is done."""
        with self._kept_until_saved(folder):
            super().save(folder, titles)

    def forecasts(self, preparation: Preparation) -> list[Forecast]:
        """The error to expect with every setting that ``"auto"`` leaves open, the best first.

        In closed form and from released values: nothing is spent.
        """
        settings = self._settings_of(preparation)
        sizes = Sizes.of(settings, preparation)
        return self._asked.forecasts(settings, releases.plan(settings), preparation, sizes)

    def least_epsilon(self, preparation: Preparation, error: float) -> tuple[float, Forecast]:
        """The least epsilon that is expected to give no larger an error, and the forecast with it.

        The error is that of ``forecasts``: of ratings the RMSE in units of the label bound, of events the
        share of what could be learned that is lost. What was released before stays as it is; only what
        training would cost is another. Nothing is spent.
        """
        settings = self._settings_of(preparation)
        sizes = Sizes.of(settings, preparation)
        error = number("error", error, above=0, at_most=1e6)

        def best(target: PrivacyTarget) -> Forecast:
            other = replace(settings, target=target)
            return self._asked.forecasts(other, releases.plan(other), preparation, sizes)[0]

        return least_epsilon(best, error, settings.target.delta - settings.target.selection_delta)

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
        settings = self._settings(None)
        return releases.plan(settings, self._asked.fixed(settings))

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

    @property
    def _asked(self) -> Asked:
        penalty = find_regularization(self.regularization)
        return Asked(self.factors, self.sweeps, self.offsets.intercept_share, penalty)

    def _settings_of(self, preparation: object) -> Settings:
        """All parameters, which must be those of the preparation."""
        if not isinstance(preparation, Preparation):
            kind = type(preparation).__name__
            raise ParameterError(
                f"a forecast follows from what prepare(data) has released, got a {kind}"
            )
        settings = self._settings(None)
        preparation.check(kind_of(settings))
        return settings

    def _settings(self, data: Interactions | None) -> Settings:
        """All parameters, checked and resolved; with data, checked against its public facts, too."""
        for name in ("factors", "sweeps"):
            if not is_auto(getattr(self, name)):
                most = MOST_FACTORS if name == "factors" else None
                whole(name, getattr(self, name), at_least=1, at_most=most)
        whole("seed", self.seed, at_least=0)
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
            check_data(settings, data)
            if data.catalog_is_public or not settings.private:
                self._asked.check_size(data.items)
        return settings


def _interactions(data: Any) -> Interactions:
    """What is trained on, if it is that."""
    if not isinstance(data, Interactions):
        raise DataError(
            f"fit takes Interactions, got a {type(data).__name__}; Interactions.from_frame, from_path "
            "and from_sparse make them"
        )
    return data
