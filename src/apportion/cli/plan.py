"""``apportion plan``: what to expect of a training, before it is paid for."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from apportion.cli.reading import (
    DataSetName,
    ItemColumn,
    Positives,
    RatingColumn,
    UserColumn,
)
from apportion.cli.terminal import Terminal
from apportion.cli.training import (
    AllocationName,
    BudgetFile,
    Data,
    Delta,
    EngineName,
    EngineOption,
    Epsilon,
    Factors,
    Implicit,
    InterceptShare,
    Items,
    Outside,
    OutsideRange,
    RatingRange,
    SampledItems,
    Solver,
    Split,
    Statistics,
    StatisticsName,
    Sweeps,
    TopShare,
    Training,
    WeightExponent,
    find_allocation,
    find_solver,
    find_source,
)
from apportion.data.files import written_whole
from apportion.errors import ParameterError

if TYPE_CHECKING:
    from apportion.recommend.planner import Forecast


def plan(
    data: Data,
    out: Annotated[
        Path, typer.Option(help="File for what was released; fit --plan FILE resumes it.")
    ],
    data_set: DataSetName = None,
    user: UserColumn = None,
    item: ItemColumn = None,
    rating: RatingColumn = None,
    implicit: Implicit = False,
    positives: Positives = None,
    rating_range: RatingRange = None,
    outside: OutsideRange = Outside.error,
    items: Items = None,
    top_share: TopShare = None,
    epsilon: Epsilon = None,
    delta: Delta = 1e-5,
    budget: BudgetFile = None,
    factors: Factors = None,
    sweeps: Sweeps = None,
    intercept_share: InterceptShare = None,
    allocation: Split = AllocationName.adaptive,
    weight_exponent: WeightExponent = None,
    k: SampledItems = None,
    statistics: StatisticsName = Statistics.shared,
    engine: EngineOption = EngineName.auto,
) -> None:
    """Show what error to expect of a training, by popularity of items, before it is paid for.

    Releases what a training releases first in any case, noisy counts above all, and predicts from these
    numbers alone, in closed form, how well each setting will do; fit would take the first. This costs
    its part of the budget. [bold]fit --plan[/bold] resumes it and spends the rest, every time it is run.
    With [bold]--budget[/bold], here and there, this part is paid here and the rest there.

    For ratings the forecast is the RMSE; for events it is the share of what could be learned about tastes
    that noise takes away. Forecasts assume that tastes are about as varied as in known data.

    [bold]Examples[/bold]

      apportion plan ratings.csv --rating-range 1 5 --items items.txt --epsilon 1 --out plan.json

      apportion fit ratings.csv --rating-range 1 5 --items items.txt --epsilon 1 --plan plan.json --out model
    """
    training = Training(
        source=find_source(data, data_set, (user, item, rating), implicit, positives),
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
            "solver": find_solver(Solver.ssp, statistics),
            "engine": engine.value,
        },
    )
    console = Terminal()
    with console.status("starting ..."):
        if out.exists():
            raise ParameterError(f"{out} exists already")
        if not out.parent.is_dir():
            raise ParameterError(f"there is no folder {out.parent}")
        from apportion.accounts.budget import Budget

        model = training.model()
        model.plan()
        source = None if budget is None else Budget(budget)
    with console.status("reading ..."):
        interactions = training.read()
    with console.status("counting ..."):
        preparation = model.prepare(interactions, source)
        # Before anything is printed: that can fail, and the budget is spent.
        with written_whole(out) as path:
            path.write_text(preparation.to_json(), "utf-8")
        found = model.forecasts(preparation)
    unit = 1.0 if training.source.implicit else model.label_bound_of(interactions)
    console.print(_table(found, unit, training.source.implicit))
    for warning in preparation.warnings:
        console.print(f"[yellow]warning:[/yellow] {escape(warning)}")
    ledger = preparation.ledger
    console.print(
        f"spent epsilon = {ledger.epsilon(delta):.3g} of {training.epsilon:g}, on "
        f"{escape(', '.join(record.name for record in ledger))}; saved {escape(str(out))}\n"
        f"to train with the first, add to the options of fit: --plan {escape(str(out))}",
        highlight=False,
        soft_wrap=True,
    )


def _table(found: "list[Forecast]", unit: float, implicit: bool) -> Table:
    what = "share of tastes lost" if implicit else "RMSE"
    title = f"forecast: {what}; the best for each number of factors"
    table = Table(title=title, title_justify="left")
    for title in ("factors", "sweeps", *([] if implicit else ["for inter-\ncepts"])):
        table.add_column(title, justify="right")
    for name in ("all\nitems", "rarest\nfifth", "2nd", "3rd", "4th", "top\nfifth"):
        table.add_column(name, justify="right")
    best = {forecast.choice.factors: forecast for forecast in reversed(found)}
    for forecast in sorted(best.values(), key=lambda one: one.error):
        choice = forecast.choice
        settings = [str(choice.factors), str(choice.sweeps)]
        if not implicit:
            settings.append(f"{choice.intercept_share:.0%}")
        errors = (forecast.error, *forecast.by_bucket)
        table.add_row(*settings, *(f"{unit * error:.3f}" for error in errors))
    return table
