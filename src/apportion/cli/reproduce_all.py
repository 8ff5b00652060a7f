"""``apportion reproduce all``: every figure and table of the paper, and one page beside what is published."""

import resource
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apportion.cli.demo import RESULTS
from apportion.cli.output import Output
from apportion.errors import DataError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.studies.benchmark import Benchmark
    from apportion.studies.neighbors import Titles


def reproduce_all(
    to: Output,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the archives as they are distributed: ml-10m.zip, ml-20m.zip, "
            "train_triplets.txt.zip. Those that are there are used; if none is, ml-1m.zip, which the paper "
            "does not have, stands in."
        ),
    ] = None,
    simulate: Annotated[
        list[str] | None,
        typer.Option(
            help="Rehearse on simulated data of this shape: ml-10m, ml-20m or msd; repeat."
        ),
    ] = None,
    scale: Annotated[
        float,
        typer.Option(help="Of simulated data: users, items and rows times this. Example: 0.1"),
    ] = 1.0,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Privacy budget; repeat. Default: 1, 5, 20.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions.")] = 1,
    held_out: Annotated[
        int | None,
        typer.Option(
            min=1, help="Users for validation, and as many for the test (small archives)."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the page; what is there is not trained again.")
    ] = RESULTS / "all",
) -> None:
    """Make every figure and table of the paper from the archives found, and lay it beside the published.

    Says how long it may take before it starts. A run that was interrupted resumes where it stopped.

    [bold]Examples[/bold]

      apportion reproduce all --data archives

      apportion reproduce all --simulate ml-20m --scale 0.1 --epsilon 1
    """
    from apportion.studies import everything, page, skew
    from apportion.studies.benchmark import EPSILONS
    from apportion.studies.output import check_output
    from apportion.studies.published import STANDS_FOR

    check_output(out)
    begun = time.monotonic()
    with to.status("reading ..."):
        benchmarks, titles, rehearsal = _benchmarks(data, simulate or (), scale, held_out)
    run = everything.Everything(benchmarks, out, epsilon or EPSILONS, seeds, titles)
    with to.status("measuring the speed of this machine ..."):
        times = everything.estimate(run.jobs, everything.calibrate())
    left = sum(seconds > 0 for seconds in times)
    stands_in = any(benchmark.name in STANDS_FOR for benchmark in benchmarks)
    if stands_in:
        to.show(f"[bold]{page.STANDS_IN}[/bold]")
    for benchmark in benchmarks:
        to.show(f"{benchmark.name}: {benchmark.summary}", soft_wrap=False)
    to.show(
        f"{len(times)} models, {len(times) - left} of them done; the others may take "
        f"{_duration(sum(times))} here, within a factor of about two, and their evaluation besides"
    )
    weight = {job: max(seconds, 1e-9) for job, seconds in zip(run.jobs, times, strict=True)}
    with to.progress(counted=False) as progress:
        bar = progress.add_task("training", total=sum(weight.values()))

        def on_fit(job: everything.Job) -> None:
            progress.update(bar, advance=weight[job], description=job.name)

        rows = run.run(on_fit)
    results = page.Results(
        rows, skew.run(benchmarks), run.neighbors(), rehearsal, _cost(begun, len(times) - left)
    )
    claims = page.claims(results)
    paths = page.write(results, out)
    for claim in claims:
        mark = "[green]holds[/green]" if claim.holds else "[red]does not hold[/red]"
        to.show(f"{claim.where}: {claim.what}: {claim.measured}: {mark}", soft_wrap=False)
    if rehearsal:
        to.show("[bold]a rehearsal on simulated data: this says nothing about the paper[/bold]")
    elif stands_in:
        to.show(f"[bold]{page.STANDS_IN}[/bold]")
    to.show_paths(paths)
    to.result(
        {
            "claims": [asdict(claim) for claim in claims],
            "rows": list(rows),
            "rehearsal": bool(rehearsal),
            "stands_in": stands_in,
            "files": [str(path) for path in paths],
        }
    )


def _benchmarks(
    data: Path | None, simulate: "Sequence[str]", scale: float, held_out: int | None
) -> "tuple[list[Benchmark], dict[str, Titles], str]":
    from apportion.studies import everything
    from apportion.studies.neighbors import titles_of

    if (data is None) == (not simulate):
        raise ParameterError("give --data DIR for the archives, or --simulate NAME for a rehearsal")
    if data is None:
        for name in simulate:
            if name not in everything.DATA:
                raise ParameterError(f"--simulate takes {', '.join(everything.DATA)}, got {name!r}")
        if not 0 < scale <= 1:
            raise ParameterError(f"--scale must be above 0 and at most 1, got {scale:g}")
        made = [everything.simulated(name, scale, held_out) for name in simulate]
        whole = "of their full size" if scale == 1 else f"{scale:g} of their users, items and rows"
        return made, {}, f"shapes of {', '.join(simulate)}, {whole}"
    archives = everything.find_archives(data)
    if not archives:
        names = ", ".join(everything.ARCHIVES.values())
        raise DataError(
            f"there is none of {names} in {data}, nor {everything.STAND_IN}.zip; --simulate NAME rehearses "
            "without them"
        )
    read: list[Benchmark] = []
    titles: dict[str, Titles] = {}
    for name, path in archives.items():
        for benchmark in everything.of_archive(name, path, held_out):
            read.append(benchmark)
            titles[benchmark.name] = titles_of(name, path)
    return read, titles, ""


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


def _cost(begun: float, done: int) -> str:
    """How long it took, and the memory."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        2**30 if sys.platform == "darwin" else 2**20
    )
    before = f" ({done} models were there already)" if done else ""
    return (
        f"It took {_duration(time.monotonic() - begun)}{before}; at most {peak:.1f} GB of memory."
    )
