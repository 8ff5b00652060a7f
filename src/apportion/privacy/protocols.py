"""Whom the kernel talks to without knowing them: who pays, who remembers sums, who listens."""

from collections.abc import Sequence
from typing import Any, Protocol

from apportion.privacy.ledger import Record


class Payer(Protocol):
    """What one training has set aside of a budget (``accounts.reservation.Reservation``)."""

    @property
    def token(self) -> str:
        """The name of this training in the budget."""

    def tie(self, key: str) -> None:
        """Tie the training to a noise key, by its digest; refuse by an error another one than before."""

    def sampled_mu(self, steps: int, sampling_rate: float) -> float:
        """The mu (as if all users took part) that is set aside for a release to sampled users."""

    def commit(self, records: Sequence[Record]) -> None:
        """Pay for a release, durably, before any of its values are returned; or refuse by an error."""


class Witness(Protocol):
    """Who remembers the sums to which noise is added (``accounts.checkpoint.Checkpoint``)."""

    def __call__(self, record: Record, step: int, first_task: int, *sums: Any) -> None:
        """Told before noise is drawn for these sums; refuses by an error what was another sum before."""


class Listener(Protocol):
    """Who listens to releases, as an audit does: told released values, never sums, keys or noise.

    ``replaces`` says whether it may answer with other values than it was told: the training then goes on
    with those, and its report says NOT PRIVATE.
    """

    replaces: bool

    def released(
        self, records: Sequence[Record], parts: Sequence[Any], values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Told the noisy values of a block of tasks; returns those that the training shall see."""

    def selected(self, name: str, ids: Any, counts: Any) -> tuple[Any, Any]:
        """Told a selection; returns the one that the training shall see."""
