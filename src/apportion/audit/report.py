"""What an audit found: lower bounds against claims, as values, JSON, text and a picture."""

import json
from dataclasses import asdict, dataclass
from typing import Any

EVERYTHING = "everything"


@dataclass(frozen=True)
class Game:
    """What telling a canary from its absence says about one release, or about all together.

    Attributes
        claimed_mu, claimed_epsilon: what the ledger says.
        mu_estimate: the most likely value; not a bound.
        mu_lower, epsilon_lower: what is ruled out from below, epsilon by the formula for Gaussian noise.
        any_epsilon_lower: likewise, of a mechanism of any kind. Weaker.
    """

    training: str
    canary: str
    release: str
    claimed_mu: float
    claimed_epsilon: float
    mu_estimate: float
    mu_lower: float
    epsilon_lower: float
    any_epsilon_lower: float

    @property
    def passed(self) -> bool:
        """Whether the claim is not refuted."""
        fine = self.any_epsilon_lower <= self.claimed_epsilon
        return fine and self.mu_lower <= self.claimed_mu


@dataclass(frozen=True)
class OneRun:
    """What guessing at many canaries of one training, a few times over, says about all of it.

    Attributes
        canaries, guesses: how many there are, and about how many of them a guess is made.
        right: how many guesses were right, in each round.
    """

    training: str
    canaries: int
    guesses: int
    right: tuple[int, ...]
    claimed_mu: float
    claimed_epsilon: float
    mu_lower: float
    epsilon_lower: float

    @property
    def passed(self) -> bool:
        """Whether the claim is not refuted."""
        return self.mu_lower <= self.claimed_mu


@dataclass(frozen=True)
class Finding:
    """Something that must not be, whatever the bounds say."""

    training: str
    what: str


@dataclass(frozen=True)
class AuditReport:
    """Everything that was tried.

    Attributes
        epsilon, delta: what the trainings claim.
        alpha: the probability that a sound library does not pass.
        seed, runs: of the attack, and how many trainings with each canary.
    """

    epsilon: float
    delta: float
    alpha: float
    seed: int
    runs: int
    games: tuple[Game, ...]
    one_runs: tuple[OneRun, ...]
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing was refuted or found."""
        refuted = any(not game.passed for game in self.games)
        return not (self.findings or refuted or any(not each.passed for each in self.one_runs))

    def best(self) -> list[Game]:
        """For every training and release the canary that got farthest, failures first."""
        found: dict[tuple[str, str], Game] = {}
        for game in sorted(self.games, key=lambda game: (game.passed, -game.mu_lower)):
            found.setdefault((game.training, game.release), game)
        order = dict.fromkeys((game.training, game.release) for game in self.games)
        return [found[key] for key in order]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        values = asdict(self)
        for name in ("games", "one_runs"):
            for entry, each in zip(values[name], getattr(self, name), strict=True):
                entry["passed"] = each.passed
        return {"passed": self.passed, **values}

    def to_json(self) -> str:
        """The same as JSON text."""
        return json.dumps(self.to_dict(), indent=1)
