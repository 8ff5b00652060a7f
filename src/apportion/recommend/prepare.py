"""The first step of a training: what is released before anything is fitted."""

import math
from dataclasses import replace
from typing import Any

from apportion.accounts import Budget
from apportion.accounts.costs import part_of_cost, whole_cost
from apportion.accounts.plan import Plan
from apportion.allocation.counts import COUNTS
from apportion.data import Interactions
from apportion.data.sources import ALL_RATINGS
from apportion.engine import queries
from apportion.errors import DataError, ParameterError
from apportion.privacy import Ledger, Record
from apportion.recommend import offsets, releases
from apportion.recommend.groups import check_bound
from apportion.recommend.preparation import Preparation
from apportion.recommend.run import Array, Run
from apportion.recommend.settings import Settings
from apportion.recommend.sizes import counts_source, for_weights

POOR_RATINGS = (
    "every rating counts as an event, those of one star, too: data.positives(4) (--positives 4) takes those "
    "of 4 and more"
)


def prepare(run: Run, plan: Plan) -> Preparation:
    """Release what comes before anything is fitted; the session is left with weighted rows."""
    settings, session, curator = run.settings, run.session, run.curator
    offset = offsets.release(run, plan)
    item_ids, sizes = settings.catalog.choose(run.data.item_ids, session, curator)
    run.asked.check_size(len(item_ids))
    if sizes is None and settings.allocation.counts is not None:
        sizes = settings.allocation.counts.release(session, curator)
    weigh(run, sizes, curator.ledger)
    [sums], _ = run.released(plan, releases.WEIGHTS, queries.WeightSums())
    users = 1.0
    if settings.shared:
        [[[users]]], _ = run.released(plan, releases.USERS, queries.Users())
    return Preparation(
        item_ids=item_ids,
        sizes=sizes,
        sums=sums[:, 0],
        users=max(float(users), 1.0),
        offset=offset,
        ledger=curator.ledger.copy(),
        secret_noise=curator.secret_noise,
        training=kind_of(settings),
        warnings=(*count_warnings(settings), *data_warnings(settings, run.data)),
    )


def resume(run: Run, plan: Plan, preparation: Preparation, *, paid: bool) -> Preparation:
    """Go on from what was released before: the session is left as ``prepare`` leaves it."""
    settings = run.settings
    run.asked.check_size(len(preparation.item_ids))
    preparation.check(kind_of(settings))
    planned = {each.name: each.mu(settings.target) for each in releases.before_training(plan)}
    preparation.check_ledger(planned)
    preparation.check_items(run.data)
    run.curator.ledger.append(*preparation.ledger, paid=paid)
    run.session.choose(preparation.item_ids)
    weigh(run, preparation.sizes, preparation.ledger)
    warnings = dict.fromkeys((*data_warnings(settings, run.data), *preparation.warnings))
    return replace(preparation, warnings=tuple(warnings))


def check_data(settings: Settings, data: Interactions) -> None:
    """Refuse data that such a training cannot take, by its public facts."""
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


def weigh(run: Run, sizes: Array | None, ledger: Ledger) -> None:
    """Split every user's budget among its items, given released sizes and their ledger."""
    settings, session = run.settings, run.session
    sizes = for_weights(settings, sizes, ledger.noise_of(COUNTS))
    key = run.curator.noise.sampling_key("allocation")
    session.weigh(settings.allocation.rule(session.tasks, sizes, key, lambda: run.data.graph))


def cost_of_preparing(settings: Settings) -> tuple[Record, ...]:
    """What these releases cost a budget."""
    before = releases.before_training(releases.plan(settings))
    return part_of_cost(settings.target, math.fsum(release.share for release in before))


def paid_before(
    settings: Settings, preparation: Preparation | None, budget: Budget | None
) -> tuple[bool, Any]:
    """Whether the budget has paid for the preparation, and what is left to pay then."""
    if budget is None or preparation is None:
        return False, None
    if not preparation.secret_noise:
        raise ParameterError("the preparation was made with a noise_seed: no budget pays for it")
    paid = budget.holds(preparation.paid, preparation.ledger)
    return paid, whole_cost(settings.target, preparation.ledger) if paid else None


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
