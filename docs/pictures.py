"""Draw the pictures of the README and of docs/.

Give jester-1.npz or ml-1m.zip, or both, to draw those of the studies on real ratings too (20 minutes).
"""

import sys
from pathlib import Path

from matplotlib.figure import Figure

from apportion.studies import demo, exponent, jester, slices, synthetic, tradeoff
from apportion.studies.benchmark import Row, read_benchmarks
from apportion.studies.comparison import of_protocols
from apportion.studies.output import write_figure

IMAGES = Path(__file__).parent / "images"


def save(name: str, figure: Figure) -> None:
    """Write docs/images/NAME.svg."""
    write_figure(IMAGES / f"{name}.svg", figure)


def save_comparisons(rows: dict[str, list[Row]]) -> None:
    """The figures of the studies of recommenders, one for each protocol, from their rows."""
    for protocol, here in of_protocols(rows["tradeoff"]).items():
        save(f"tradeoff-{protocol}", tradeoff.draw(here))
    for protocol, here in of_protocols(rows["exponent"]).items():
        save(f"exponent-{protocol}", exponent.draw(here))
    [ratings] = [here for name, here in of_protocols(rows["slices"]).items() if name == "rating"]
    save("slices-rating", slices.figure(ratings))


if __name__ == "__main__":
    save("demo", demo.figure(demo.run()))
    for solver, name in (("ridge", "synthetic"), ("descent", "synthetic-descent")):
        of_solver = synthetic.Synthetic(solver=solver).run()  # type: ignore[arg-type]
        save(name, synthetic.error_figure(of_solver))
    for path in map(Path, sys.argv[1:]):
        if path.suffix == ".npz":
            save("jester", jester.figure(jester.Jester(path).run()))
        else:
            ml_1m = read_benchmarks("ml-1m", path)
            save_comparisons(
                {
                    "tradeoff": tradeoff.Tradeoff(ml_1m).run(),
                    "exponent": exponent.Exponent(ml_1m).run(),
                    "slices": slices.Slices(ml_1m).run(),
                }
            )
