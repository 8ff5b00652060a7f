"""Ridge regression per task from noisy sufficient statistics (Algorithm 1)."""

import math
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
from apportion.privacy import Curator, Part, UserBound
from apportion.privacy.bounds import check_bound
from apportion.tasks.base import MultiTaskLinear, release_weights
from apportion.tasks.penalty import (
    WEIGHTS_SHARE,
    Penalty,
    RegularizationPer,
    exact_ridge,
    private_ridge,
    release_weight_sums,
)
from apportion.tasks.shared import positive_part, shrink
from apportion.tasks.shrunk import Released, Shrinkage
from apportion.tasks.statistics import solve_exact, solve_released

Array = NDArray[np.float64]

_BUDGET = "a user's squared weights sum to <= 1"
# The part of ``gram_share`` that a pilot spends on A, to learn how much of the rest A is worth.
_PILOT = 1 / 8


class MultiTaskRidge(MultiTaskLinear):
    """Ridge regression for many tasks at once, under user-level differential privacy.

    For every task i, A_i = sum_j w_ij x x' and b_i = sum_j w_ij y x are released with noise, and the
    model is solved from them; ``statistics`` says how. With ``epsilon=math.inf`` there is no noise, no
    clipping, every weight is one, and theta_i is the exact ridge solution. There is no intercept: add a
    constant feature if you need one.

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
        coef_: the released models, [tasks, d].

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
        self.label_bound = label_bound
        self.regularization = regularization
        self.regularization_per = regularization_per
        self.statistics = statistics
        self.noise_ridge = noise_ridge
        self.gram_share = gram_share
        self.allocation = allocation
        self.engine = engine
        self.noise_seed = noise_seed

    def _train(self, data: TaskData, session: Session, curator: Curator) -> Array:
        session.bound_features(float(self.feature_bound))
        release_weights(self.allocation, data, session, curator)
        if self.statistics == "per-task":
            ridge = private_ridge(
                float(self.regularization), self.regularization_per, session, curator
            )
            release = self._declared("statistics", data.dimension).open(
                curator, data.tasks, curator.ledger.affordable_mu()
            )
            penalty = Penalty.ridge_only(ridge)
            query = queries.Statistics(self._right)
            return solve_released(session, query, release, penalty, float(self.noise_ridge))
        moment, mass, mass_noise = self._release_common(session, curator, data)
        if self.statistics == "shared":
            return self._solve_shared(session, curator, data, moment, mass)
        return self._solve_shrunk(session, curator, data, moment, mass, mass_noise)

    def _train_exactly(self, data: TaskData, session: Session) -> Array:
        del data
        ridge = exact_ridge(float(self.regularization), self.regularization_per, session)
        return solve_exact(session, Penalty.ridge_only(ridge))

    @property
    def _right(self) -> queries.RightHandSides:
        return queries.RightHandSides(float(self.label_bound), float(self.feature_bound), "row")

    def _declared(self, name: str, dimension: int, share: float | None = None) -> Declared:
        """A and b of clipped rows together.

        Sensitivity: a user's part in A_i is w_ij x x' of Frobenius norm w_ij |x|^2 <= w_ij G^2 (a
        mean of such matrices if the user has several rows), in b_i it is w_ij y x of norm <= w_ij L G;
        squared and summed over tasks with sum_i w_ij^2 <= 1 this gives G^4 and (L G)^2.
        """
        G = check_bound("feature_bound", self.feature_bound)
        gram = UserBound(G * G, f"|x x'| <= feature_bound^2; {_BUDGET}")
        A = Part("A", "weighted sums of x x'", gram, dimension, symmetric=True)
        of_gram = float(self.gram_share) if share is None else share
        return Declared(name, (A, self._part_b(dimension)), 1.0, (of_gram, 1 - of_gram))

    def _part_b(self, dimension: int) -> Part:
        G = check_bound("feature_bound", self.feature_bound)
        L = check_bound("label_bound", self.label_bound)
        bound = UserBound(G * L, f"|y x| <= label_bound * feature_bound; {_BUDGET}")
        return Part("b", "weighted sums of y x", bound, dimension)

    def _release_common(
        self, session: Session, curator: Curator, data: TaskData
    ) -> tuple[Array, Array, float]:
        """The users' second moment, the sums of the tasks' weights, and the noise of those.

        The second moment is the mean of users' x x', positive definite. Eigenvalues below the spectral
        radius of the noise, noise * sqrt(2 d), are raised to it: a direction of which nothing is known must
        not be divided by next to nothing.

        Sensitivity: user j gives sum_i w_ij^2 x x' (a mean, if it has several rows in a task) to one matrix,
        |.|_F <= G^2 sum_i w_ij^2 <= G^2, and sum_i w_ij^2 <= 1 to one number.
        """
        G, d = check_bound("feature_bound", self.feature_bound), data.dimension
        mu = curator.ledger.affordable_mu() * math.sqrt(WEIGHTS_SHARE)
        matrix = UserBound(G * G, f"|x x'| <= feature_bound^2; {_BUDGET}")
        parts = (
            Part("matrix", "sum of x x', by squared weights", matrix, d, symmetric=True),
            Part("mass", "sum of squared weights", UserBound(1.0, _BUDGET)),
        )
        declared = Declared("second moment", parts, WEIGHTS_SHARE, (0.8, 0.2), tasks=1)
        release = declared.open(curator, data.tasks, mu)
        total, squares = released(session, queries.SecondMoment(), release)
        radius = release.records[0].noise_scale * math.sqrt(2 * d)
        moment = positive_part(unpack(total, d)[0], radius) / max(float(squares[0, 0]), 1.0)
        return moment, *release_weight_sums(session, curator, mu)

    def _ridge(self, mass: Array) -> Array:
        """The penalty of each task, given the released sums of weights, [tasks]."""
        return float(self.regularization) * (
            mass if self.regularization_per == "user" else np.ones(len(mass))
        )

    def _solve_shared(
        self, session: Session, curator: Curator, data: TaskData, moment: Array, mass: Array
    ) -> Array:
        declared = Declared("moments", (self._part_b(data.dimension),), 1.0)
        release = declared.open(curator, data.tasks, curator.ledger.affordable_mu())
        [b] = released(session, self._right, release)
        return shrink(b, release.records[0].noise_scale, mass, moment, self._ridge(mass))

    def _solve_shrunk(
        self,
        session: Session,
        curator: Curator,
        data: TaskData,
        second_moment: Array,
        mass: Array,
        mass_noise: float,
    ) -> Array:
        """Two releases of A and b, the second split as the first one advises, and one solution.

        What the two cost together is known beforehand; only how the second is split between A and b follows
        from what was released before.
        """
        G, L, most = float(self.feature_bound), float(self.label_bound), float(self.gram_share)
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

        spent = 1 - most + _PILOT * most
        share = _PILOT * most / spent
        pilot = release("pilot", math.sqrt(spent) * curator.ledger.affordable_mu(), share)
        portion = Shrinkage(pilot, regularization).portion(share, (1 - spent) / spent)
        rest = release("statistics", curator.ledger.affordable_mu(), portion)
        return Shrinkage(pilot.averaged(rest), regularization).coef() * (L / G)

    def _check_parameters(self) -> None:
        check_bound("feature_bound", self.feature_bound)
        check_bound("label_bound", self.label_bound)
        number("gram_share", self.gram_share, at_least=LEAST_SHARE, below=1)
        word("statistics", self.statistics, ("shrunk", "per-task", "shared"))
        word("regularization_per", self.regularization_per, ("task", "user"))
        for name in ("regularization", "noise_ridge"):
            number(name, getattr(self, name), at_least=0, at_most=1e100)
