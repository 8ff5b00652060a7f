"""Alternating minimization (Algorithm 3): prepare, choose, sweep, report."""

from dataclasses import replace

import numpy as np

from apportion.allocation.denoising import expected_sizes
from apportion.recommend import exact, exact_choice, exact_events, releases
from apportion.recommend.intercepts import learn_intercepts
from apportion.recommend.masses import Masses
from apportion.recommend.model import ItemModel
from apportion.recommend.planner import Forecast
from apportion.recommend.popularity import learn_popularity, one_factor
from apportion.recommend.preparation import Preparation
from apportion.recommend.prepare import prepare, resume
from apportion.recommend.progress import settle
from apportion.recommend.report import report
from apportion.recommend.run import Run
from apportion.recommend.serving import choose_penalty
from apportion.recommend.sizes import Sizes
from apportion.recommend.sweep import private_step, sweep


def train_privately(
    run: Run, given: Preparation | None, *, paid: bool
) -> tuple[ItemModel, list[Forecast]]:
    """The model, and the forecasts by which it was chosen.

    ``given`` is what was released before, and ``paid`` whether a budget has paid for that.
    """
    plan = releases.plan(run.settings)
    prepared = prepare(run, plan) if given is None else resume(run, plan, given, paid=paid)
    sizes = Sizes.of(run.settings, prepared)
    choice, forecasts = run.asked.choose(run.settings, plan, prepared, sizes)
    choice = settle(run.saved, choice, run.curator.ledger)
    plan = releases.chosen(plan, run.settings, choice)
    known = learn_intercepts(run, plan, prepared, sizes)
    counts = sizes.expected
    if choice.sweeps == 0 and run.settings.explicit:
        items = np.zeros((run.session.tasks, 1))
    elif choice.sweeps == 0:
        counts, items = learn_popularity(run, plan, Masses.of(run.settings, prepared, sizes), sizes)
    elif run.settings.explicit or not run.settings.shared:
        items = sweep(run, choice, private_step(run, choice, plan, known, None))
    else:
        masses = Masses.of(run.settings, prepared, sizes)
        step = private_step(run, choice, plan, known, masses)
        found = sweep(run, choice, step, masses.columns.shape[1])
        items, masses = found[:, : choice.factors], Masses.from_columns(found[:, choice.factors :])
        counts = None if counts is None else masses.expected / sizes.scale
    choice = choose_penalty(run, choice, plan, prepared.offset, known, items)
    return report(run, choice, plan, prepared, known, items, counts), forecasts


def train_exactly(run: Run) -> ItemModel:
    """The same without privacy: nothing is released, everything is exact."""
    choice = run.asked.fixed(run.settings)
    assert choice is not None
    if run.in_memory:  # some rows can be kept out
        chooses = exact_choice if run.settings.explicit else exact_events
        settings, choice = chooses.choose(run, choice)
        run = replace(run, settings=settings)
    prepared = exact.prepare(run.settings, run.data, run.session, run.curator)
    known = exact.learn_offsets(run.settings, choice, prepared, run.session)
    counts = None if prepared.sizes is None else expected_sizes(prepared.sizes, noise=0.0)
    if choice.sweeps == 0:
        counts = prepared.sums
        items = one_factor(counts)
    else:
        items = sweep(run, choice, exact.exact_step(run.settings, choice, known, run.session))
    return report(run, choice, None, prepared, known, items, counts)
