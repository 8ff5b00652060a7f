"""``apportion demo``: what the library does, in a minute, on data that comes with it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from apportion.cli.terminal import Terminal

if TYPE_CHECKING:
    from apportion.studies.demo import DemoResult

RESULTS = Path("apportion-results")


def demo(
    epsilon: Annotated[float, typer.Option(help="Privacy budget of each model.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Probability that the guarantee may fail.")] = 1e-5,
    out: Annotated[Path, typer.Option(help="Folder for the picture and the report.")] = RESULTS
    / "demo",
) -> None:
    """Train two private recommenders on simulated ratings: uniform and adaptive budgets, side by side.

    Forty thousand users, five hundred items of very different popularity, two million ratings. Both
    models have the same epsilon, out of which they also pay for their private item counts.

    [bold]Examples[/bold]

      apportion demo

      apportion demo --epsilon 0.5 --out /tmp/demo
    """
    console = Terminal()
    with console.status("training two recommenders (the first run compiles its loops) ..."):
        # Imported here so that `apportion --help` answers at once.
        from apportion.data.files import check_folder
        from apportion.studies import demo as study
        from apportion.studies.output import write_figure, write_text

        check_folder(out)
        result = study.run(epsilon=epsilon, delta=delta)
        picture = out / "demo.png"
        write_figure(picture, study.figure(result))
        report = out / "privacy.json"
        write_text(report, result.report.to_json())
    console.print(_table(result))
    console.print(result.report)
    console.print(
        f"picture: {escape(str(picture))}\nreport:  {escape(str(report))}",
        highlight=False,
        soft_wrap=True,
    )


def _table(result: "DemoResult") -> Table:
    table = Table(
        title=f"test RMSE at epsilon = {result.report.ledger.target.epsilon:g} (lower is better)",
        title_justify="left",
    )
    table.add_column("items")
    table.add_column("users an item", justify="right")
    for name in result.errors:
        table.add_column(name, justify="right")
    table.add_column("change", justify="right")
    names = ["rarest (tail)", "second fifth", "third fifth", "fourth fifth", "popular (head)"]
    buckets = [errors.rmse_by_bucket for errors in result.errors.values()]
    for name, size, uniform, adaptive in zip(names, result.bucket_sizes, *buckets, strict=True):
        table.add_row(
            name, f"{size:,.0f}", f"{uniform:.3f}", f"{adaptive:.3f}", _change(uniform, adaptive)
        )
    table.add_section()
    uniform, adaptive = (errors.rmse for errors in result.errors.values())
    table.add_row("all", "", f"{uniform:.3f}", f"{adaptive:.3f}", _change(uniform, adaptive))
    return table


def _change(before: float, after: float) -> str:
    change = after / before - 1
    color = "green" if change < 0 else "red"
    return f"[{color}]{change:+.0%}[/{color}]"
