"""All attacks on all trainings, with one probability of a false alarm for the whole.

Every training is shown the values that a first one released (``observer``). So each release by itself is
a game between two Gaussians, at the cost that the ledger has recorded for it; all of them together are one,
at the ledger's total; what the model holds must be the same to the bit in all trainings; no other user may
move a release by more than is recorded either; and the noise of any two values must be independent.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.accounts import PrivacyReport
from apportion.audit.evidence import mu_from_guesses
from apportion.audit.games import dependence, distinguish
from apportion.audit.observer import Transcript, observed
from apportion.audit.one_run import right_guesses
from apportion.audit.others import moved_too_far, without_each
from apportion.audit.report import EVERYTHING, AuditReport, Finding, Game, OneRun
from apportion.audit.trainings import Crowd, Training, crowds, trainings
from apportion.checks import number, whole
from apportion.errors import ParameterError
from apportion.privacy import Ledger, PrivacyTarget, epsilon_from_mu

Array = NDArray[np.float64]

NAMES = ("ridge", "ridge-per-task", "descent", "ratings", "events")
_LEAST_RUNS = 40


@dataclass(frozen=True)
class Effort:
    """How much is tried.

    Attributes
        runs: trainings with, and as many without, each canary.
        crowd: canaries of the one-run attack; a quarter of them is guessed.
        rounds: how often that is repeated; 1 is one run, 0 leaves it out.
    """

    runs: int
    crowd: int
    rounds: int

    def __post_init__(self) -> None:
        whole("runs", self.runs, at_least=_LEAST_RUNS)
        whole("crowd", self.crowd, at_least=8)
        whole("rounds", self.rounds, at_least=0)


QUICK = Effort(runs=200, crowd=400, rounds=10)
USUAL = Effort(runs=1000, crowd=1000, rounds=40)
LONG = Effort(runs=5000, crowd=4000, rounds=100)


def planned_runs(names: Collection[str], effort: Effort) -> int:
    """How many trainings there will be, for a progress bar."""
    target = PrivacyTarget(10.0, 1e-5)  # any will do
    kinds, many = _attacked(names, target, effort, 0)
    games = sum(effort.runs * (1 + len(training.canaries)) for training in kinds)
    return games + effort.rounds * len(many)


def run(
    names: Collection[str] = NAMES,
    epsilon: float = 10.0,
    delta: float = 1e-5,
    effort: Effort = USUAL,
    alpha: float = 1e-6,
    seed: int = 0,
    canaries: Collection[str] | None = None,
    on_run: Callable[[], object] = lambda: None,
) -> AuditReport:
    """Attack the trainings of these names; a sound library fails with probability at most ``alpha``.

    Args:
        names: of the trainings (``NAMES``).
        epsilon, delta: what the trainings claim. A larger epsilon shows a fault sooner.
        effort: how much is tried.
        alpha: the probability of a false alarm, over everything that is tried.
        seed: of the attack's own choices. The noise of the trainings is secret, as always.
        canaries: only those that do these things; by default all.
        on_run: called after each training.
    """
    target = PrivacyTarget(epsilon, delta)
    alpha = number("alpha", alpha, above=0, below=0.5)
    kinds, many = _attacked(names, target, effort, whole("seed", seed, at_least=0))
    share = alpha / (len(kinds) + 2 * len(many))
    games: list[Game] = []
    findings: list[Finding] = []
    for training in kinds:
        if canaries is not None:
            chosen = {name: training.canaries[name] for name in canaries}
            training = replace(training, canaries=chosen)
        played, found = _attack(training, target, effort.runs, share, seed, on_run)
        games += played
        findings += found
    one_runs: list[OneRun] = []
    for crowd in many:
        played_once, found = _attack_crowd(crowd, target, effort, share, seed, on_run)
        one_runs.append(played_once)
        findings += found
    return AuditReport(
        epsilon=target.epsilon,
        delta=target.delta,
        alpha=alpha,
        seed=seed,
        runs=effort.runs,
        games=tuple(games),
        one_runs=tuple(one_runs),
        findings=tuple(findings),
    )


def _attacked(
    names: Collection[str], target: PrivacyTarget, effort: Effort, seed: int
) -> tuple[list[Training], list[Crowd]]:
    if math.isinf(target.epsilon):
        raise ParameterError("there is nothing to audit without privacy: epsilon is infinite")
    known = trainings(target.epsilon, target.delta, seed)
    if not names or not set(names) <= set(known):
        raise ParameterError(f"the trainings to audit must be among {', '.join(known)}")
    of_many = crowds(target.epsilon, target.delta, effort.crowd, seed) if effort.rounds else {}
    wanted = dict.fromkeys(names)
    return [known[name] for name in wanted], [of_many[name] for name in wanted if name in of_many]


def _attack(
    training: Training,
    target: PrivacyTarget,
    runs: int,
    alpha: float,
    seed: int,
    on_run: Callable[[], object],
) -> tuple[list[Game], list[Finding]]:
    """Games for every canary and release, and what was found besides."""
    with observed() as reference:
        first = training.fit(training.without, seed)
    contents = _published(first)
    differing = 0

    def observe(data: Any, noise: int | None = None) -> Transcript:
        nonlocal differing
        with observed(shown=reference) as seen:
            model = training.fit(data, noise)
        if noise is None:
            differing += _published(model) != contents
            on_run()
        return seen

    # With the same noise, shown the same values, whatever differs is what the user gives.
    alike = observe(training.without, seed)
    moved = {name: observe(data, seed) for name, data in training.canaries.items()}
    without = [observe(training.without) for _ in range(runs)]
    inside = {
        name: [observe(data) for _ in range(runs)] for name, data in training.canaries.items()
    }

    claims = _claims(first.privacy.ledger, reference)
    statements = len(moved) * (len(claims) + 1) + 1
    level, games = alpha / statements, []
    for canary, transcripts in inside.items():
        out, within, before, after = _values(without, transcripts, [alike], [moved[canary]])
        shifts = {name: after[name][0] - before[name][0] for name in claims}
        claims[EVERYTHING] = _total(first.privacy.ledger)
        for each in (out, within, shifts):
            each[EVERYTHING] = np.concatenate(list(each.values()), axis=-1)
        for release, (mu, lost) in claims.items():
            rest = target.delta - lost
            outcome = distinguish(
                out[release], within[release], shifts[release], level, target.delta, lost
            )
            games.append(
                Game(
                    training=training.name,
                    canary=canary,
                    release=release,
                    claimed_mu=mu,
                    claimed_epsilon=epsilon_from_mu(mu, rest),
                    mu_estimate=outcome.mu_estimate,
                    mu_lower=outcome.mu_lower,
                    epsilon_lower=epsilon_from_mu(outcome.mu_lower, rest),
                    any_epsilon_lower=outcome.epsilon_lower,
                )
            )
        del claims[EVERYTHING]
    findings = _unrecorded(first.privacy.ledger, reference)
    others = [observe(data, seed) for data in without_each(training.without)]
    findings += moved_too_far(first.privacy.ledger, alike, others)
    if differing:
        findings.append(
            f"in {differing} trainings the model differs though all that was released is the same"
        )
    chance = _dependence(without, list(inside.values()))
    if chance < level:
        findings.append(f"the noise of two values is not independent (p = {chance:.1g})")
    return games, [Finding(training.name, what) for what in findings]


def _claims(ledger: Ledger, seen: Transcript) -> dict[str, tuple[float, float]]:
    """mu and delta of everything that was seen, by name, as recorded; zero for what is not recorded."""
    recorded = {record.name: (record.mu, record.delta) for record in ledger}
    return {name: recorded.get(name, (0.0, 0.0)) for name in (*seen.blocks, *seen.selections)}


def _total(ledger: Ledger) -> tuple[float, float]:
    return ledger.mu, math.fsum(record.delta for record in ledger)


def _unrecorded(ledger: Ledger, seen: Transcript) -> list[str]:
    """Releases that are not in the ledger, or of more values than it says."""
    recorded = {record.name: math.prod(record.shape) * record.steps for record in ledger}
    sizes = {name: sum(map(np.size, blocks)) for name, blocks in seen.blocks.items()}
    sizes |= {name: len(counts) for name, (_, counts) in seen.selections.items()}
    return [
        f"{name!r} was released, but the ledger does not have it"
        if name not in recorded
        else f"{name!r} was released with {size} values, and {recorded[name]} are in the ledger"
        for name, size in sizes.items()
        if size > recorded.get(name, 0)
    ]


def _values(*groups: list[Transcript]) -> list[dict[str, Array]]:
    """Of each group of transcripts the values by release, [transcripts, values].

    A selection has a value for every id that was ever chosen, zero where it was not.
    """
    ids: dict[str, list[Any]] = {}
    for transcript in (each for group in groups for each in group):
        for name, (chosen, _) in transcript.selections.items():
            ids[name] = sorted({*ids.get(name, []), *chosen.tolist()})
    found = []
    for group in groups:
        values = {
            name: np.stack([each.rows(name).ravel() for each in group]) for name in group[0].blocks
        }
        for name, known in ids.items():
            counted = [dict(zip(*map(list, each.selections[name]), strict=True)) for each in group]
            values[name] = np.array([[one.get(key, 0.0) for key in known] for one in counted])
        found.append(values)
    return found


def _dependence(without: list[Transcript], inside: list[list[Transcript]]) -> float:
    """Selections are left out: which values there are depends on chance, and so do samples."""
    groups = [
        np.stack(
            [np.concatenate([each.rows(name).ravel() for name in each.blocks]) for each in group]
        )
        for group in (without, *inside)
    ]
    return dependence(groups)


def _published(value: Any) -> Any:
    """Everything that a trained model holds, in a form that can be compared to the bit."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, PrivacyReport):
        # How many items passed a threshold is a released value, of which others are shown.
        records = [replace(each, shape=()) if each.delta else each for each in value.ledger]
        return repr((records, value.public_inputs, value.warnings, value.neighboring))
    if isinstance(value, dict):
        # Nor is it compared where it is declared.
        hidden = {"tasks"} if value.get("selects") is True else set()
        return {name: _published(held) for name, held in value.items() if name not in hidden}
    if isinstance(value, (list, tuple)):
        return [_published(held) for held in value]
    if is_dataclass(value) and not isinstance(value, type):
        return [(each.name, _published(getattr(value, each.name))) for each in fields(value)]
    if hasattr(value, "get_params"):
        given = value.get_params()
        return {name: _published(held) for name, held in vars(value).items() if name not in given}
    return repr(value)


def _attack_crowd(
    crowd: Crowd,
    target: PrivacyTarget,
    effort: Effort,
    alpha: float,
    seed: int,
    on_run: Callable[[], object],
) -> tuple[OneRun, list[Finding]]:
    """``alpha`` for what is guessed, and as much for what is said of the noise."""
    guesses = effort.crowd // 4
    right, chance = right_guesses(crowd, effort.crowd, guesses, effort.rounds, seed, on_run)
    # In every round so many or more are right: that has the chance of one round to the power of their number.
    mu = mu_from_guesses(min(right), guesses, effort.crowd, alpha ** (1 / effort.rounds))
    findings = []
    if chance < alpha:
        what = f"the noise of two tasks is not independent (p = {chance:.1g})"
        findings.append(Finding(crowd.name, what))
    found = OneRun(
        training=crowd.name,
        canaries=effort.crowd,
        guesses=guesses,
        right=tuple(right),
        claimed_mu=target.mu,
        claimed_epsilon=target.epsilon,
        mu_lower=mu,
        epsilon_lower=epsilon_from_mu(mu, target.delta),
    )
    return found, findings
