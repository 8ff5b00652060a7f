"""One page that lays what was measured beside what was published, and says which of it holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from apportion.studies import exponent, neighbors, published, skew, slices, tradeoff
from apportion.studies.benchmark import BUCKETS, COLORS, METHODS, METRICS, Row
from apportion.studies.comparison import Series, mean_and_error, private_epsilons
from apportion.studies.output import write_figure, write_table, write_text
from apportion.studies.slices import bar_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SAMPLED = ("DPALS uniform", "DPALS tail")
_BESIDE = " (published in brackets)"
# Said first if so.
STANDS_IN = (
    "None of the paper's data sets is here. MovieLens-1M, which the paper does not use, stands in: what "
    "holds here is about the methods, not about the paper's figures."
)


@dataclass(frozen=True)
class Claim:
    """Something that the paper says, where, what was measured here, and whether it holds."""

    where: str
    what: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class Results:
    """What a run found.

    Attributes
        rows: a row per model, data set and exponent.
        skew: of the data sets.
        neighbors: overlaps, lists and unknown titles, by data set.
        rehearsal: what the data are, if they are simulated; empty otherwise.
        took: how long it took, and the memory.
    """

    rows: Sequence[Row]
    skew: skew.Found
    neighbors: Mapping[str, tuple[list[Row], list[Row], list[str]]]
    rehearsal: str = ""
    took: str = ""


def write(results: Results, folder: Path) -> list[Path]:
    """Write the tables, the figures and the page; return their paths, the page first."""
    paths = [folder / "page.md", folder / "models.csv", *skew.write(results.skew, folder)]
    write_table(paths[1], results.rows)
    lines = [
        "# The paper's figures and tables" + (", a rehearsal" if results.rehearsal else ""),
        "",
    ]
    if results.rehearsal:
        lines += [
            f"**A rehearsal on simulated data** ({results.rehearsal}): it shows that everything runs, and "
            "says nothing about the paper's claims. The data only have the originals' sizes and tails.",
            "",
        ]
    elif any(row["data"] in published.STANDS_FOR for row in results.rows):
        lines += [f"**{STANDS_IN}**", ""]
    seeds = len({row["seed"] for row in results.rows})
    beside = any(row["data"] in published.SLICES for row in results.rows)
    read_off = " Published bars are read off plots, to 0.003." if beside else ""
    lines += [f"{results.took} Repetitions: {seeds}.{read_off}", ""]
    lines += ["## What the paper says, and whether it holds here", ""]
    lines += _table(
        ("where", "the paper", "here", "holds"),
        [(c.where, c.what, c.measured, "yes" if c.holds else "**no**") for c in claims(results)],
    )
    lines += _statistics(results.skew)
    lines += ["", "![Figure 8: who has the rows](skew.png)", ""]
    for name in dict.fromkeys(row["data"] for row in results.rows):
        here = [row for row in results.rows if row["data"] == name]
        lines += ["", f"## {name}", ""]
        for file, title, drawing in _figures(name, here):
            paths.append(folder / file)
            write_figure(paths[-1], drawing)
            lines += [f"![{title}]({file})", ""]
        lines += _models(here)
        lines += _slices(name, here)
        if name in results.neighbors:
            overlap, lists, unknown = results.neighbors[name]
            paths.append(folder / f"{name}-overlap.png")
            bars = [Series(m, {"method": m}, COLORS[METHODS[m].budget]) for m in neighbors.COMPARED]
            label = f"top-{neighbors.K} neighbors shared with ALS"
            write_figure(paths[-1], bar_figure(overlap, bars, label))
            shared = _title(name, 11, "neighbors shared with ALS")
            lines += [f"![{shared}]({name}-overlap.png)", ""]
            lines += _overlap(name, overlap)
            lines += _lists(lists, unknown)
    write_text(paths[0], "\n".join(lines).rstrip() + "\n")
    return paths


def claims(results: Results) -> list[Claim]:
    """The paper's statements that these results can speak to."""
    found = []
    for entry in results.skew.statistics:
        share = published.TOP_TENTH.get(entry["data"])
        if share is not None:
            what = f"the top 10 % of {entry['data']}'s items have {share:.0%} of the training data"
            measured = f"{entry['top_0.1']:.1%}"
            found.append(Claim("section 5", what, measured, abs(entry["top_0.1"] - share) < 0.01))
    for name in dict.fromkeys(row["data"] for row in results.rows):
        here = [row for row in results.rows if row["data"] == name]
        found += _of_methods(name, here)
        found += _of_exponents(name, here)
        found += _of_buckets(name, here)
        if name in published.NOT_PRIVATE:
            value, known = mean_and_error(here, method="ALS")[0], published.NOT_PRIVATE[name]
            what = f"{name}, not private: {METRICS[here[0]['protocol']]} {known} (the authors' notebook)"
            found.append(Claim("figures 1, 2", what, f"{value:.4f}", abs(value / known - 1) < 0.01))
    for name, (overlap, _, _) in results.neighbors.items():
        means = {m: _buckets_of(overlap, method=m) for m in neighbors.COMPARED}
        order = ("DPALS uniform", "DPALS tail", "AdaDPALS")
        holds = all((means[a] < means[b]).all() for a, b in pairwise(order))
        text = "; ".join(f"{m} {' '.join(f'{share:.3f}' for share in means[m])}" for m in order)
        what = (
            f"{name}: AdaDPALS shares more neighbors with ALS than tail sampling, that more than uniform, "
            "in every bucket"
        )
        found.append(Claim(_where(name, 11), what, text, holds))
    return found


