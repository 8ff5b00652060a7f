"""``apportion plan``: how a training will spend its budget, and what to expect of it. Free: reads no data."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apportion.cli import options
from apportion.cli.forecasts import data_of_counts, forecast_table, forecast_values
from apportion.cli.output import Html, Output
from apportion.cli.reading import DATA_PANEL, Name
from apportion.cli.targets import (
    RecallBetween,
    TargetLost,
    TargetRecall,
    TargetRmse,
    find_target,
)
from apportion.cli.training import find_allocation, find_solver, new_model

if TYPE_CHECKING:
    from apportion.data import Interactions
    from apportion.recommend import MatrixFactorization
    from apportion.recommend.preparation import Preparation

# Where epsilon is looked for: that of the first counts, and how often they are made again.
_CLEAR, _ROUNDS = 20.0, 2


def plan(
    to: Output,
    rating_range: options.RatingRange = None,
    implicit: options.Implicit = False,
    users: Annotated[
        int | None,
        typer.Option(min=2, help="About how many there will be.", rich_help_panel=DATA_PANEL),
    ] = None,
    items: Annotated[
        int | None, typer.Option(min=1, help="How many there are.", rich_help_panel=DATA_PANEL)
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="About how many.", rich_help_panel=DATA_PANEL)
    ] = None,
    like: Annotated[
        Name | None,
        typer.Option(help="As many as this data set has.", rich_help_panel=DATA_PANEL),
    ] = None,
    counts: Annotated[
        Path | None,
        typer.Option(
            help="CSV or Parquet file with a public number of users per item.",
            rich_help_panel=DATA_PANEL,
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(show_default="count", help="Its column.", rich_help_panel=DATA_PANEL),
    ] = None,
    preparation: Annotated[
        Path | None,
        typer.Option(
            help="What apportion prepare released, and paid for.", rich_help_panel=DATA_PANEL
        ),
    ] = None,
    private_items: Annotated[
        bool,
        typer.Option(
            "--private-items",
            help="As fit --items private: items are chosen privately.",
            rich_help_panel=DATA_PANEL,
        ),
    ] = False,
    top_share: options.TopShare = None,
    target_rmse: TargetRmse = None,
    target_recall: TargetRecall = None,
    recall_range: RecallBetween = None,
    target_lost: TargetLost = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = 1e-5,
    factors: options.Factors = None,
    sweeps: options.Sweeps = None,
    intercept_share: options.InterceptShare = None,
    allocation: options.Split = options.AllocationName.adaptive,
    weight_exponent: options.WeightExponent = None,
    k: options.SampledItems = None,
    statistics: options.StatisticsName = options.Statistics.shared,
    html: Html = None,
) -> None:
    """Show how a training will spend its budget, and what error to expect. Free: no data is read.

    What is released, with which noise, follows from the options alone. What to expect, by popularity of
    items, takes public facts besides: about how many users, items and rows there will be (or a data set
    that is like them), public numbers of users per item, or what [bold]apportion prepare[/bold] has
    released. From sizes and counts data are simulated, and the forecast is made of those.

    For ratings the forecast is the RMSE; for events it is the share of what could be learned about tastes
    that noise takes away. Forecasts assume that tastes are about as varied as in known data.

    [bold]Examples[/bold]

      apportion plan --rating-range 1 5 --epsilon 1

      apportion plan --rating-range 1 5 --users 50000 --items 2000 --rows 1000000 --epsilon 1

      apportion plan --like ml-20m --epsilon 5 --factors 32

      apportion plan --rating-range 1 5 --preparation first.json

      apportion plan --like ml-1m --epsilon 5 --html plan.html

      The other way round: which epsilon does it take?

      apportion plan --like ml-1m --target-rmse 0.93

      apportion plan --like ml-1m --implicit --target-recall 0.28 --recall-range 0.18 0.37
    """
    sizes = {"users": users, "items": items, "rows": rows}
    _check_usage(sizes, like, counts, column, preparation)
    if like is not None:
        from apportion.data.simulate import SHAPES

        known = SHAPES[like.value]["rating_range"]
        implicit = implicit or known is None
        rating_range = known if rating_range is None else rating_range
    if rating_range is None and not implicit:
        raise typer.BadParameter(
            "give the smallest and largest possible rating, as in --rating-range 1 5; for events "
            "without ratings: --implicit",
            param_hint="'--rating-range'",
        )
    target = find_target(target_rmse, target_recall, recall_range, target_lost, implicit=implicit)
    if target is not None:
        _check_target(epsilon, preparation, html)
    if top_share is not None and private_items:
        raise typer.BadParameter("does not go with --private-items", param_hint="'--top-share'")
    from apportion.explore import of_outlook, plan_page, write_page
    from apportion.recommend.outlook import outlook

    rating_range = None if implicit else rating_range
    with to.status("starting ..."):
        model = new_model(
            implicit=implicit,
            catalog="private" if private_items else "public",
            top_share=top_share,
            epsilon=1.0 if epsilon is None else epsilon,
            delta=delta,
            allocation=find_allocation(allocation, weight_exponent, k),
            parameters={
                "factors": factors,
                "sweeps": sweeps,
                "offsets__intercept_share": intercept_share,
                "solver": find_solver(options.Solver.ssp, statistics),
            },
        )
        planned = model.plan()
    if target is None:
        to.show(planned)

    def prepare_at(epsilon: float) -> "Preparation | None":
        """What was released before, or would be at this epsilon."""
        model.set_params(epsilon=epsilon)
        return _preparation(
            model, sizes, like, counts, column or "count", preparation, rating_range
        )

    with to.status("simulating ..."):
        known_before = prepare_at(
            _CLEAR if target is not None and preparation is None else model.epsilon
        )
    if known_before is None and target is not None:
        raise typer.BadParameter(
            "takes public facts: --users, --items and --rows; --like; --counts; or --preparation",
            param_hint="'--target-...'",
        )
    if known_before is None:
        if html is not None:
            write_page(html, plan_page(planned))
            to.show_paths([html])
        to.result({"plan": planned.to_dict(), "forecasts": None})
        to.show(
            "what error to expect takes public facts: --users, --items and --rows; --like; --counts; or "
            "--preparation",
            soft_wrap=False,
        )
        return
    unit = 1.0 if rating_range is None else model.label_bound_of(_one_row(rating_range))
    if target is not None:
        with to.status("looking for epsilon ..."):
            error = target.error / unit
            needed, best = target.least(model, known_before, error)
            # Of simulated data, once more with counts as noisy as they would be.
            for _ in range(_ROUNDS if preparation is None else 0):
                again = prepare_at(needed)
                assert again is not None
                needed, best = target.least(model, again, error)
        model.set_params(epsilon=needed)
        values = forecast_values([best], unit, implicit)
        planned = model.plan()
        to.result(
            {
                "plan": planned.to_dict(),
                "forecasts": values,
                "least_epsilon": needed,
                **target.expected(best.error),
            }
        )
        to.show(
            f"the least epsilon that is expected to reach {target.said:g}: {needed:.3g} at delta = {delta:g}"
        )
        to.show(forecast_table([best], unit, implicit))
        to.show(planned)
        return
    found = model.forecasts(known_before)
    if html is not None:
        with to.status("forecasting ..."):
            by_epsilon = of_outlook(outlook(model, known_before), unit, not implicit)
        write_page(html, plan_page(planned, by_epsilon))
    values = forecast_values(found, unit, implicit)
    to.result({"plan": planned.to_dict(), "forecasts": values})
    to.show(forecast_table(found, unit, implicit))
    to.show_paths([] if html is None else [html])


def _check_target(epsilon: float | None, preparation: Path | None, html: Path | None) -> None:
    if html is not None:
        raise typer.BadParameter("does not go with a target", param_hint="'--html'")
    if epsilon is not None and preparation is None:
        raise typer.BadParameter("is what is looked for", param_hint="'--epsilon'")


def _check_usage(
    sizes: dict[str, int | None],
    like: Name | None,
    counts: Path | None,
    column: str | None,
    preparation: Path | None,
) -> None:
    ways = {"--like": like, "--counts": counts, "--preparation": preparation}
    given = [name for name, value in ways.items() if value is not None]
    if len(given) > 1:
        raise typer.BadParameter(f"does not go with {given[1]}", param_hint=f"'{given[0]}'")
    if column is not None and counts is None:
        raise typer.BadParameter("goes with --counts only", param_hint="'--column'")
    named = [f"--{name}" for name, value in sizes.items() if value is not None]
    if counts is not None:
        if named != ["--users"]:
            raise typer.BadParameter(
                "takes --users, and of --items and --rows none", param_hint="'--counts'"
            )
    elif preparation is not None and named:
        raise typer.BadParameter("does not go with --preparation", param_hint=f"'{named[0]}'")
    elif like is None and named and len(named) < len(sizes):
        raise typer.BadParameter(
            "are needed together, or --like", param_hint="'--users', '--items', '--rows'"
        )


def _preparation(
    model: "MatrixFactorization",
    sizes: dict[str, int | None],
    like: Name | None,
    counts: Path | None,
    column: str,
    preparation: Path | None,
    rating_range: tuple[float, float] | None,
) -> "Preparation | None":
    """What was released and paid for, or what simulated data would release; None without a fact."""
    from apportion.data.simulate import SHAPES, simulate_interactions
    from apportion.recommend.preparation import Preparation

    if preparation is not None:
        return Preparation.read(preparation)
    if counts is not None:
        assert sizes["users"] is not None
        data = data_of_counts(counts, column, sizes["users"], rating_range)
    elif like is not None or sizes["users"] is not None:
        shape: dict[str, Any] = {} if like is None else dict(SHAPES[like.value])
        shape |= {name: value for name, value in sizes.items() if value is not None}
        data = simulate_interactions(**{**shape, "rating_range": rating_range})
    else:
        return None
    # Nobody's data: the noise has to be like the real one, not secret.
    return model.set_params(noise_seed=0).prepare(data)


def _one_row(rating_range: tuple[float, float]) -> "Interactions":
    from apportion.data import Interactions

    return Interactions([0], [0], [rating_range[0]], items=1, rating_range=rating_range)
