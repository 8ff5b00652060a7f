"""Ridge regression per task from noisy sufficient statistics (Algorithm 1)."""

import math
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apportion.accounts.declared import Declared
from apportion.allocation import AdaptiveWeights, Allocation
from apportion.checks import LEAST_SHARE, number, word
from apportion.data import TaskData
from apportion.engine import Engine, Session, queries
from apportion.engine.feed import released
from apportion.packing import unpack
from apportion.privacy import Curator, Ledger, Part, UserBound
from apportion.privacy.bounds import check_bound
from apportion.progress import Step
from apportion.tasks.base import MultiTaskLinear, release_weights
from apportion.tasks.penalty import (
    WEIGHTS_SHARE,
    Penalty,
    RegularizationPer,
    exact_ridge,
    private_ridge,
    release_weight_sums,
    weight_sums,
)
from apportion.tasks.scaling import Ranges, Scaling
from apportion.tasks.shared import positive_part, posterior_root, shrink
from apportion.tasks.shrunk import Released, Shrinkage
from apportion.tasks.statistics import FilteredErrors, radius, solve_exact, solve_released
from apportion.tasks.trained import Trained, standard_errors

Array = NDArray[np.float64]

_BUDGET = "a user's squared weights sum to <= 1"
# The part of ``gram_share`` that a pilot spends on A, to learn how much of the rest A is worth.
_PILOT = 1 / 8


