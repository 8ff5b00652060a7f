"""Draw the pictures of the README and of docs/. Give jester-1.npz to draw those of the Jester study too."""

import sys
from pathlib import Path

from apportion.studies import demo, jester, synthetic
from apportion.studies.output import write_figure

IMAGES = Path(__file__).parent / "images"

if __name__ == "__main__":
    write_figure(IMAGES / "demo.svg", demo.figure(demo.run()))
    for solver, name in (("ridge", "synthetic"), ("descent", "synthetic-descent")):
        rows = synthetic.Synthetic(solver=solver).run()  # type: ignore[arg-type]
        write_figure(IMAGES / f"{name}.svg", synthetic.error_figure(rows))
    if len(sys.argv) > 1:
        rows = jester.Jester(Path(sys.argv[1])).run()
        write_figure(IMAGES / "jester.svg", jester.figure(rows))
