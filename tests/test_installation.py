"""The package works where it may not be written, for a user who has no home to write to."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installed import read_only, setpriv

NOBODY = ("--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all")
USES = """
import os, sys
from pathlib import Path
import apportion as ap

package = Path(ap.__file__).parent
assert str(package) == sys.argv[1], package
for folder in (package, package.parent, Path.cwd(), *map(Path, sys.argv[2:])):
    try:
        (folder / "written").write_text("")
    except OSError:
        continue
    sys.exit(f"{folder} can be written")
data = ap.simulate_interactions(users=60, items=12, rows=600, seed=0)
model = ap.MatrixFactorization(factors=2, sweeps=1, epsilon=1.0).fit(data)
assert 0.99 < model.privacy.epsilon <= 1.0
items, scores = model.recommend({3: 5.0, 4: 1.0}, k=3)
print(len(items), "recommended")
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """Where every user gets to; ``tmp_path`` is for its owner alone."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        place = Path(name)
        place.chmod(0o755)
        (place / "home").mkdir()
        (place / "home").chmod(0o555)
        yield place


@pytest.mark.parametrize("home", ["there", "missing", "unset"])
def test_a_training_writes_nothing_but_what_it_is_told(place: Path, home: str) -> None:
    command = [*setpriv(*NOBODY), sys.executable]
    if os.geteuid() == 0 and len(command) == 1:
        pytest.skip("no setpriv here: root may write everywhere")
    homes = {"there": place / "home", "missing": place / "missing"}
    given = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    given |= {"HOME": str(homes[home])} if home in homes else {}
    ready = [*command, "-c", "import numpy, polars, scipy"]
    if subprocess.run(ready, env=given, cwd=place, capture_output=True, check=False).returncode:
        pytest.skip("other users may not read this Python")
    with read_only(place / "site") as site:
        given["PYTHONPATH"] = str(site)
        done = subprocess.run(
            [*command, "-W", "error", "-c", USES, str(site / "apportion"), *map(str, homes.values())],
            env=given, cwd=place / "home", capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "3 recommended\n"
    assert done.stderr == ""
    assert {each.name for each in place.iterdir()} == {"home", "site"}