# Of quality against epsilon, and of the weight exponent, by the paper's data set.
_QUALITY = {"ml-10m": 1, "ml-20m": 2, "msd": 7}
_EXPONENT = {"ml-10m": 3, "ml-20m": 10}


def _where(name: str, figure: int) -> str:
    """Where the paper says it; of data that it does not have, "as" there."""
    return f"{'as ' if name in published.STANDS_FOR else ''}figure {figure}"


def _title(name: str, figure: int, what: str) -> str:
    where = _where(name, figure)
    return f"{where[0].upper()}{where[1:]}: {what}"


def _of_methods(name: str, rows: Sequence[Row]) -> list[Claim]:
    where = _where(name, _QUALITY[published.figures_of(name)])
    found = []
    for adaptive, sampled in (
        ("AdaDPALS", _SAMPLED), ("AdaDPSGD", ("DPSGD uniform", "DPSGD tail")),
    ):  # fmt: skip
        if not any(row["method"] == adaptive for row in rows):
            continue
        parts, holds = [], True
        for epsilon in private_epsilons(rows):
            own = [row for row in rows if row["weight_exponent"] is None]
            ours, *theirs = (
                mean_and_error(own, method=m, epsilon=epsilon)[0] for m in (adaptive, *sampled)
            )
            parts.append(f"epsilon {epsilon:g}: {ours:.3f}, {theirs[0]:.3f}, {theirs[1]:.3f}")
            holds &= all(_better(rows, ours, other) for other in theirs)
        what = f"{name}: {adaptive} is better than uniform and tail sampling at every epsilon"
        found.append(Claim(where, what, "; ".join(parts), holds))
    return found


def _of_exponents(name: str, rows: Sequence[Row]) -> list[Claim]:
    figure = _EXPONENT.get(published.figures_of(name))
    if figure is None:
        return []
    found = []
    for method in ("AdaDPALS", "AdaDPSGD"):
        grid = sorted({r["weight_exponent"] for r in rows if r["method"] == method} - {None})
        if not grid:
            continue
        best = []
        for epsilon in private_epsilons(rows):
            means = [
                mean_and_error(rows, method=method, epsilon=epsilon, weight_exponent=mu)[0]
                for mu in grid
            ]
            place = np.argmin(means) if rows[0]["metric"] == "RMSE" else np.argmax(means)
            best.append(grid[int(place)])
        text = ", ".join(exponent.name_of(mu) for mu in best)
        what = f"{name}, {method}: the best exponent is between 1/4 and 1/2"
        where = _where(name, figure)
        found.append(Claim(where, what, f"best: {text}", all(0.25 <= mu <= 0.5 for mu in best)))
    return found


