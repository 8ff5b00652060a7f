"""Alternating minimization without privacy: the same method on exact sums, in float64."""

import numpy as np

from apportion.data import Interactions
from apportion.engine import Session, queries
from apportion.engine.feed import exact
from apportion.packing import unpack
from apportion.privacy import Curator
from apportion.recommend import offsets
from apportion.recommend.groups import GradientDescent
from apportion.recommend.intercepts import Knowledge, as_singles, estimate, scatter_of
from apportion.recommend.preparation import Preparation
from apportion.recommend.prepare import data_warnings
from apportion.recommend.run import Array
from apportion.recommend.settings import Choice, Settings
from apportion.recommend.sweep import Step
from apportion.tasks.exact import largest_eigenvalues, minimize_smooth
from apportion.tasks.losses import find_loss
from apportion.tasks.penalty import Penalty
from apportion.tasks.statistics import solve_exact


def prepare(
    settings: Settings, data: Interactions, session: Session, curator: Curator
) -> Preparation:
    """What a training without privacy knows before its sweeps: exact counts."""
    offset = offsets.compute(settings, session)
    item_ids, sizes = settings.catalog.choose(data.item_ids, session, curator)
    [sums] = exact(session, queries.Counts(1))
    return Preparation(
        item_ids=item_ids,
        sizes=sizes,
        sums=sums[:, 0],
        users=1.0,
        offset=offset,
        ledger=curator.ledger.copy(),
        secret_noise=curator.secret_noise,
        training={},
        warnings=data_warnings(settings, data),
    )


def learn_offsets(
    settings: Settings, choice: Choice, preparation: Preparation, session: Session
) -> Knowledge:
    """Intercepts, if they are asked for; the session's ratings are centered."""
    counts = np.maximum(preparation.sums, 1.0)
    scale, intercepts = np.ones(len(counts)), None
    centering = preparation.offset.centering(settings)
    session.center(centering)
    if choice.intercept_share > 0:
        [sums] = exact(session, queries.Intercepts(settings.label))
        scatter = scatter_of(settings, preparation.offset)
        found = settings.label * estimate(sums[:, 0] / settings.label, 0.0, scale, counts, scatter)
        intercepts = as_singles(found)
        session.center(centering, intercepts.astype(np.float64))
    ridge = settings.regularization * counts**settings.exponent
    return Knowledge(ridge, scale, counts, 1.0, intercepts)


def exact_step(settings: Settings, choice: Choice, known: Knowledge, session: Session) -> Step:
    """One sweep: users and items solved exactly in turn."""

    def step(sweep: int, items: Array) -> Array:
        del sweep
        shared = choice.unobserved_weight * (items.T @ items)
        session.solve_users(items, shared, settings.systems, None)
        gramian = None
        if choice.unobserved_weight > 0:
            [packed] = exact(session, queries.Gramian())
            gramian = unpack(packed, choice.factors)[0]
        penalty = Penalty(known.ridge, choice.unobserved_weight * known.scale, gramian)
        if not isinstance(settings.solver, GradientDescent):
            return solve_exact(session, penalty)
        loss, bound = find_loss("squared"), float("inf")

        def gradient(coef: Array) -> Array:
            [sums] = exact(session, queries.Gradients(coef, loss, bound, bound))
            return np.asarray(sums + penalty.gradient(coef))

        curvature = largest_eigenvalues(session) + penalty.largest_eigenvalues()
        step_size = 1 / np.maximum(curvature, np.finfo(np.float64).tiny)[:, None]
        steps = settings.solver.steps
        return minimize_smooth(gradient, items, lambda slope: step_size * slope, steps)[0]

    return step
