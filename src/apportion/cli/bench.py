"""``apportion bench``: how fast a private sweep is on this machine."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from apportion.cli.output import Output
from apportion.data.simulate import SHAPES

if TYPE_CHECKING:
    from apportion.studies.speed import Speed


def bench(
    to: Output,
    like: Annotated[
        str, typer.Option(help=f"Shape of the simulated events: {', '.join(SHAPES)}.")
    ] = "ml-20m",
    factors: Annotated[int, typer.Option(min=1, help="Length of the vectors.")] = 64,
    against: Annotated[
        str | None, typer.Option(metavar="implicit", help="A library to compare with.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each is timed.")] = 3,
) -> None:
    """Time private sweeps on this machine, and those of a library without privacy beside them.

    A sweep solves all users and all items once. Ours and the peer's take turns in the same process, with
    the same number of threads; the least time of all rounds counts. Compare ratios: seconds depend on the
    machine and on what else it does.

    [bold]Examples[/bold]

      apportion bench --like ml-1m --factors 32

      apportion bench --like ml-20m --factors 64 --against implicit --json
    """
    with to.status("starting ...") as status:
        from apportion.studies import speed

        found = speed.run(
            like, factors, against, rounds, on_step=lambda what: status.update(f"{what} ...")
        )
    to.result(found.to_dict())
    to.show(_table(found))
    machine = found.machine
    to.show(
        f"{machine.threads} threads; sgemm {machine.sgemm_gflops:.0f} GFLOP/s, "
        f"copies {machine.copy_gb_per_second:.0f} GB/s"
    )


_NAMES = {
    "per_item": "private, a matrix for every item",
    "shared": "private, one matrix for all items",
    "exact": "not private: implicit, exact",
    "cg": "not private: implicit, conjugate gradient",
}


def _table(found: "Speed") -> Table:
    title = (
        f"{found.users:,} users x {found.items:,} items, {found.rows:,} events, "
        f"{found.factors} factors"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("a sweep")
    for name in ("seconds", "x exact", "x CG", "of sgemm", "of copies"):
        table.add_column(name, justify="right")
    for name, seconds in found.seconds.items():
        ratios = [found.ratios.get(f"{name}_vs_{peer}") for peer in ("exact", "cg")]
        shares = [each.get(name) for each in (found.sgemm_share, found.bandwidth_share)]
        table.add_row(
            _NAMES[name],
            f"{seconds:.3f}",
            *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
            *("" if share is None else f"{share:.0%}" for share in shares),
        )
    return table
