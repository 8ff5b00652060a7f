"""Many canaries in one training: who of them was in?"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from apportion.audit.games import repeats
from apportion.audit.observer import Transcript, observed
from apportion.audit.trainings import Crowd

Array = NDArray[np.float64]


def right_guesses(
    crowd: Crowd,
    canaries: int,
    guesses: int,
    rounds: int,
    seed: int,
    on_run: Callable[[], object],
) -> tuple[list[int], float]:
    """Train with each canary in or out by a fair coin; how many of the guesses are right, [rounds].

    Besides: how likely the noise of the tasks, if independent, is as alike as it was (``games.repeats``).

    Canary i is alone in task i, so what is released there is noise, or noise and what the canary gives.
    The score is the logarithm of the likelihood ratio; the guesses are about those canaries whose
    scores are farthest from zero. Rounds have coins and noise of their own.
    """
    shift = canary_shifts(crowd, canaries, seed)
    rng = np.random.default_rng(seed)
    right, chances = [], []
    for _ in range(rounds):
        coins = rng.random(canaries) < 0.5
        with observed() as seen:
            model = crowd.fit(crowd.data(coins), None)
        score = np.zeros(canaries)
        for record in model.privacy.ledger:
            if record.name in shift:
                moved = shift[record.name] / record.noise_scale
                value = _rows(seen, record.name, canaries) / record.noise_scale
                score += np.einsum("ij,ij->i", moved, value - moved / 2)
                chances.append(repeats(value, coins))
        sure = np.argsort(-np.abs(score), kind="stable")[:guesses]
        right.append(int(np.count_nonzero((score[sure] > 0) == coins[sure])))
        on_run()
    return right, min(1.0, len(chances) * min(chances, default=1.0))


def canary_shifts(crowd: Crowd, canaries: int, seed: int) -> dict[str, Array]:
    """What each canary gives to its task, by release: all less none, with the same noise."""
    nobody, everybody = np.zeros(canaries, dtype=bool), np.ones(canaries, dtype=bool)
    with observed() as without:
        model = crowd.fit(crowd.data(nobody), seed)
    with observed(shown=without) as with_all:
        crowd.fit(crowd.data(everybody), seed)
    return {
        record.name: _rows(with_all, record.name, canaries) - _rows(without, record.name, canaries)
        for record in model.privacy.ledger
        if record.shape[0] == canaries and record.steps == 1
    }


def _rows(seen: Transcript, name: str, canaries: int) -> Array:
    return seen.rows(name).reshape(canaries, -1)
