"""What a reader of a guarantee should be told, item by item.

docs/explanation/standards.md says who asks for which.

Guarantee
    Follows from the report alone, which is public.
"""

import math
from collections.abc import Mapping
from typing import Any

from apportion.accounts.attacker import percent
from apportion.accounts.report import PrivacyReport

_SELECTED = "Selections by a noisy threshold spend a part of delta."
_SAMPLED = "Users are drawn at random for each step (Poisson), which the accounting counts."


def disclosure(
    report: PrivacyReport, version: str, utility: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """The items by name, in sentences.

    Args:
        report: the guarantee.
        version: of apportion, that trained.
        utility: what an evaluation found, by name of the metric, if it may be published.
    """
    count = len(list(report.ledger))
    return {
        "guarantee": _guarantee(report),
        "unit of privacy": f"{report.unit[0].upper()}{report.unit[1:]}.",
        "neighboring data": f"{report.neighboring[0].upper()}{report.neighboring[1:]}.",
        "trust model": (
            "Central: whoever runs the training sees the data, and is trusted with it. Whoever sees only "
            "what is released need not be trusted: the guarantee holds against all of them together, "
            "whatever else they know."
        ),
        "query model": (
            f"Not interactive: {count} releases of one training, each of whose bounds is fixed before it. "
            "Later ones may depend on the values of earlier ones, which the composition covers."
        ),
        "releases": _counted(report),
        "mechanisms": _mechanisms(report),
        "accounting": (
            "Gaussian differential privacy: the releases' mu^2 add up, exactly, and epsilon follows from mu "
            "and delta by the exact formula. Sampled steps are accounted by privacy loss distributions."
        ),
        "best attacker": (
            f"Right in at most {percent(report.attack)} of cases about whether one user was in the data "
            "(guessing: 50 %), knowing everything else."
        ),
        "tuning and exploration": _tuning(report),
        "post-processing": (
            "All that is published is computed from the releases: models, tables, recommendations. It costs "
            "nothing more."
        ),
        "not protected": _unprotected(report),
        "arithmetic": (
            "What every user adds is rounded to whole units of a grid, and the rounding counts in the "
            "sensitivity. Sums are exact whole numbers, noise is discrete Gaussian and drawn exactly: no "
            "floating-point number stands between data and noise."
        ),
        "side channels": (
            "Times, memory and the size of files are not covered by the guarantee; errors and progress show "
            "nothing of the data."
        ),
        "software": (
            f"apportion {version}; open source, with proofs (docs/explanation/proofs.md) "
            "and attacks (apportion audit)."
        ),
        "utility": _utility(utility),
    }


def _guarantee(report: PrivacyReport) -> str:
    if not report.private:
        return f"{report.verdict}."
    plain = math.isfinite(report.beta)
    relation = (
        f" It is {report.mu:.6g}-Gaussian DP, of which this (epsilon, delta) is one point: "
        "delta(epsilon) = Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu)."
    )
    return (
        f"Approximate DP with epsilon = {report.epsilon:.6g} at delta = {report.delta:g}."
        + relation * plain
    )


def _counted(report: PrivacyReport) -> str:
    if report.budget:
        return "A budget counts all trainings on these people together, and paid for this one."
    return (
        "One training, counted alone. Other trainings on the same people add to it (their mu^2 add up), and "
        "nothing here says how many there are."
    )


def _mechanisms(report: PrivacyReport) -> str:
    names = ", ".join(record.name for record in report.ledger)
    said = [f"Discrete Gaussian noise on sums over users: {names or 'none'}."]
    said += [_SELECTED] * any(record.delta > 0 for record in report.ledger)
    said += [_SAMPLED] * any(record.sampling_rate < 1 for record in report.ledger)
    return " ".join(said)


def _tuning(report: PrivacyReport) -> str:
    chosen = ", ".join(f"{name} = {value}" for name, value in report.chosen.items())
    paid = f" Chosen from released values, and paid for: {chosen}." if chosen else ""
    return (
        "The guarantee covers one training with given settings. It holds if bounds and settings were "
        "chosen without looking at these data; looking at them before, or choosing among several "
        f"trainings by exact scores, is not covered.{paid}"
    )


def _unprotected(report: PrivacyReport) -> str:
    said = [
        "What is true of people in general, and what is taken as public: "
        + "; ".join(f"{name} = {value}" for name, value in report.public_inputs.items())
        + "."
    ]
    said += [f"{warning[0].upper()}{warning[1:]}." for warning in report.warnings]
    return " ".join(said)


def _utility(utility: Mapping[str, Any] | None) -> str:
    if not utility:
        return "Not stated."
    found = "; ".join(f"{name} = {_number(value)}" for name, value in utility.items())
    return f"On held-out data, exactly and so outside the guarantee: {found}."


def _number(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_number, value))}]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
