"""What error to expect, as a table; and public facts that stand for data before any is read."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from apportion.errors import DataError

if TYPE_CHECKING:
    from apportion.data import Interactions
    from apportion.recommend.planner import Forecast


def forecast_table(found: "list[Forecast]", unit: float, implicit: bool) -> Table:
    """The best forecast for each number of factors, the best first; ``unit`` is the label bound."""
    what = "share of tastes lost" if implicit else "RMSE"
    title = f"forecast: {what}; the best for each number of factors"
    table = Table(title=title, title_justify="left")
    for title in ("factors", "sweeps", *([] if implicit else ["for inter-\ncepts"])):
        table.add_column(title, justify="right")
    for name in ("all\nitems", "rarest\nfifth", "2nd", "3rd", "4th", "top\nfifth"):
        table.add_column(name, justify="right")
    if found and found[0].choice.sweeps == 0:
        alone = "popularity" if implicit else "averages of users and items"
        table.caption = f"{alone} alone: for this budget there is too little to learn tastes from"
    for forecast in best_of_each(found):
        choice = forecast.choice
        settings = [str(choice.factors), str(choice.sweeps)]
        if not implicit:
            settings.append(f"{choice.intercept_share:.0%}")
        errors = (forecast.error, *forecast.by_bucket)
        table.add_row(*settings, *(f"{unit * error:.3f}" for error in errors))
    return table


def forecast_values(found: "list[Forecast]", unit: float, implicit: bool) -> list[dict[str, Any]]:
    """The numbers of ``forecast_table``, by name."""
    return [
        {
            "factors": each.choice.factors,
            "sweeps": each.choice.sweeps,
            "intercept_share": None if implicit else each.choice.intercept_share,
            "error": unit * each.error,
            "error_by_popularity": [unit * error for error in each.by_bucket],
        }
        for each in best_of_each(found)
    ]


def best_of_each(found: "list[Forecast]") -> "list[Forecast]":
    """Of forecasts in order, the best for each number of factors, the best first."""
    best = {
        (forecast.choice.factors, forecast.choice.sweeps == 0): forecast
        for forecast in reversed(found)
    }
    return sorted(best.values(), key=lambda one: one.error)


def data_of_counts(
    path: Path, column: str, users: int, rating_range: tuple[float, float] | None
) -> "Interactions":
    """Data with these numbers of users per item, chosen at random, with ratings all over their range."""
    import numpy as np

    from apportion.data import Interactions
    from apportion.data.simulate import simulate_graph
    from apportion.studies.theory import read_sizes

    sizes = read_sizes(path, column)
    if sizes.max() > users:
        raise DataError(f"an item of {path} has more users than --users {users:,}")
    graph = simulate_graph(sizes, users)
    rating = None
    if rating_range is not None:
        rating = np.resize(np.linspace(*rating_range, 11), len(graph.task))
    return Interactions(graph.user, graph.task, rating, items=len(sizes), rating_range=rating_range)
