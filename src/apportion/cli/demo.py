"""``apportion demo``: what the library does, in a minute, on data that comes with it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from apportion.cli.output import Output

if TYPE_CHECKING:
    from apportion.studies.demo import DemoResult

RESULTS = Path("apportion-results")


def demo(
    to: Output,
    epsilon: Annotated[float, typer.Option(help="Privacy budget of each model.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Probability that the guarantee may fail.")] = 1e-5,
    out: Annotated[Path, typer.Option(help="Folder for the picture and the report.")] = RESULTS
    / "demo",
) -> None:
    """Train private recommenders on simulated ratings, and show by popularity what they know.

    Forty thousand users, five hundred items of very different popularity, two million ratings. The default
    model is compared, at the same epsilon, with what a careful user would do without it (release every
    item's average with noise), with equal budgets for all items, and with no privacy at all.

    [bold]Examples[/bold]

      apportion demo

      apportion demo --epsilon 0.5 --out /tmp/demo
    """
    with to.status("training four recommenders ..."):
        # Imported here so that `apportion --help` answers at once.
        from apportion.data.files import check_folder
        from apportion.studies import demo as study
        from apportion.studies.output import NO_FIGURES, can_draw, write_figure, write_text

        check_folder(out)
        result = study.run(epsilon=epsilon, delta=delta)
        picture = out / "demo.png" if can_draw() else None
        if picture is not None:
            write_figure(picture, study.figure(result))
        report = out / "privacy.json"
        write_text(report, result.report.to_json())
    to.result(
        {
            **result.to_dict(),
            "report": str(report),
            "picture": None if picture is None else str(picture),
        }
    )
    to.show(_table(result))
    for sentence in result.conclusion():
        to.show(f"- {sentence}", soft_wrap=False)
    to.show(_for_somebody(result), soft_wrap=False)
    to.show(
        f"\nThe model may be published: {result.report.verdict}, for each user with all of its rows.\n"
        f"What was released and why it is private: {escape(str(report))}\n"
        + escape(NO_FIGURES if picture is None else f"The picture: {picture}")
    )


def _table(result: "DemoResult") -> Table:
    table = Table(
        title=f"test RMSE at epsilon = {result.report.ledger.target.epsilon:g} (lower is better)",
        title_justify="left",
    )
    table.add_column("items")
    table.add_column("users an item", justify="right")
    for name in result.errors:
        table.add_column(name, justify="right", style="bold" if name == "apportion" else "")
    names = ["rarest (tail)", "second fifth", "third fifth", "fourth fifth", "popular (head)"]
    for bucket, (name, size) in enumerate(zip(names, result.bucket_sizes, strict=True)):
        cells = (f"{errors.rmse_by_bucket[bucket]:.3f}" for errors in result.errors.values())
        table.add_row(name, f"{size:,.0f}", *cells)
    table.add_section()
    table.add_row("all", "", *(f"{errors.rmse:.3f}" for errors in result.errors.values()))
    return table


def _for_somebody(result: "DemoResult") -> str:
    """What one history gets."""
    said = ", ".join(f"{item} ({rating:.1f})" for item, rating in result.history.items())
    found = ", ".join(f"{item} ({score:.1f})" for item, score in result.recommended)
    return f"- Somebody new has rated the items {said}, and is recommended {found}."
