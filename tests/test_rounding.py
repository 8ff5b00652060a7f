"""How one user's part rounds must not depend on how many users there are.

Products of matrices (BLAS, LAPACK, ``einsum``) and pairwise sums (``np.sum``, ``mean``) choose the order
of their sums by the shape, so one user more may move everybody's last bits: more than a release of bounded
sensitivity can hide. On the way from users' rows to a release, sums are of whole numbers of grid units
(exact in any order), of one user's own rows in their order (``bincount``), or one column after the other
(``row_sums``).

Every library call that sums is listed here with the reason why it is harmless. A new one fails this test.
"""

import ast
from pathlib import Path

import pytest

import apportion

ROOT = Path(apportion.__file__).parent
# What only uses finished trainings: nothing of it comes before a release.
OUTSIDE = {"audit", "cli", "studies"}
MODULES = {
    str(path.relative_to(ROOT)): path
    for path in sorted(ROOT.rglob("*.py"))
    if path.relative_to(ROOT).parts[0] not in OUTSIDE
}

# Methods and functions of libraries whose rounding may depend on a shape.
SUMS = {
    "average", "convolve", "correlate", "corrcoef", "cov", "cumsum", "dot", "einsum", "inner", "matmul",
    "mean", "median", "nanmean", "nansum", "norm", "nanstd", "nanvar", "polyfit", "prod", "quantile",
    "reduceat", "std", "sum", "tensordot", "trace", "trapezoid", "var", "vdot", "vecdot",
}  # fmt: skip
# Parts of them that hold nothing else.
LIBRARIES = {"linalg", "blas", "lapack", "fft"}

RELEASED = "released values or public settings only"
WHOLE = "whole numbers, or whole numbers of grid units below 2^53: exact in any order"
OWN = "each user's own rows, segment by segment: a segment's order of sums follows from its length"
AFTER = "on the user's side or for whoever has the data, after the release; never released"
PUBLIC = "public inputs only: the caller declares them"
BASELINE = "only for epsilon=inf: NOT PRIVATE"

SPENT = "of what was spent, which is public"

# Modules as a whole ...
HARMLESS: dict[str, str] = {
    "accounts/left.py": SPENT,
    "allocation/optimal.py": PUBLIC,
    "allocation/theory/bounds.py": PUBLIC,
    "allocation/theory/concentration.py": PUBLIC,
    "data/simulate.py": "makes data up",
    "data/spark/simulate.py": "makes data up",
    "data/summary.py": AFTER,
    "engine/machine.py": "loads a library, to name it",
    "privacy/gaussian.py": "of privacy parameters",
    "recommend/metrics/ndcg.py": AFTER,
    "recommend/metrics/overlap.py": AFTER,
    "recommend/metrics/baselines.py": AFTER,
    "recommend/metrics/bootstrap.py": AFTER,
    "recommend/metrics/novelty.py": AFTER,
    "recommend/metrics/precision.py": AFTER,
    "recommend/metrics/ranking.py": AFTER,
    "recommend/metrics/ratings.py": AFTER,
    "recommend/metrics/recall.py": AFTER,
    "recommend/exact_events.py": BASELINE,
    "recommend/exact_choice.py": BASELINE,
    "recommend/judging.py": AFTER,
    "recommend/spark_judging.py": AFTER,
    "recommend/planner.py": RELEASED,
    "recommend/capacity.py": RELEASED,
    "tasks/exact.py": BASELINE,
    "tasks/forecast.py": PUBLIC,
    "tasks/models.py": AFTER,
    "tasks/penalty.py": RELEASED,
    "tasks/predictions.py": AFTER,
    "tasks/schedules.py": RELEASED,
    "tasks/scaling.py::Scaling.back": RELEASED,
    "tasks/shrunk.py": RELEASED,
    "tasks/statistics.py": RELEASED,
    "tasks/trained.py": RELEASED,
    "twins/topk.py": AFTER,
    # ... and functions.
    "allocation/denoising.py": RELEASED,
    "allocation/weights.py::AdaptiveWeights.typical_weights": RELEASED,
    "data/splits.py::_parts": "of the shares of a split, which are settings",
    "data/interactions.py::Interactions.take": WHOLE,
    "data/orientation.py::sort_rows": OWN,
    "data/rows.py::Rows.graph": WHOLE,
    "data/tasks.py::TaskData.rows": WHOLE,
    "engine/held.py::HeldRows.choose": WHOLE,
    "engine/session.py::LocalSession._bounded_labels": WHOLE,  # int16, of norm below 2^15
    "engine/session.py::LocalSession._mass": WHOLE,
    "engine/gains.py::_of_block": WHOLE,  # numbers of rows
    "engine/session.py::LocalSession._fold_in_gains": WHOLE,
    "engine/session.py::LocalSession._means": WHOLE,
    "engine/session.py::LocalSession._rating_moments": WHOLE,
    "engine/session.py::LocalSession.exact_sums": BASELINE,
    "engine/session.py::LocalSession.sums": WHOLE,
    "privacy/discrete.py::Scales.of": WHOLE,
    "explore/compact.py::_loss": RELEASED,
    "folders/tensors.py::parse_texts": WHOLE,
    "recommend/exact.py::exact_step.step": BASELINE,
    "recommend/diversity.py::_order": RELEASED,
    "recommend/fold_in.py::FoldIn.solver": f"items: {RELEASED}",
    "recommend/histories.py::Rows.of_users": WHOLE,
    "recommend/intercepts.py::estimate": RELEASED,
    "recommend/masses.py": RELEASED,
    "recommend/recommender.py::Recommender.similar_blocks": RELEASED,
    "recommend/scoring.py::Scorer.many": WHOLE,
    "recommend/serving.py::penalties": RELEASED,
    "recommend/sizes.py": RELEASED,
    "recommend/sweep.py::private_step.step": f"items: {RELEASED}",
    "tasks/noisy_descent.py::_within": RELEASED,
    "tasks/descent_errors.py": RELEASED,
    "tasks/shared.py::_sum": RELEASED,
    "tasks/shared.py::positive_part": RELEASED,
    "tasks/shared.py::shrink": RELEASED,
    "tasks/shared.py::posterior_root": RELEASED,
    "twins/gradients.py::user_gradients": OWN,
    "twins/solves.py::solve_filtered": f"noisy systems, one by one: {RELEASED}",
    "twins/sorting.py::starts": WHOLE,
    "twins/sums.py::float_sums": BASELINE,
    "twins/sums.py::gram_sums": WHOLE,  # as float64: 2^14 squares of numbers below 2^14 in each
    "twins/sums.py::label_sums": WHOLE,
    "twins/users.py::solve_users": OWN,
    "engine/users.py::turned_items": RELEASED,
}  # fmt: skip


