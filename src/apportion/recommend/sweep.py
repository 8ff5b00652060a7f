"""The third step of a training: users' vectors and items are fitted to each other in turn."""

import logging
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from apportion.accounts.plan import Plan
from apportion.engine import Session, queries
from apportion.engine.feed import released
from apportion.packing import unpack
from apportion.privacy import OpenRelease
from apportion.recommend import progress
from apportion.recommend.groups import GradientDescent
from apportion.recommend.intercepts import Knowledge
from apportion.recommend.masses import Masses
from apportion.recommend.run import Array, Run
from apportion.recommend.settings import Choice, Settings
from apportion.tasks.losses import find_loss
from apportion.tasks.noisy_descent import descend
from apportion.tasks.penalty import Penalty
from apportion.tasks.schedules import Adaptive
from apportion.tasks.shared import positive_part, shrink
from apportion.tasks.statistics import solve_released

# Told the sweep and the items so far; returns new items. Behind the factors it may return columns of its own,
# which it is told again.
Step = Callable[[int, Array], Array]

_log = logging.getLogger(__name__)
# What an item's events scatter about what is expected of them, relative to sum_j w_ij^2 v v'. Chance alone
# makes at most one; as much again is for users who are not all alike.
_SPREAD = 2.0


def sweep(run: Run, choice: Choice, step: Step, columns: int = 0) -> Array:
    """All sweeps, or those that a checkpoint lacks; the items, [items, factors], and the step's columns."""
    items, done = first_items(run.settings, run.session.tasks, choice.factors, run.seed), 0
    saved, ledger = run.saved, run.curator.ledger
    if saved is not None and saved.done:
        shape = len(items), choice.factors + columns
        items, done = progress.items(saved, shape), saved.done
        saved.restore(ledger)
        if run.on_sweep is not None:
            run.on_sweep(done, choice.sweeps)
    for number in range(done + 1, choice.sweeps + 1):
        items = step(number, items)
        _log.info("sweep %d of %d", number, choice.sweeps)
        progress.keep(saved, ledger, choice, number, items)
        if run.on_sweep is not None:
            run.on_sweep(number, choice.sweeps)
    return items


def private_step(
    run: Run, choice: Choice, plan: Plan, known: Knowledge, masses: Masses | None
) -> Step:
    """One sweep: users solved where they are, their sums released, all items fitted to these.

    With ``masses`` [items] these are known better after every sweep: they are columns behind the items.
    """
    settings, session = run.settings, run.session

    def step(sweep: int, found: Array) -> Array:
        items = np.ascontiguousarray(found[:, : choice.factors])
        session.solve_users(
            items,
            choice.unobserved_weight * (items.T @ items),
            settings.systems,
            settings.feature_bound,
            stretch=settings.normalize,
        )
        name = f"sweep {sweep}"
        right = queries.RightHandSides(settings.label, settings.feature_bound, settings.clip)
        query = right if settings.shared else queries.Statistics(right)
        of_gramian = None
        if settings.gramian:
            of_gramian = plan.open(f"{name} gramian", run.curator, session.tasks)
        release = plan.open(name, run.curator, session.tasks)
        gramian = None
        if of_gramian is not None:
            if not isinstance(settings.solver, GradientDescent):
                session.expect((queries.Gramian(), of_gramian.grids), (query, release.grids))
            [packed] = released(session, queries.Gramian(), of_gramian)
            gramian = positive_part(unpack(packed, choice.factors)[0])
        if settings.shared:
            assert gramian is not None
            [b], noise = released(session, query, release), release.records[0].noise_scale
            guess = None if sweep == 1 else items
            if masses is None:
                return _shrink(choice, known, b, noise, gramian, guess)
            so_far = masses if sweep == 1 else Masses.from_columns(found[:, choice.factors :])
            better = so_far.after(b, noise)
            mass = replace(known, mass=better.expected)
            return np.hstack([_shrink(choice, mass, b, noise, gramian, guess), better.columns])
        penalty = Penalty(known.ridge, choice.unobserved_weight * known.scale, gramian)
        if isinstance(settings.solver, GradientDescent):
            return _descend(settings, session, release, items, penalty)
        assert isinstance(query, queries.Statistics)
        return solve_released(session, query, release, penalty, settings.solver.noise_ridge)

    return step


def _shrink(
    choice: Choice,
    known: Knowledge,
    b: Array,
    noise: float,
    gramian: Array,
    guess: Array | None,
) -> Array:
    """Items from their right-hand sides and the second moment that all have in common.

    ``guess`` is what is known of them; nothing in the first sweep, whose items are random.
    """
    # Unobserved pairs weigh on all users alike, so they only add to the mass.
    mass = known.mass + choice.unobserved_weight * known.users * known.scale
    # For ratings the regularizer, which grows with the count, stands for this already.
    spread = _SPREAD * known.mass * known.scale if choice.unobserved_weight > 0 else None
    return shrink(b, noise, mass, gramian / known.users, known.ridge, guess, spread)


def _descend(
    settings: Settings, session: Session, release: OpenRelease, items: Array, penalty: Penalty
) -> Array:
    solver = settings.solver
    assert isinstance(solver, GradientDescent)
    # An item farther out would predict more than any rating for users at their bound.
    radius = 2 * settings.label / settings.feature_bound
    query = queries.Gradients(
        items, find_loss("squared"), settings.gradient_bound, settings.label, clip="user"
    )
    schedule = Adaptive(solver.learning_rate * radius)
    return descend(session, query, release, schedule, penalty, radius=radius)


def first_items(settings: Settings, items: int, factors: int, seed: int) -> Array:
    """Random factors, of about the size that explains ratings by users at their bound."""
    rng = np.random.default_rng(seed)
    bound = settings.feature_bound if settings.private else 1.0
    return rng.normal(0.0, 1 / (bound * math.sqrt(factors)), (items, factors))
