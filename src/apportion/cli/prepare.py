"""``apportion prepare``: release what comes before the sweeps, and see what to expect of the rest."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from apportion.cli import options
from apportion.cli.forecasts import forecast_table, forecast_values
from apportion.cli.output import Output
from apportion.cli.reading import (
    CountRepeats,
    DataSetName,
    Encoding,
    ItemColumn,
    Positives,
    RatingColumn,
    UserColumn,
    WeightBound,
    WeightColumn,
)
from apportion.cli.spark import Master, Store, find_cluster
from apportion.cli.training import Training, find_allocation, find_solver, find_source, open_budget
from apportion.data.files import written_whole
from apportion.errors import ParameterError


def prepare(
    to: Output,
    data: options.Data,
    out: Annotated[
        Path,
        typer.Option(help="File for what was released; fit --preparation FILE resumes it."),
    ],
    data_set: DataSetName = None,
    user: UserColumn = None,
    item: ItemColumn = None,
    rating: RatingColumn = None,
    implicit: options.Implicit = False,
    positives: Positives = None,
    weight: WeightColumn = None,
    count_repeats: CountRepeats = False,
    weight_bound: WeightBound = None,
    encoding: Encoding = None,
    rating_range: options.RatingRange = None,
    outside: options.OutsideRange = options.Outside.error,
    items: options.Items = None,
    top_share: options.TopShare = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = 1e-5,
    budget: options.BudgetFile = None,
    label: options.Label = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Pay without a budget, and without being asked.")
    ] = False,
    factors: options.Factors = None,
    sweeps: options.Sweeps = None,
    intercept_share: options.InterceptShare = None,
    allocation: options.Split = options.AllocationName.adaptive,
    weight_exponent: options.WeightExponent = None,
    k: options.SampledItems = None,
    statistics: options.StatisticsName = options.Statistics.shared,
    engine: options.EngineOption = options.EngineName.auto,
    master: Master = None,
    store: Store = None,
) -> None:
    """Release what a training releases first, and show what error to expect, by popularity of items.

    These are noisy counts above all. They predict how well each setting will do; fit takes the best. For
    what can be expected before anything is spent, see [bold]apportion plan[/bold].

    This costs a part of the epsilon, and the command says how much before it starts: give a
    [bold]--budget[/bold] that pays, or say [bold]--yes[/bold]. [bold]fit --preparation[/bold] goes on from
    here and spends the rest, every time it is run. With the same budget this part is not paid again.

    [bold]Examples[/bold]

      apportion prepare ratings.csv --rating-range 1 5 --items items.txt --budget budget.db --out first.json

      apportion fit ratings.csv --rating-range 1 5 --items items.txt --budget budget.db
      --preparation first.json --out model
    """
    training = Training(
        source=find_source(
            data,
            data_set,
            (user, item, rating),
            implicit,
            positives,
            (weight, count_repeats, weight_bound),
            encoding,
        ),
        items=items,
        top_share=top_share,
        rating_range=rating_range,
        outside=outside,
        epsilon=1.0 if epsilon is None else epsilon,
        delta=delta,
        allocation=find_allocation(allocation, weight_exponent, k),
        parameters={
            "factors": factors,
            "sweeps": sweeps,
            "offsets__intercept_share": intercept_share,
            "solver": find_solver(options.Solver.ssp, statistics),
            "engine": None if engine is options.EngineName.spark else engine.value,
        },
        cluster=find_cluster(engine.value, master, store),
        place=data,
    )
    with to.status("starting ..."):
        if out.exists():
            raise ParameterError(f"{out} exists already")
        if not out.parent.is_dir():
            raise ParameterError(f"there is no folder {out.parent}")
        model = training.model()
        price = model.preparation_epsilon()
        source = open_budget(budget, label)
    if source is None and not yes:
        _ask(price, training.epsilon)
    with to.status("reading ..."):
        interactions = training.read()
    with to.status("counting ..."):
        preparation = model.prepare(interactions, source)
        # Before anything is printed: that can fail, and the budget is spent.
        with written_whole(out) as path:
            path.write_text(preparation.to_json(), "utf-8")
        found = model.forecasts(preparation)
    unit = 1.0 if training.source.implicit else model.label_bound_of(interactions)
    for warning in preparation.warnings:
        to.warn(warning)
    ledger = preparation.ledger
    to.result(
        {
            "files": [str(out)],
            "epsilon": ledger.epsilon(delta),
            "of_epsilon": training.epsilon,
            "delta": delta,
            "releases": [record.name for record in ledger],
            "forecasts": forecast_values(found, unit, training.source.implicit),
            "warnings": list(preparation.warnings),
        }
    )
    to.show(forecast_table(found, unit, training.source.implicit))
    to.show(
        f"spent epsilon = {ledger.epsilon(delta):.3g} of {training.epsilon:g}, on "
        f"{escape(', '.join(record.name for record in ledger))}; saved {escape(str(out))}\n"
        f"to train with the first, add to the options of fit: --preparation {escape(str(out))}"
    )


def _ask(price: float, epsilon: float) -> None:
    """Say what it costs; go on if somebody says yes to that."""
    what = f"prepare releases noisy counts: epsilon = {price:.3g} of {epsilon:g}"
    try:
        agreed = typer.confirm(f"{what}, counted by no budget. Spend it?", err=True)
    except typer.Abort:
        agreed = False
    if not agreed:
        raise typer.BadParameter(
            f"{what}. Give --budget FILE, which pays and counts it, or --yes. Nothing was released",
            param_hint="'--budget' / '--yes'",
        )
