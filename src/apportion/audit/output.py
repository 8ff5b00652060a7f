"""The report of an audit as a page, with its picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from apportion.audit.report import EVERYTHING, AuditReport, Game, OneRun
from apportion.errors import ParameterError
from apportion.pages import long_bars, notes, page, panel, panels, paragraph
from apportion.pages import table as table_piece
from apportion.privacy import epsilon_from_mu
from apportion.studies.output import (
    NO_FIGURES,
    can_draw,
    new_figure,
    style,
    write_figure,
    write_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("training", "release", "best attack", "claimed", "estimate", "at least", "")


def check_output(path: Path) -> None:
    """Refuse a path that does not end as a page does, before any time is spent."""
    if path.suffix not in (".html", ".md"):
        raise ParameterError(f"the report must be named .html or .md, got {path.name}")
    if path.suffix == ".md" and not can_draw():
        raise ParameterError(NO_FIGURES)


def write_report(path: Path, report: AuditReport) -> list[Path]:
    """Write the page and, for Markdown, the picture beside it; return what was written."""
    check_output(path)
    if path.suffix == ".html":
        write_text(path, _page(report))
        return [path]
    beside = path.with_suffix(".svg")
    write_figure(beside, figure(report))
    write_text(path, _markdown(report, beside.name))
    return [path, beside]


def table(report: AuditReport) -> list[tuple[str, ...]]:
    """Rows of text under ``COLUMNS``: what each release was shown to cost at least, in epsilon."""
    rows: list[tuple[str, ...]] = [
        (
            game.training,
            _label(game),
            game.canary,
            f"{game.claimed_epsilon:.2f}",
            f"{epsilon_from_mu(game.mu_estimate, report.delta):.2f}",
            f"{_at_least(game):.2f}",
            _word(game.passed),
        )
        for game in report.best()
    ]
    for each in report.one_runs:
        attack = f"{len(each.right)} x {each.canaries:,} canaries at once"
        claimed, least = f"{each.claimed_epsilon:.2f}", f"{each.epsilon_lower:.2f}"
        rows.append((each.training, _label(each), attack, claimed, "", least, _word(each.passed)))
    return rows


def summary(report: AuditReport) -> str:
    """The verdict in a sentence, with its error rate."""
    tried = (
        f"{len(report.games)} games of {report.runs} trainings with and {report.runs} without the "
        f"canary, {len(report.one_runs)} attacks on whole trainings"
    )
    verdict = "PASS: no claim was refuted" if report.passed else "FAIL: see below"
    return (
        f"{verdict}. {tried}, epsilon = {report.epsilon:g} at delta = {report.delta:g}. A sound library "
        f"fails with probability at most {report.alpha:g}."
    )


def figure(report: AuditReport) -> "Figure":
    """Claimed epsilon of every release, and what the best attack shows it to be at least."""
    rows: dict[str, list[Game | OneRun]] = {}
    bounds: list[Game | OneRun] = [*report.best(), *report.one_runs]
    for each in bounds:
        rows.setdefault(each.training, []).append(each)
    sizes = [len(each) for each in rows.values()]
    with style():
        height = 1.2 + 0.3 * sum(sizes) + 0.45 * len(sizes)
        drawn = new_figure(8, height, layout="constrained")
        axes = drawn.subplots(
            len(rows), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": sizes}
        )[:, 0]
        for ax, (name, bounds) in zip(axes, rows.items(), strict=True):
            _draw(ax, name, bounds, report.delta)
        axes[-1].set_xlabel(f"epsilon at delta = {report.delta:g}")
        handles, labels = axes[0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    return drawn


def _draw(ax: "Axes", name: str, bounds: Sequence[Game | OneRun], delta: float) -> None:
    places = range(len(bounds))
    least = [_at_least(each) for each in bounds]
    colors = ["tab:blue" if each.passed else "tab:red" for each in bounds]
    ax.barh(places, least, color=colors, height=0.55, label="at least (attack)")
    games = [(y, each) for y, each in zip(places, bounds, strict=True) if isinstance(each, Game)]
    estimates = [epsilon_from_mu(game.mu_estimate, delta) for _, game in games]
    ax.plot(
        estimates, [y for y, _ in games], "o", ms=4, mfc="white", mec="tab:gray",
        label="estimate (attack)",
    )  # fmt: skip
    claimed = [each.claimed_epsilon for each in bounds]
    ax.plot(claimed, places, "|", ms=11, mew=2, color="black", label="claimed (ledger)")
    ax.set_yticks(places, [_label(each) for each in bounds])
    ax.set_ylim(len(bounds) - 0.5, -0.5)
    ax.set_xlim(left=0)
    ax.set_title(name, loc="left", fontsize=10, fontweight="bold")


def _label(each: Game | OneRun) -> str:
    if isinstance(each, OneRun):
        return "whole fit"
    return "all releases" if each.release == EVERYTHING else each.release


def _at_least(each: Game | OneRun) -> float:
    if isinstance(each, OneRun):
        return each.epsilon_lower
    return max(each.epsilon_lower, each.any_epsilon_lower)


def _word(passed: bool) -> str:
    return "pass" if passed else "FAIL"


def _markdown(report: AuditReport, picture: str) -> str:
    lines = ["# Audit", "", summary(report), ""]
    lines += [f"- **{found.training}**: {found.what}" for found in report.findings]
    lines += ["", f"![Claimed epsilon and what attacks show it to be at least]({picture})", ""]
    lines += [_line(COLUMNS), _line(["---"] * len(COLUMNS))]
    return "\n".join([*lines, *map(_line, table(report)), ""])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _page(report: AuditReport) -> str:
    rows: dict[str, list[Game | OneRun]] = {}
    claims: list[Game | OneRun] = [*report.best(), *report.one_runs]
    for each in claims:
        rows.setdefault(each.training, []).append(each)
    bars = [
        panel(
            name,
            long_bars(
                f"Epsilon of {name}: what attacks show it to be at least, and the ledger's claim",
                [(_label(each), _at_least(each)) for each in bounds],
                "",
                [each.claimed_epsilon for each in bounds],
            ),
        )
        for name, bounds in rows.items()
    ]
    found = [f"{one.training}: {one.what}" for one in report.findings]
    verdict = panel(
        "What was tried",
        paragraph(summary(report), "good" if report.passed else "bad"),
        notes(found, "bad"),
        paragraph(
            "A bar is the epsilon that the best attack proves a release to have at least; the line is what "
            "its ledger claims. A bar that passed its line would refute the claim."
        ),
        wide=True,
    )
    numbers = panel("As numbers", table_piece(COLUMNS, table(report), numbers=4), wide=True)
    return page("Audit", panels(verdict, *bars, numbers))