def sums_in(source: str) -> dict[str, set[str]]:
    """By function, what it calls that sums in an order of a library's choice."""
    found: dict[str, set[str]] = {}

    def visit(node: ast.AST, inside: str) -> None:
        for child in ast.iter_child_nodes(node):
            here = inside
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                here = f"{inside}.{child.name}".lstrip(".")
            if call := library_sum(child):
                found.setdefault(here, set()).add(call)
            visit(child, here)

    visit(ast.parse(source), "")
    return found


def library_sum(node: ast.AST) -> str | None:
    if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
        return "@"
    if isinstance(node, ast.Attribute) and node.attr in LIBRARIES:
        return node.attr
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        called = node.func
        ufunc = called.attr in {"reduce", "accumulate"} and "functools" not in ast.unparse(called)
        return called.attr if called.attr in SUMS or ufunc else None
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [alias.name for alias in node.names]
        module = getattr(node, "module", None) or ""
        parts = {part for name in [*names, module] for part in name.split(".")}
        direct = SUMS & set(names) if module.split(".")[0] in {"numpy", "scipy"} else set()
        return next(iter(sorted((parts & LIBRARIES) | direct)), None)
    return None


@pytest.mark.parametrize("module", MODULES)
def test_no_library_decides_how_a_user_rounds(module: str) -> None:
    if module in HARMLESS:
        return
    for function, calls in sums_in(MODULES[module].read_text()).items():
        assert f"{module}::{function}" in HARMLESS, (
            f"{sorted(calls)} may round one user's part by the number of users: sum whole numbers of grid "
            "units, or by row_sums or bincount; or name here why it is harmless"
        )


def test_nothing_is_listed_that_is_gone() -> None:
    found = {module: sums_in(path.read_text()) for module, path in MODULES.items()}
    for place in HARMLESS:
        module, _, function = place.partition("::")
        assert function in found[module] if function else found[module], place


@pytest.mark.parametrize(
    "line",
    [
        "a @ b", "a @= b", "np.dot(a, b)", "a.dot(b)", "np.einsum('ij,ij->i', a, a)", "a.sum(axis=1)",
        "np.add.reduce(a)", "np.linalg.norm(a)", "a.mean()", "from scipy.linalg import blas",
        "from numpy import einsum", "import numpy.linalg", "np.add.reduceat(a, b)",
    ],
)  # fmt: skip
def test_such_calls_are_noticed(line: str) -> None:
    assert sums_in(f"class A:\n    def f(self):\n        {line}")["A.f"]
    assert not sums_in("def f(a, b):\n    return np.bincount(a, b) + max(a * b)")