class MultiTaskRidge(MultiTaskLinear):
    """Ridge regression for many tasks at once, under user-level differential privacy.

    For every task i, A_i = sum_j w_ij x x' and b_i = sum_j w_ij y x are released with noise, and the
    model is solved from them; ``statistics`` says how. With ``epsilon=math.inf`` there is no noise, no
    clipping, every weight is one, and theta_i is the exact ridge solution.

    - ``"shrunk"``: a task's A_i is released with noise, but so are the users' mean x x', C, and the sums
      of the tasks' weights, s_i, which cost little: A_i is shrunk toward s_i C, and theta_i toward what
      all tasks have in common, as far as the noise demands (see ``Shrinkage``). Whether more of the budget
      is worth spending on A is decided by a pilot, which is not lost: it is averaged with the rest.
      Never far from the better of the other two. Released matrices of all tasks are held in memory.
    - ``"per-task"``: the paper's. The noise of A_i is symmetric with spectral radius about
      r = noise * sqrt(2 d), so directions in which A_i is smaller than r are unreliable; the solution

          theta_i = argmin |(A_i+ + lambda I) theta - b_i|^2 + (noise_ridge * r)^2 |theta|^2,

      A_i+ being A_i's projection on the positive semi-definite matrices, suppresses them and leaves the
      others alone. Good where data is plentiful and the differences between tasks matter.
    - ``"shared"``: A_i is taken to be s_i C. b gets 90 % of the budget, and is shrunk by what is known of
      its noise. Good where noise is large and features are alike in all tasks.

    Args:
        epsilon: the privacy budget; ``math.inf`` for no privacy.
        delta: the probability that the guarantee may fail; at most one over the number of users.
        feature_bound: public; longer feature vectors are scaled down to this norm.
        feature_ranges: public; the smallest and largest value of each feature, (low, high). Features are
            scaled by them so that no row is longer than feature_bound, which then needs no thought; values
            outside are brought to the end of their range.
        intercept: whether every task gets a constant term: a constant feature, as large as feature_bound, to
            which the penalty applies as to the others.
        label_bound: public; labels are clipped to [-label_bound, label_bound]. Both bounds decide the
            noise: too large adds noise, too small distorts. Take them from what the data means.
        regularization: lambda of the ridge penalty, added to every A_i after the release. A user's weights
            are at most one, so it counts users of full weight; without privacy it is the ``alpha`` of
            scikit-learn's ``Ridge``.
        regularization_per: ``"task"``, or ``"user"`` for the paper's objective (equation 4), in which every
            user of a task brings its own penalty: lambda times the task's sum of weights, which is released
            (5 % of the training budget); without privacy lambda times its number of users.
        statistics: ``"shrunk"``, ``"per-task"`` or ``"shared"``, see above.
        noise_ridge: for ``"per-task"``, strength of the suppression of noisy directions, in units of r.
        gram_share: the portion of the training budget (of mu^2) spent on A, b gets the rest; with
            ``"shrunk"`` the most that A may get. Plays no part in ``"shared"``.
        allocation: how users split their budget among tasks.
        engine: ``"auto"``, ``"cpu"``, ``"reference"`` or an engine: where sums are computed.
        noise_seed: fixes the noise, for tests and studies; the model is then NOT PRIVATE.

    Attributes:
        coef_ [tasks, d] and intercept_ [tasks]: the released models.

    >>> import apportion as ap
    >>> data = ap.simulate_tasks(users=2000, tasks=20, tasks_per_user=5)
    >>> model = ap.MultiTaskRidge(epsilon=2.0, delta=1e-5).fit(data)
    >>> model.coef_.shape
    (20, 5)
    >>> round(model.privacy.epsilon, 6)
    2.0
    >>> model.predict(task=[3], features=[[0.1, 0.0, 0.2, 0.0, 0.5]]).shape
    (1,)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        feature_bound: float = 1.0,
        feature_ranges: Ranges | None = None,
        intercept: bool = False,
        label_bound: float = 1.0,
        regularization: float = 0.0,
        regularization_per: RegularizationPer = "task",
        statistics: Literal["shrunk", "per-task", "shared"] = "shrunk",
        noise_ridge: float = 1.0,
        gram_share: float = 0.4,
        allocation: Allocation = AdaptiveWeights.for_strongly_convex(),  # noqa: B008 (immutable)
        engine: str | Engine = "auto",
        noise_seed: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.feature_bound = feature_bound
        self.feature_ranges = feature_ranges
        self.intercept = intercept
        self.label_bound = label_bound
        self.regularization = regularization
        self.regularization_per = regularization_per
        self.statistics = statistics
        self.noise_ridge = noise_ridge
        self.gram_share = gram_share
        self.allocation = allocation
        self.engine = engine
        self.noise_seed = noise_seed

    def _train(
        self, data: TaskData, session: Session, curator: Curator, scaling: Scaling, told: Step
    ) -> Trained:
        session.bound_features(self._row_bound)
        sizes, _ = release_weights(self.allocation, data, session, curator)
        view = scaling.view()
        if self.statistics == "per-task":
            told(1, 2)
            ridge = private_ridge(
                float(self.regularization), self.regularization_per, session, curator
            )
            release = self._declared("statistics", data.dimension).open(
                curator, data.tasks, curator.ledger.affordable_mu()
            )
            penalty, strength = Penalty.ridge_only(ridge), float(self.noise_ridge)
            suppression = strength * radius(release, data.dimension)
            groups = np.zeros(data.dimension, dtype=np.int64)
            groups[data.dimension - self.intercept :] = (
                1  # the constant's models are of their own size
            )
            errors = FilteredErrors(release, ridge, suppression, view, groups)
            query = queries.Statistics(self._right)
            coef = solve_released(session, query, release, penalty, strength, errors)
            told(2, 2)
            return Trained(coef, sizes, None, errors.errors())
        told(1, 3 if self.statistics == "shared" else 5)
        moment, mass, mass_noise = self._release_common(session, curator, data)
        if self.statistics == "shared":
            told(2, 3)
            trained = self._solve_shared(session, curator, data, moment, mass, view)
        else:
            told(2, 5)
            trained = self._solve_shrunk(
                session, curator, data, moment, mass, mass_noise, view, told
            )
        return replace(trained, counts=sizes)

    def _train_exactly(self, data: TaskData, session: Session, told: Step) -> Array:
        del data
        told(0, 1)
        ridge = exact_ridge(float(self.regularization), self.regularization_per, session)
        return solve_exact(session, Penalty.ridge_only(ridge))

    def _releases(self, dimension: int, ledger: Ledger | None = None) -> list[Declared]:
        counts = None if self.allocation.counts is None else self.allocation.counts.declared()
        found = [] if counts is None else [counts]
        left = 1.0 - sum(release.share for release in found)
        per_task = self.statistics == "per-task"
        weighed = per_task and self.regularization_per == "user" and float(self.regularization) > 0
        if not per_task:
            found.append(replace(self._common(dimension), share=WEIGHTS_SHARE * left))
        if not per_task or weighed:
            found.append(replace(weight_sums(), share=WEIGHTS_SHARE * left))
        left = 1.0 - sum(release.share for release in found)
        if per_task:
            found.append(replace(self._declared("statistics", dimension), share=left))
        elif self.statistics == "shared":
            found.append(Declared("moments", (self._part_b(dimension),), left))
        else:
            spent, share = self._pilot
            portion = float(self.gram_share)
            if ledger is not None:
                rest = {record.name: record.mu**2 for record in ledger}
                of_gram, of_moment = rest["statistics.A"], rest["statistics.b"]
                portion = of_gram / (of_gram + of_moment)
            pilot = self._declared("pilot", dimension, share)
            rest_of_it = self._declared("statistics", dimension, portion)
            found += [
                replace(pilot, share=spent * left),
                replace(rest_of_it, share=(1 - spent) * left),
            ]
        return found

    @property
    def _pilot(self) -> tuple[float, float]:
        """The portion of the budget for A and b that the pilot spends, and A's portion of that."""
        most = float(self.gram_share)
        spent = 1 - most + _PILOT * most
        return spent, _PILOT * most / spent

    @property
    def _right(self) -> queries.RightHandSides:
        return queries.RightHandSides(float(self.label_bound), self._row_bound, "row")

    def _declared(self, name: str, dimension: int, share: float | None = None) -> Declared:
        """A and b of clipped rows together.

        Sensitivity: a user's part in A_i is w_ij x x' of Frobenius norm w_ij |x|^2 <= w_ij G^2 (a
        mean of such matrices if the user has several rows), in b_i it is w_ij y x of norm <= w_ij L G;
        squared and summed over tasks with sum_i w_ij^2 <= 1 this gives G^4 and (L G)^2.
        """
        G = self._row_bound
        gram = UserBound(G * G, f"|x x'| <= {self._square}; {_BUDGET}")
        A = Part("A", "weighted sums of x x'", gram, dimension, symmetric=True)
        of_gram = float(self.gram_share) if share is None else share
        return Declared(name, (A, self._part_b(dimension)), 1.0, (of_gram, 1 - of_gram))

    def _part_b(self, dimension: int) -> Part:
        G, L = self._row_bound, check_bound("label_bound", self.label_bound)
        longest = "sqrt(2) feature_bound (with the constant)" if self.intercept else "feature_bound"
        bound = UserBound(G * L, f"|y x| <= label_bound * {longest}; {_BUDGET}")
        return Part("b", "weighted sums of y x", bound, dimension)

    def _common(self, dimension: int) -> Declared:
        """The sum of x x' over all tasks, and what it has to be divided by.

        Sensitivity: user j gives sum_i w_ij^2 x x' (a mean, if it has several rows in a task) to one matrix,
        |.|_F <= G^2 sum_i w_ij^2 <= G^2, and sum_i w_ij^2 <= 1 to one number.
        """
        G = self._row_bound
        matrix = UserBound(G * G, f"|x x'| <= {self._square}; {_BUDGET}")
        parts = (
            Part("matrix", "sum of x x', by squared weights", matrix, dimension, symmetric=True),
            Part("mass", "sum of squared weights", UserBound(1.0, _BUDGET)),
        )
        return Declared("second moment", parts, WEIGHTS_SHARE, (0.8, 0.2), tasks=1)

    def _release_common(
        self, session: Session, curator: Curator, data: TaskData
    ) -> tuple[Array, Array, float]:
        """The users' second moment, the sums of the tasks' weights, and the noise of those.

        The second moment is the mean of users' x x', positive definite. Eigenvalues below the spectral
        radius of the noise, noise * sqrt(2 d), are raised to it: a direction of which nothing is known must
        not be divided by next to nothing.
        """
        d = data.dimension
        mu = curator.ledger.affordable_mu() * math.sqrt(WEIGHTS_SHARE)
        release = self._common(d).open(curator, data.tasks, mu)
        total, squares = released(session, queries.SecondMoment(), release)
        moment = positive_part(unpack(total, d)[0], radius(release, d)) / max(
            float(squares[0, 0]), 1.0
        )
        return moment, *release_weight_sums(session, curator, mu)

    def _ridge(self, mass: Array) -> Array:
        """The penalty of each task, given the released sums of weights, [tasks]."""
        return float(self.regularization) * (
            mass if self.regularization_per == "user" else np.ones(len(mass))
        )

    def _solve_shared(
        self,
        session: Session,
        curator: Curator,
        data: TaskData,
        moment: Array,
        mass: Array,
        view: Array,
    ) -> Trained:
        declared = Declared("moments", (self._part_b(data.dimension),), 1.0)
        release = declared.open(curator, data.tasks, curator.ledger.affordable_mu())
        [b] = released(session, self._right, release)
        noise, ridge = release.records[0].noise_scale, self._ridge(mass)
        coef = shrink(b, noise, mass, moment, ridge)
        root = posterior_root(b, noise, mass, moment, ridge)
        return Trained(coef, None, noise / mass, standard_errors(view, root))

    def _solve_shrunk(
        self,
        session: Session,
        curator: Curator,
        data: TaskData,
        second_moment: Array,
        mass: Array,
        mass_noise: float,
        view: Array,
        told: Step,
    ) -> Trained:
        """Two releases of A and b, the second split as the first one advises, and one solution.

        What the two cost together is known beforehand; only how the second is split between A and b follows
        from what was released before.
        """
        G, L = self._row_bound, float(self.label_bound)
        # In units in which both bounds are one; a penalty beyond this one leaves nothing in any case.
        regularization = np.minimum(self._ridge(mass) / G**2, 1e100)

        def release(name: str, mu: float, share: float) -> Released:
            opened = self._declared(name, data.dimension, share).open(curator, data.tasks, mu)
            gram, moment = released(session, queries.Statistics(self._right), opened)
            gram /= G**2
            moment /= G * L
            of_gram, of_moment = (each.noise_scale / each.sensitivity for each in opened.records)
            return Released(
                gram, moment, mass, second_moment / G**2, of_gram, of_moment, mass_noise
            )

        spent, share = self._pilot
        pilot = release("pilot", math.sqrt(spent) * curator.ledger.affordable_mu(), share)
        told(3, 5)
        portion = Shrinkage(pilot, regularization).portion(share, (1 - spent) / spent)
        rest = release("statistics", curator.ledger.affordable_mu(), portion)
        told(4, 5)
        known = pilot.averaged(rest)
        shrinkage = Shrinkage(known, regularization)
        errors = shrinkage.errors(view) * (L / G)
        return Trained(shrinkage.coef() * (L / G), None, known.moment_noise * G * L / mass, errors)

    def _check_parameters(self) -> None:
        self._check_features()
        check_bound("label_bound", self.label_bound)
        number("gram_share", self.gram_share, at_least=LEAST_SHARE, below=1)
        word("statistics", self.statistics, ("shrunk", "per-task", "shared"))
        word("regularization_per", self.regularization_per, ("task", "user"))
        for name in ("regularization", "noise_ridge"):
            number(name, getattr(self, name), at_least=0, at_most=1e100)