def _of_buckets(name: str, rows: Sequence[Row]) -> list[Claim]:
    found = []
    grid = sorted({r["weight_exponent"] for r in rows if r["method"] == "AdaDPALS"} - {None})
    for bucket, rising in ((0, True), (1, True), (BUCKETS - 1, False)):
        holds, parts = True, []
        for epsilon in private_epsilons(rows):
            where = {"method": "AdaDPALS", "epsilon": epsilon}
            means = [
                mean_and_error(rows, f"bucket_{bucket}", **where, weight_exponent=mu)[0]
                for mu in grid
            ]
            better, worse = (means[-1], means[0]) if rising else (means[0], means[-1])
            holds &= _better(rows, better, worse)
            parts.append(" ".join(f"{value:.3f}" for value in means))
        first, last = (exponent.name_of(mu) for mu in (grid[0], grid[-1]))
        between = ", ".join(exponent.name_of(mu) for mu in grid[1:-1])
        what = (
            f"{name}, bucket {bucket}: exponent {last} is {'better' if rising else 'worse'} than {first} "
            f"(between them {between})"
        )
        found.append(Claim(_where(name, 9), what, "; ".join(parts), holds))
    if name == "ml-10m" and 1.0 in private_epsilons(rows):
        for bucket, least in published.GAP.items():
            gap = _gap(rows, bucket)
            bars = {k: v[1.0] for k, v in published.SLICES[name].items()}
            notebook = published.smallest_gap(bars, bucket)
            what = f"{name}, epsilon 1, bucket {bucket}: every exponent is better than DPALS by {least:.1%}"
            measured = f"{gap:+.1%} over tail sampling (the notebook's own bars: {notebook:+.1%})"
            found.append(Claim("section D.2", what, measured, gap >= least))
    return found


def _gap(rows: Sequence[Row], bucket: int) -> float:
    """As ``published.smallest_gap``, of what was measured at epsilon 1."""
    grid = {r["weight_exponent"] for r in rows if r["method"] == "AdaDPALS"} - {None, 0.0}
    keys: list[tuple[str, float | None]] = [
        ("DPALS tail", None),
        *(("AdaDPALS", mu) for mu in grid),
    ]
    values = {}
    for method, mu in keys:
        where = {"method": method, "epsilon": 1.0, "weight_exponent": mu}
        values[method, mu] = tuple(_buckets_of(rows, **where).tolist())
    return published.smallest_gap(values, bucket)


def _better(rows: Sequence[Row], one: float, other: float) -> bool:
    return one < other if rows[0]["metric"] == "RMSE" else one > other


def _buckets_of(rows: Sequence[Row], **where: object) -> NDArray[np.float64]:
    return np.array([mean_and_error(rows, f"bucket_{b}", **where)[0] for b in range(BUCKETS)])


def _figures(name: str, rows: Sequence[Row]) -> list[tuple[str, str, "Figure"]]:
    own = [row for row in rows if row["weight_exponent"] is None]
    by_exponent = [
        row
        for row in rows
        if row["weight_exponent"] is not None or row["method"] in tradeoff.NOT_PRIVATE
    ]
    like = published.figures_of(name)
    title = _title(name, _QUALITY[like], "quality against epsilon")
    drawn = [(f"{name}-tradeoff.png", title, tradeoff.draw(own))]
    if any(row["method"] == "AdaDPSGD" for row in rows):
        title = _title(name, _EXPONENT[like], "the weight exponent")
        drawn.append((f"{name}-exponent.png", title, exponent.draw(by_exponent)))
    title = _title(name, 9, "quality by popularity (figure 4 at epsilon 1)")
    return [*drawn, (f"{name}-slices.png", title, slices.figure(rows))]


def _statistics(found: skew.Found) -> list[str]:
    lines = []
    some = any(entry["data"] in published.STATISTICS for entry in found.statistics)
    for entry in found.statistics:
        known = published.STATISTICS.get(entry["data"])
        sizes = tuple(
            f"{entry[key]:,}" + ("" if known is None else f" ({known[place]:,})")
            for place, key in enumerate(("users", "items", "rows"))
        )
        gains = (f"{entry['top_0.1']:.1%}", f"{entry['R_0']:.2f}", f"{entry['R_1']:.2f}")
        lines.append((entry["data"], *sizes, *gains))
    head = ("data", "n", "m", "rows", "top tenth's share", "R_0", "R_1")
    return [
        "",
        f"## Table 1, and the gains that the theory promises{_BESIDE if some else ''}",
        "",
        *_table(head, lines),
    ]


