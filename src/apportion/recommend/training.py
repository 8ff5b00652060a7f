"""Private alternating minimization, step by step: prepare, choose, sweep."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.accounts.plan import Plan
from apportion.allocation.counts import COUNTS, Counts, noise_of
from apportion.allocation.denoising import expected_sizes
from apportion.data import Interactions
from apportion.data.interactions import ALL_RATINGS
from apportion.engine import Session, queries
from apportion.engine.feed import released
from apportion.packing import unpack
from apportion.privacy import Curator, Ledger, OpenRelease
from apportion.recommend import offsets, releases
from apportion.recommend.intercepts import estimate
from apportion.recommend.preparation import Preparation
from apportion.recommend.settings import Choice, GradientDescent, Settings
from apportion.tasks.descent import descend
from apportion.tasks.losses import find_loss
from apportion.tasks.penalty import Penalty
from apportion.tasks.schedules import Adaptive
from apportion.tasks.shared import positive_part, shrink
from apportion.tasks.statistics import solve_released

Array = NDArray[np.float64]
# Told the sweep and the items so far; returns new items.
Step = Callable[[int, Array], Array]

# What an item's events scatter about what is expected of them, relative to sum_j w_ij^2 v v'. Chance alone
# makes at most one; as much again is for users who are not all alike.
_SPREAD = 2.0
POOR_RATINGS = (
    "every rating counts as an event, those of one star, too: data.positives(4) (--positives 4) takes those "
    "of 4 and more"
)
_LARGEST = float(np.finfo(np.float32).max)


def prepare(
    settings: Settings,
    data: Interactions,
    session: Session,
    curator: Curator,
    check_size: Callable[[int], object],
) -> Preparation:
    """Release what comes before anything is fitted; the session is left with weighted rows.

    ``check_size`` refuses models of too many items, as soon as it is known how many there are.
    """
    offset = offsets.release(settings, session, curator)
    item_ids, sizes = settings.catalog.choose(data.item_ids, session, curator)
    check_size(len(item_ids))
    if sizes is None and settings.allocation.counts is not None:
        sizes = settings.allocation.counts.release(session, curator)
    weigh(settings, data, session, curator, weighting(settings, sizes, curator.ledger))
    release = releases.weight_sums(settings).open(curator, session.tasks)
    [sums] = released(session, queries.WeightSums(), release)
    users = 1.0
    if settings.shared:
        release = releases.users(settings).open(curator, session.tasks)
        [[[users]]] = released(session, queries.Users(), release)
    return Preparation(
        item_ids=item_ids,
        sizes=sizes,
        sums=sums[:, 0],
        users=max(float(users), 1.0),
        offset=offset,
        ledger=curator.ledger.copy(),
        secret_noise=curator.secret_noise,
        training=kind_of(settings),
        warnings=(*count_warnings(settings), *data_warnings(settings, data)),
    )


def resume_preparation(
    settings: Settings,
    preparation: Preparation,
    data: Interactions,
    session: Session,
    curator: Curator,
    *,
    paid: bool,
) -> None:
    """Go on from what was released before: the session is left as ``prepare`` leaves it."""
    preparation.check(kind_of(settings))
    planned = {each.name: each.mu(settings.target) for each in releases.before_training(settings)}
    preparation.check_ledger(planned)
    preparation.check_items(data)
    curator.ledger.append(*preparation.ledger, paid=paid)
    session.choose(preparation.item_ids)
    sizes = weighting(settings, preparation.sizes, preparation.ledger)
    weigh(settings, data, session, curator, sizes)


def weighting(settings: Settings, sizes: Array | None, ledger: Ledger) -> Array | None:
    """The sizes from which weights follow, given released ones and their ledger, [items]."""
    if sizes is None:
        return None
    counts = counts_source(settings)
    return None if counts is None else counts.for_weights(sizes, noise_of(ledger, COUNTS))


def typical_weights(settings: Settings, preparation: Preparation) -> tuple[Array, Array]:
    """About what weight an item's users have, and about how many they are, [items] each."""
    ledger = preparation.ledger
    of_sums = noise_of(ledger, releases.WEIGHTS)
    sums = preparation.sums
    scale, counts = settings.allocation.typical_weights(
        weighting(settings, preparation.sizes, ledger), expected_counts(preparation), sums, of_sums
    )
    of_counts = noise_of(ledger, COUNTS)
    sizes = None if settings.allocation.samples else preparation.sizes
    if not settings.explicit or sizes is None or min(of_counts, of_sums) <= 0:
        return scale, counts
    # Sums of weights are counts, too, on another scale: both together are less noisy than either.
    trust = np.square(of_counts * scale / of_sums)
    both = (sizes + trust * (sums / scale)) / (1.0 + trust)
    noise = of_counts / math.sqrt(1.0 + float(np.median(trust)))
    return scale, expected_sizes(both, noise)


def expected_counts(preparation: Preparation) -> Array | None:
    """Numbers of users per item, denoised, [items], if there are any."""
    sizes = preparation.sizes
    return None if sizes is None else expected_sizes(sizes, noise_of(preparation.ledger, COUNTS))


