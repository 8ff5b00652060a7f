"""What is public: the names, their parameters and defaults, as tests/public.txt has them.

When this fails, something that others rely on has changed. If that is meant: follow the rule of deprecation
in CONTRIBUTING.md, say it in CHANGELOG.md, and let `make public` write the list anew.
"""

import dataclasses
import hashlib
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import apportion as ap

ROOT = Path(__file__).resolve().parents[1]
LIST, CHANGES = Path(__file__).parent / "public.txt", ROOT / "CHANGELOG.md"
MODULES = ("apportion", "apportion.datasets", "apportion.metrics", "apportion.theory")
# In the changelog: whoever changes the list changes this line, and sees what stands below it.
NOTED = re.compile(r"^Public names: `tests/public\.txt`, SHA-256 `([0-9a-f]+)`\.$", re.MULTILINE)


def signature(what: Any) -> str:
    """Parameters with their defaults; types are mypy's to check."""
    try:
        found = inspect.signature(what)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [
        each.replace(annotation=inspect.Parameter.empty)
        for name, each in found.parameters.items()
        if name not in ("self", "cls")
    ]
    plain = inspect.Signature(parameters)
    return re.sub(r" at 0x[0-9a-f]+", "", str(plain)).replace(" = ", "=")


def members(kind: type) -> Iterator[str]:
    """Public methods, properties and fields of a class, those of our base classes, too."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] == "apportion":
            found |= vars(base)
            found |= dict.fromkeys(inspect.get_annotations(base))
    for name in sorted(name for name in found if not name.startswith("_")):
        value = inspect.getattr_static(kind, name, None)
        if isinstance(value, (staticmethod, classmethod)) or inspect.isfunction(value):
            yield f"  {name}{signature(getattr(kind, name))}"
        else:
            yield f"  {name}"


def listing() -> str:
    lines = []
    for name in MODULES:
        module = importlib.import_module(name)
        lines.append(f"{name}:")
        for public in sorted(module.__all__):
            value = getattr(module, public)
            if isinstance(value, ModuleType):
                inside = getattr(value, "__all__", ()) if f"{name}.{public}" not in MODULES else ()
                lines.append(f"{public}, a module")
                lines += [f"  {each}{signature(getattr(value, each))}" for each in inside]
            elif isinstance(value, type):
                errors = issubclass(value, Exception)
                plain = errors or (issubclass(value, Enum) and not dataclasses.is_dataclass(value))
                bases = ", ".join(each.__name__ for each in value.__bases__) if errors else ""
                lines.append(
                    f"class {public}({bases})" if plain else f"class {public}{signature(value)}"
                )
                lines += members(value)
            elif callable(value):
                lines.append(f"{public}{signature(value)}")
            else:
                lines.append(f"{public}, a {type(value).__name__}")
        lines.append("")
    return "\n".join(lines)


def digest() -> str:
    return hashlib.sha256(listing().encode()).hexdigest()[:16]


def test_the_public_names_are_those_of_the_list() -> None:
    found, listed = listing().splitlines(), LIST.read_text("utf-8").splitlines()
    changed = [f"- {line}" for line in listed if line not in found]
    changed += [f"+ {line}" for line in found if line not in listed]
    assert found == listed, "\n".join([__doc__ or "", *changed])


def test_the_changelog_knows_of_the_list() -> None:
    [noted] = NOTED.findall(CHANGES.read_text("utf-8"))
    assert noted == digest(), __doc__


def test_every_public_name_is_documented() -> None:
    for name in MODULES:
        module = importlib.import_module(name)
        for public in module.__all__:
            if public not in ("__version__", "DATA_SETS"):
                assert inspect.getdoc(getattr(module, public)), f"{name}.{public}"


OTHER_WORDS = re.compile(
    r"\b(catalogu|neighbour|normalis|centring|colour|behaviour|favour|regularis|optimis|initialis|factoris)\w*",
    re.IGNORECASE,
)
# Words that are the same everywhere.
SAME = re.compile(r"optimis(m|t)\w*", re.IGNORECASE)


def test_one_spelling() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    for page in pages:
        found = [m[0] for m in OTHER_WORDS.finditer(page.read_text("utf-8"))]
        wrong = [word for word in found if not SAME.fullmatch(word)]
        assert not wrong, f"{page.relative_to(ROOT)}: {wrong}"


USERS_CODE = """
import math

import apportion as ap
from apportion.datasets import find_data_set
from apportion.metrics import RatingMetrics, rating_metrics
from apportion.theory import rdp_budget

data = ap.simulate_interactions(users=100, items=10, rows=900, rating_range=(1.0, 5.0))
train, test = data.split((0.8, 0.2), seed=0)
model: ap.MatrixFactorization = ap.MatrixFactorization(factors=2, epsilon=1.0, delta=1e-5).fit(train)
items, scores = model.recommend({3: 5.0, 7: 1.0}, k=5)
report: ap.PrivacyReport = model.privacy
if report.private and not math.isinf(report.epsilon):
    print(report.verdict, rdp_budget(report.mu), report.trail)
found: RatingMetrics = rating_metrics(model, train, test, train.graph.task_sizes())
model.save("model", titles={3: "three"})
loaded: ap.Recommender = ap.load("model")
budget = ap.Budget.create("budget.db", ap.PrivacyTarget(epsilon=2.0, delta=1e-5))
left: float = budget.left
ridge = ap.MultiTaskRidge(epsilon=1.0, delta=1e-5, allocation=ap.AdaptiveWeights(0.25))
name: str = find_data_set("ml-1m").name
"""


def test_a_users_code_is_typed(tmp_path: Path) -> None:
    """Strictly, against the package as it is installed: py.typed says that its types count."""
    assert (Path(ap.__file__).parent / "py.typed").exists()
    (tmp_path / "code.py").write_text(USERS_CODE)
    (tmp_path / "wrong.py").write_text(USERS_CODE + "\nleft = model.recommend\nap.Budgets\n")
    options = ["--strict", "--config-file=", f"--cache-dir={ROOT / '.mypy_cache' / 'user'}"]
    command = [sys.executable, "-m", "mypy", *options]
    right, wrong = (
        subprocess.run([*command, file], cwd=tmp_path, capture_output=True, text=True)
        for file in ("code.py", "wrong.py")
    )
    assert right.returncode == 0, right.stdout
    assert "Budgets" in wrong.stdout
    assert "2 errors" in wrong.stdout


def write() -> None:
    """Write the list anew, and its digest to the changelog."""
    LIST.write_text(listing(), "utf-8")
    line = f"Public names: `tests/public.txt`, SHA-256 `{digest()}`."
    CHANGES.write_text(NOTED.sub(line, CHANGES.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    write()