def _models(rows: Sequence[Row]) -> list[str]:
    epsilons = private_epsilons(rows)
    lines = []
    kinds = {(row["method"], row["weight_exponent"]) for row in rows}
    order = [*METHODS]
    for method, mu in sorted(kinds, key=lambda kind: (order.index(kind[0]), kind[1] or 0.0)):
        if METHODS[method].budget == "adaptive" and mu is None:
            continue
        where = {"method": method, "weight_exponent": mu}
        if METHODS[method].budget == "not private":
            cells = [f"{mean_and_error(rows, **where)[0]:.4f}", *[""] * len(epsilons)]
        else:
            cells = ["", *(f"{mean_and_error(rows, **where, epsilon=e)[0]:.4f}" for e in epsilons)]
        lines.append((_label(method, mu), *cells))
    head = ("", "not private", *(f"epsilon {epsilon:g}" for epsilon in epsilons))
    return [f"Test {rows[0]['metric']}:", "", *_table(head, lines)]


def _slices(name: str, rows: Sequence[Row]) -> list[str]:
    """Ours, and in brackets what is published."""
    lines = []
    known = published.SLICES.get(name, {})
    kinds = [*((method, None) for method in _SAMPLED), *(("AdaDPALS", mu) for mu in _grid(rows))]
    for epsilon, (method, mu) in product(private_epsilons(rows), kinds):
        ours = _buckets_of(rows, method=method, epsilon=epsilon, weight_exponent=mu)
        theirs = known.get((method, mu), {}).get(epsilon)
        cells = [
            f"{value:.3f}" + ("" if theirs is None else f" ({theirs[b]:.3f})")
            for b, value in enumerate(ours)
        ]
        lines.append((f"{epsilon:g}", _label(method, mu), *cells))
    head = ("epsilon", "", "tail", "1", "2", "3", "head")
    kind = "RMSE" if rows[0]["metric"] == "RMSE" else "Recall@100, 80, 60, 40, 20"
    return ["", f"Test {kind} by popularity{_BESIDE if known else ''}:", "", *_table(head, lines)]


def _grid(rows: Sequence[Row]) -> list[float]:
    return sorted({r["weight_exponent"] for r in rows if r["method"] == "AdaDPALS"} - {None})


def _label(method: str, mu: float | None) -> str:
    return method if mu is None else f"{method}, exponent {exponent.name_of(mu)}"


def _overlap(name: str, rows: Sequence[Row]) -> list[str]:
    lines = []
    known = name not in published.STANDS_FOR
    for method in neighbors.COMPARED:
        ours, theirs = _buckets_of(rows, method=method), published.OVERLAP[method]
        cells = [
            f"{a:.3f}" + (f" ({b:.3f})" if known else "") for a, b in zip(ours, theirs, strict=True)
        ]
        lines.append((method, *cells))
    head = ("epsilon 1", "tail", "1", "2", "3", "head")
    beside = " (published in brackets, where an item is its own neighbor: + 0.05)" if known else ""
    return [f"Neighbors shared with ALS{beside}:", "", *_table(head, lines)]


def _lists(rows: Sequence[Row], unknown: Sequence[str]) -> list[str]:
    lines = ["", "Tables 3 and 4: nearest neighbors (users in training).", ""]
    for query in dict.fromkeys(row["query"] for row in rows):
        here = [row for row in rows if row["query"] == query]
        methods = list(dict.fromkeys(row["method"] for row in here))
        cells = [
            [f"{r['title']} ({r['count']:,})" for r in here if r["rank"] == rank]
            for rank in dict.fromkeys(row["rank"] for row in here)
        ]
        lines += [f"{query} ({here[0]['query_count']:,}):", "", *_table(methods, cells), ""]
    if unknown:
        lines += [f"Not known to all models: {', '.join(unknown)}.", ""]
    return lines


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"

    return [line(head), "|" + "---|" * len(head), *(line(row) for row in rows)]