def weigh(
    settings: Settings,
    data: Interactions,
    session: Session,
    curator: Curator,
    sizes: Array | None,
) -> None:
    """Split every user's budget among its items."""
    key = curator.noise.sampling_key("allocation")
    session.weigh(settings.allocation.rule(session.tasks, sizes, key, lambda: data.graph))


def kind_of(settings: Settings) -> dict[str, str]:
    """What a preparation and the training that goes on from it must have in common."""
    shared = "shared" if settings.shared else "per item"
    return {
        "feedback": settings.feedback,
        "epsilon": repr(float(settings.target.epsilon)),
        "delta": repr(float(settings.target.delta)),
        "solver": type(settings.solver).__name__,
        "statistics": shared,
        "catalog": repr(settings.catalog),
        "allocation": repr(settings.allocation),
        "center": settings.center,
    }


def count_warnings(settings: Settings) -> tuple[str, ...]:
    """What is to be known of the counts."""
    counts = counts_source(settings)
    return () if counts is None else counts.warnings()


def data_warnings(settings: Settings, data: Interactions) -> tuple[str, ...]:
    """What is to be known of how the data was read; it follows from public facts."""
    rated = data.explicit or data.events == ALL_RATINGS
    poor = () if settings.explicit or not rated else (POOR_RATINGS,)
    return (*poor, *settings.catalog.warnings(data))


def counts_source(settings: Settings) -> Counts | None:
    """Where counts come from, if there are any: the catalog, or else the allocation."""
    counts = settings.catalog.counts
    return settings.allocation.counts if counts is None else counts


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What is known of the items before the sweeps, from released values.

    Attributes
        ridge: the penalty of each item, on the scale of its weighted rows, [items].
        scale: the typical weight of each item's users, [items].
        mass: about the sum of their weights, [items].
        users: about the number of users.
        intercepts: of the items, [items], or None.
    """

    ridge: Array
    scale: Array
    mass: Array
    users: float
    intercepts: NDArray[np.float32] | None


def learn_offsets(
    settings: Settings, plan: Plan, preparation: Preparation, session: Session, curator: Curator
) -> Knowledge:
    """Release the intercepts, if they are planned, and center the session's ratings."""
    # Multiplied by an item's typical weight, a penalty means the same to its weighted rows as it
    # means to rows of weight one.
    scale, counts = typical_weights(settings, preparation)
    centering = preparation.offset.centering(settings)
    session.center(centering)
    intercepts = None
    if releases.INTERCEPTS in plan:
        release = plan[releases.INTERCEPTS].open(curator, session.tasks)
        [sums] = released(session, queries.Intercepts(settings.label), release)
        noise = release.records[0].noise_scale / settings.label
        scatter = scatter_of(settings, preparation.offset)
        found = settings.label * estimate(
            sums[:, 0] / settings.label, noise, scale, counts, scatter
        )
        intercepts = as_singles(found)
        session.center(centering, intercepts.astype(np.float64))
    ridge = settings.regularization * scale * counts**settings.exponent
    return Knowledge(ridge, scale, scale * counts, preparation.users, intercepts)


def scatter_of(settings: Settings, offset: offsets.Offset) -> float:
    """The variance of labels about the intercepts of items, in units of the squared label bound."""
    within = offset.within
    return 1.0 if within is None else min(within / settings.label / settings.label, 1.0)


def as_singles(values: Array) -> NDArray[np.float32]:
    """Within 32 bits whatever the bound: what is infinite would stop the training."""
    return np.clip(values, -_LARGEST, _LARGEST).astype(np.float32)


def private_step(
    settings: Settings,
    choice: Choice,
    plan: Plan,
    known: Knowledge,
    session: Session,
    curator: Curator,
) -> Step:
    """One sweep: users solved where they are, their sums released, all items fitted to these."""

    def step(sweep: int, items: Array) -> Array:
        session.solve_users(
            items,
            choice.unobserved_weight * (items.T @ items),
            settings.systems,
            settings.feature_bound,
            stretch=settings.normalize,
        )
        gramian = None
        if settings.gramian:
            release = plan[f"sweep {sweep} gramian"].open(curator, session.tasks)
            [packed] = released(session, queries.Gramian(), release)
            gramian = positive_part(unpack(packed, choice.factors)[0])
        declared = plan[f"sweep {sweep}"]
        # The last release gets whatever is left, to the last digit.
        last = sweep == choice.sweeps and not settings.validated
        mu = curator.ledger.affordable_mu() if last else None
        release = declared.open(curator, session.tasks, mu)
        penalty = Penalty(known.ridge, choice.unobserved_weight * known.scale, gramian)
        if isinstance(settings.solver, GradientDescent):
            return _descend(settings, session, release, items, penalty)
        query = releases.item_query(settings)
        if not settings.shared:
            assert isinstance(query, queries.Statistics)
            return solve_released(session, query, release, penalty, settings.solver.noise_ridge)
        [b] = released(session, query, release)
        assert gramian is not None
        noise = release.records[0].noise_scale
        return _shrink(choice, known, b, noise, gramian, None if sweep == 1 else items)

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
