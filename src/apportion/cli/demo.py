"""``apportion demo``: what the library does, in a minute, on data that comes with it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from apportion.cli.output import Output

if TYPE_CHECKING:
    from apportion.explore import Explorer
    from apportion.studies.demo import DemoResult

RESULTS = Path("apportion-results")


def demo(
    to: Output,
    epsilon: Annotated[float, typer.Option(help="Privacy budget of each model.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Probability that the guarantee may fail.")] = 1e-5,
    out: Annotated[Path, typer.Option(help="Folder for the picture and the report.")] = RESULTS
    / "demo",
) -> None:
    """Train private recommenders on simulated ratings, show what they know, and open one in the browser.

    Forty thousand users, five hundred items of very different popularity, two million ratings. The default
    model is compared, at the same epsilon, with what a careful user would do without it (release every
    item's average with noise), with equal budgets for all items, and with no privacy at all. It is saved,
    and as a page that recommends in the browser; its items have invented titles.

    [bold]Examples[/bold]

      apportion demo

      apportion demo --epsilon 0.5 --out /tmp/demo
    """
    with to.status("training four recommenders ..."):
        # Imported here so that `apportion --help` answers at once.
        from apportion.data.files import check_folder
        from apportion.explore import write_single_file
        from apportion.studies import demo as study
        from apportion.studies.output import NO_FIGURES, can_draw, write_figure, write_text

        check_folder(out)
        result = study.run(epsilon=epsilon, delta=delta)
        picture = out / "demo.png" if can_draw() else None
        if picture is not None:
            write_figure(picture, study.figure(result))
        report = out / "privacy.json"
        write_text(report, result.report.to_json())
        model, page = out / "model", out / "explorer.html"
        result.model.save(model, study.titles(len(result.sizes)))
        write_single_file(_explorer(result, model), page)
    to.result(
        {
            **result.to_dict(),
            "report": str(report),
            "picture": None if picture is None else str(picture),
            "model": str(model),
            "page": str(page),
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
        + f"\n\nNow open [bold]{escape(str(page))}[/bold] in a browser: say what you like, and it "
        "recommends, on your own device."
    )


def _explorer(result: "DemoResult", model: Path) -> "Explorer":
    """The page of the model, with the errors that were measured."""
    from apportion.explore import Explorer, Line, Quality, chosen_panel, exact
    from apportion.recommend.files import load
    from apportion.studies.demo import DEFAULT

    lines = {name: Line(each.rmse, each.rmse_by_bucket) for name, each in result.errors.items()}
    target, quality = result.report.ledger.target.epsilon, None
    if result.report.private:
        source = (
            "Measured by apportion demo on simulated ratings from 1 to 5 that no model had seen."
        )
        measured = Quality("RMSE", "lower", source, {target: lines.pop(DEFAULT)}, lines)
        quality = chosen_panel(measured, target)
    return Explorer(
        "Apportion demo: invented films",
        result.report,
        exact(load(model).released),
        quality=quality,
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
    from apportion.studies.demo import titles

    title = titles(len(result.sizes))
    said = ", ".join(f"{title[item]} ({rating:.1f})" for item, rating in result.history.items())
    found = ", ".join(f"{title[item]} ({score:.1f})" for item, score in result.recommended)
    return f"- Somebody new has rated {said}, and is recommended {found}."
