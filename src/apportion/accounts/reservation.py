"""What one training has set aside of a budget, while it runs."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from sqlite3 import Connection

from apportion.accounts.costs import ROUNDING, covers, kind, merged
from apportion.accounts.database import Database
from apportion.accounts.history import read_open, read_training, to_plain
from apportion.accounts.log import append
from apportion.accounts.running import Running
from apportion.errors import BudgetExceededError, BudgetFileError
from apportion.privacy.ledger import Record


@dataclass(frozen=True)
class Reservation:
    """What one training has set aside of a budget, while it runs."""

    file: Database
    token: str
    cost: tuple[Record, ...]
    running: Running
    resumed: bool = False

    def sampled_mu(self, steps: int, sampling_rate: float) -> float:
        """The mu (as if all users took part) that is reserved for a release to sampled users."""
        wanted = (steps, sampling_rate)
        found = [record.mu for record in self.cost if kind(record) == wanted]
        return max(found, default=0.0) / (1 + ROUNDING)

    def tie(self, key: str) -> None:
        """Tie the training to a noise key, by its digest; refuse another one than before.

        The same release under another key would be a second noisy view.
        """
        with self.file.transaction() as connection:
            training = read_open(connection, self.token)
            if not training.key:
                append(connection, "tied", self.token, {"key": key})
            elif training.key != key:
                raise BudgetExceededError(
                    "this training was begun under another noise key: its releases would be seen a "
                    "second time, with other noise. Resume it from its checkpoint, or reserve anew"
                )

    def commit(self, records: Sequence[Record]) -> None:
        """Write the records of one release to the budget, durably, all or none.

        Refuses what passes the reservation, what was committed before, and anything once the training
        has ended.
        """
        with self.file.transaction() as connection:
            training = read_open(connection, self.token)
            before = training.released
            new = [one for one in records if not (self.resumed and before.get(one.name) == one)]
            names = [record.name for record in new]
            for record in new:
                if record.name in before or names.count(record.name) > 1:
                    raise BudgetExceededError(
                        f"refused {record.name!r}: this training has released it already"
                    )
            if not covers(training.cost, [*before.values(), *new]):
                raise BudgetExceededError(
                    f"refused {', '.join(map(repr, names))}: it would pass what this training has reserved"
                )
            if new:
                append(connection, "released", self.token, {"records": to_plain(new)})

    def settle(self) -> None:
        """End the training: from now on it counts for what it has released, and can release no more.

        If that cannot be written, the reservation stays counted in full, with a warning.
        """
        ended = False
        try:
            with self.file.transaction() as connection:
                end(connection, self.token)
            ended = True
        except BudgetFileError as error:
            warn_of_reservation(str(error))
        finally:
            self.running.release(remove=ended)

    def leave(self) -> None:
        """The training was interrupted and may be resumed: all of it stays reserved."""
        self.running.release(remove=False)


def end(connection: Connection, token: str, *, keep: bool = False) -> None:
    """Count a training for what it has committed, or (``keep``) for all that it has reserved, for good."""
    training = read_training(connection, token)
    if training is None or training.ended is not None:
        return
    cost = training.cost if keep else merged(training.releases)
    append(connection, "ended", token, {"cost": to_plain(cost)})


def warn_of_reservation(reason: str) -> None:
    """Say that what could not be settled stays counted in full."""
    message = f"the whole reservation of this training stays counted: {reason}"
    warnings.warn(message, RuntimeWarning, stacklevel=3)
