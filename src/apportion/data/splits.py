"""Interactions divided for training and tests: by row, by user, by time, by user with a history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from apportion.checks import number, whole
from apportion.data.graph import Graph, mix
from apportion.data.ids import Integers
from apportion.data.orientation import Orientation
from apportion.data.times import Times, last_of_users, read_time
from apportion.errors import DataError, ParameterError

if TYPE_CHECKING:
    from apportion.data.interactions import Interactions


class _Divisible(Protocol):
    """What a division goes by, as ``Interactions`` has it."""

    by_user: Orientation
    time: Times | None

    @property
    def users(self) -> int: ...
    @property
    def user_key(self) -> NDArray[np.uint64]: ...
    @property
    def user_of_row(self) -> Integers: ...
    @property
    def graph(self) -> Graph: ...
    def take(self, rows: NDArray[Any]) -> Interactions: ...


class Splits:
    """Every way of dividing interactions. Parts have the same users and items."""

    def split(
        self: _Divisible, shares: Sequence[float] = (0.8, 0.1, 0.1), seed: int = 0
    ) -> tuple[Interactions, ...]:
        """Split the interactions at random in these shares (training, validation, test).

        An interaction's part depends on the seed, its user and its item alone.
        """
        return _parts(self, shares, self.graph.scores(_key(seed)))

    def split_users(
        self: _Divisible, shares: Sequence[float] = (0.9, 0.1), seed: int = 0
    ) -> tuple[Interactions, ...]:
        """Split the users at random in these shares, each with all of its interactions.

        A user's part depends on the seed and its own id alone.
        """
        lot = mix(self.user_key ^ np.uint64(_key(seed)))
        return _parts(self, shares, lot[self.user_of_row])

    def split_time(self: _Divisible, at: Any) -> tuple[Interactions, Interactions]:
        """Split the interactions in those before a time, a number, date or text, and those from then on."""
        before = _times(self) < read_time("at", at)
        return self.take(before), self.take(~before)

    def leave_out(
        self: _Divisible, k: int = 1, *, last: bool = False, seed: int = 0
    ) -> tuple[Interactions, Interactions]:
        """Take k interactions of every user out, at random or the last ones; one at least stays.

        Of users with k interactions or fewer, all but one are taken out. Who has only one keeps it. What is
        left for training comes first. A user's part depends on the seed and its own rows alone.
        """
        k, lot = whole("k", k, at_least=1), self.graph.scores(_key(seed))
        order = (lot, _times(self)) if last else (lot,)
        out = last_of_users(self.by_user.start, order, k)
        return self.take(~out), self.take(out)

    def hold_out_users(
        self: _Divisible,
        users: int | None = None,
        history: float = 0.8,
        at_least: int = 1,
        seed: int = 0,
    ) -> tuple[Interactions, HeldOut]:
        """Keep some users out of training: their history to recommend from, their labels to find.

        Args:
            users: how many, chosen at random among those with ``at_least`` interactions; None for all.
            history: the share of a held-out user's interactions that is its history, at least one; one
                is left as a label where the user has two or more.
            at_least: the number of interactions a held-out user must have.
            seed: for choosing; a user's lot depends on its own id and interactions.
        """
        key, at_least = _key(seed), whole("at_least", at_least, at_least=1)
        history = number("history", history, above=0, below=1)
        lot = mix(self.user_key ^ np.uint64(key))
        eligible = np.flatnonzero(np.diff(self.by_user.start) >= at_least)
        if users is not None and whole("users", users, at_least=1) > len(eligible):
            raise DataError(f"fewer than {users} users have at least {at_least} interactions")
        held = np.zeros(self.users, dtype=bool)
        held[eligible[np.argsort(lot[eligible], kind="stable")[:users]]] = True
        graph = self.graph
        of_held = held[graph.user]
        rank = graph.rank_within_user(graph.scores(key))
        size = np.diff(self.by_user.start)[graph.user]
        known = rank < np.clip(np.round(history * size), 1, np.maximum(1, size - 1))
        held_out = HeldOut(
            self.take(of_held & known), self.take(of_held & ~known), np.flatnonzero(held)
        )
        return self.take(~of_held), held_out


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Users outside training: what is known of them, what is to be found, and their numbers [users]."""

    history: Interactions
    labels: Interactions
    users: Integers


def _key(seed: int) -> int:
    return whole("seed", seed, at_least=0) % 2**64


def _parts(
    data: _Divisible, shares: Sequence[float], scores: NDArray[np.uint64]
) -> tuple[Interactions, ...]:
    """The interactions whose random 64-bit numbers [rows] fall in each share of their range."""
    if isinstance(shares, (int, float, str)) or not hasattr(shares, "__iter__"):
        raise ParameterError(
            f"shares must be one number for each part, such as (0.8, 0.2), got {shares!r}"
        )
    shares = [number("a share", share, above=0, at_most=1) for share in shares]
    if abs(sum(shares) - 1) > 1e-9:
        raise ParameterError(f"the shares of a split must sum to 1, got {shares}")
    part = np.searchsorted(np.cumsum(shares)[:-1], scores / 2.0**64, side="right")
    return tuple(data.take(part == place) for place in range(len(shares)))


def _times(data: _Divisible) -> Times:
    if data.time is None:
        raise DataError("these interactions have no times: give timestamp= when they are read")
    return data.time
