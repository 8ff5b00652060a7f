"""Draw the pictures of the README and of docs/."""

from pathlib import Path

from apportion.studies import demo, synthetic
from apportion.studies.output import write_figure

IMAGES = Path(__file__).parent / "images"

if __name__ == "__main__":
    write_figure(IMAGES / "demo.svg", demo.figure(demo.run()))
    write_figure(IMAGES / "synthetic.svg", synthetic.error_figure(synthetic.Synthetic().run()))
