"""One budget for all trainings on the same people, in a file that survives anything.

Guarantee
    The total of all trainings in the file satisfies ``epsilon`` at ``cap.delta`` <= ``cap.epsilon``, by the
    same accounting as that of one training (``ledger.total_epsilon``): all their releases together are one
    ledger. A training is counted in full, in one transaction and before its first release, or refused.
    Every release is committed, durably, before its noisy values are returned. What a training reserved and
    did not use is given back in the transaction that ends it, and after that it cannot commit, so it
    cannot release, anything more. A training that is killed stays counted in full: whatever the moment, the
    file never counts less than what left. See docs/explanation/budgets.md.

Assumes
    The disk keeps what it says that it has written, nobody changes the file or puts an old copy in its
    place (whoever keeps ``last_hash`` can tell), and all trainings on these people name the same file.
    Gaussian costs may be chosen by looking at what earlier trainings released; those of trainings with
    sampled users must not be.

How
    SQLite: see ``database``. The file is a log of events, each with a hash of itself and of all before it:
    see ``log``, and ``history`` for what follows from them. Each operation opens the file, runs one
    transaction and closes it, so that a budget may be shared by threads and processes. A training holds a
    lock while it runs (``running``), so that one that was killed can be told from one that runs.
"""

import math
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from apportion.accounts.costs import whole_cost
from apportion.accounts.database import Database
from apportion.accounts.history import (
    Training,
    read_cap,
    read_costs,
    read_open,
    read_training,
    read_trainings,
    to_plain,
)
from apportion.accounts.left import largest_epsilon
from apportion.accounts.log import append, read_hashes
from apportion.accounts.reservation import Reservation, end, warn_of_reservation
from apportion.accounts.running import Running, State, is_lost, lock_path, machine, state_of
from apportion.checks import number
from apportion.errors import BudgetExceededError, BudgetFileError, ParameterError
from apportion.privacy.ledger import PrivacyTarget, Record, total_epsilon
from apportion.version import __version__

_LONGEST_LABEL = 200


class Budget:
    """A file from which repeated trainings on the same people draw, never past its cap.

    ``Budget.create`` makes it, once; ``Budget(path)`` opens what is there.

    Args:
        path: of the file.
        timeout: how many seconds to wait for other processes.
        label: what you call the trainings that this object pays for; ``history`` shows it.

    Attributes
        cap: the (epsilon, delta) of all trainings together.
        id: the budget's random name; a checkpoint remembers it.

    >>> import apportion as ap, tempfile
    >>> path = tempfile.mkdtemp() + "/budget.db"
    >>> budget = ap.Budget.create(path, cap=ap.PrivacyTarget(epsilon=2.0, delta=1e-5))
    >>> data = ap.simulate_tasks(users=500, tasks=5, tasks_per_user=2)
    >>> model = ap.MultiTaskRidge(epsilon=1.0, delta=1e-5).fit(data, budget=budget)
    >>> round(budget.epsilon, 3), round(budget.left, 3)
    (1.0, 1.658)
    >>> model = ap.MultiTaskRidge(epsilon=1.8, delta=1e-5).fit(data, budget=ap.Budget(path))
    Traceback (most recent call last):
    ...
    apportion.errors.BudgetExceededError: refused a training with epsilon 1.8 ...
    """

    def __init__(self, path: str | Path, *, timeout: float = 60.0, label: str = "") -> None:
        timeout = number("timeout", timeout, at_least=0, at_most=1e6)
        if not isinstance(label, str) or len(label) > _LONGEST_LABEL:
            raise ParameterError(f"label must be a text of at most {_LONGEST_LABEL} letters")
        self.label = label
        self._file = Database(path, timeout)
        self.path = self._file.path
        with self._file.transaction(write=False) as connection:
            self.id, self.cap = read_cap(connection)

    @classmethod
    def create(cls, path: str | Path, cap: PrivacyTarget, *, timeout: float = 60.0) -> Self:
        """Make a new budget, for its owner alone (mode 600); an error if there is one already.

        Args:
            path: of the file.
            cap: the (epsilon, delta) of all trainings together; it cannot be changed later.
            timeout: as of ``Budget``.
        """
        timeout = number("timeout", timeout, at_least=0, at_most=1e6)
        if not isinstance(cap, PrivacyTarget):
            raise ParameterError(f"cap must be a PrivacyTarget, got a {type(cap).__name__}")
        if math.isinf(cap.epsilon):
            raise ParameterError("a budget needs a finite epsilon")
        if cap.selection_delta > 0:
            raise ParameterError("a cap has one delta: selections are taken off it")
        first = {"id": secrets.token_hex(16), "epsilon": cap.epsilon, "delta": cap.delta}
        Database(path, timeout).create({**first, "version": __version__})
        return cls(path, timeout=timeout)

    def __repr__(self) -> str:
        cap = f"epsilon={self.cap.epsilon:g}, delta={self.cap.delta:g}"
        return f"Budget({str(self.path)!r}, cap of {cap})"

    def _repr_html_(self) -> str:
        from apportion.accounts.cards import budget_card

        return budget_card(self)

    def reserve(
        self,
        what: str,
        target: PrivacyTarget,
        cost: Sequence[Record] | None = None,
        token: str | None = None,
    ) -> "Reservation":
        """Set aside what a training will cost, or refuse it. By default the whole of its target.

        ``token`` is its name here, by default a new one.
        """
        if math.isinf(target.epsilon):
            raise ParameterError("without privacy (epsilon is infinite) no budget is enough")
        cost = whole_cost(target) if cost is None else tuple(cost)
        token = secrets.token_hex(16) if token is None else token
        running = self._run(token)
        try:
            self._insert(what, target, cost, token, ended=False)
        except BaseException:
            running.release(remove=True)
            raise
        return Reservation(self._file, token, cost, running)

    def set_aside(self, what: str, target: PrivacyTarget) -> None:
        """Count a training that takes place elsewhere, for good.

        It must consist of Gaussian releases, as those of this package do (but for sampled users): another
        mechanism with the same (epsilon, delta) may cost more beside others.
        """
        if math.isinf(target.epsilon):
            raise ParameterError("without privacy (epsilon is infinite) no budget is enough")
        self._insert(what, target, whole_cost(target), secrets.token_hex(16), ended=True)

    def resume(self, token: str) -> "Reservation":
        """Resume a training that was interrupted, under the same noise key.

        What it has committed already may be committed again: with the same key it is the same release.
        """
        running = self._run(token)
        try:
            with self._file.transaction() as connection:
                cost = read_open(connection, token).cost
                append(connection, "resumed", token, {"machine": machine()})
        except BaseException as error:
            running.release(remove=isinstance(error, BudgetExceededError))
            raise
        return Reservation(self._file, token, cost, running, resumed=True)

    def close(self, token: str, *, unknown: bool = False) -> Training:
        """End a training that was killed: from now on it counts for what it has committed.

        It cannot be resumed then, and can release nothing more.

        Args:
            token: its name here, or the first letters of it.
            unknown: also if it cannot be known whether it still runs.
        """
        found = [one for one in self.history() if token and one.token.startswith(token)]
        if len(found) != 1:
            many = "several trainings are" if found else "no training is"
            raise ParameterError(f"{many} named {token!r}: see apportion budget history")
        training, state = found[0], self.state(found[0])
        if state == State.ended:
            raise ParameterError(f"training {training.token} has ended already")
        if state == State.running:
            raise ParameterError(f"training {training.token} is running: stop it first")
        if state == State.unknown and not unknown:
            raise ParameterError(
                f"it cannot be known whether training {training.token} still runs: it was begun on "
                f"{training.machine!r}, or its lock is gone. If you know that it does not, close it "
                "as unknown; should it run, it can release nothing more"
            )
        running = self._run(training.token)
        try:
            with self._file.transaction() as connection:
                end(connection, training.token)
        except BaseException:
            running.release(remove=False)
            raise
        running.release(remove=True)
        return next(one for one in self.history() if one.token == training.token)

    def settle(self, token: str, records: Iterable[Record]) -> None:
        """End a training whose finished checkpoint has these releases.

        It counts for them if they are what it has committed here; otherwise its whole reservation stays
        counted, with a warning.
        """
        found = {record.name: record for record in records}
        try:
            running = self._run(token)
            ended, same = False, False
            try:
                with self._file.transaction() as connection:
                    training = read_training(connection, token)
                    same = training is not None and training.released == found
                    end(connection, token, keep=not same)
                ended = True
            finally:
                running.release(remove=ended)
        except BudgetFileError as error:
            warn_of_reservation(str(error))
            return
        if not same:
            warn_of_reservation("the budget has other releases of it than its checkpoint")

    def state(self, training: Training) -> State:
        """Whether a training runs; what cannot be known counts as running."""
        if training.ended is not None:
            return State.ended
        return state_of(lock_path(self.path, training.token), training.machine)

    @property
    def doubt(self) -> str | None:
        """Why this may count less than what left, if there is a reason to think so."""
        lost = [
            one
            for one in self.history()
            if one.ended is None and is_lost(lock_path(self.path, one.token))
        ]
        if self._file.behind:
            return "read from a copy that was made while a training wrote: it may count less"
        if lost:
            return (
                f"the lock of training {lost[0].token[:8]} is not beside the file: if this is a copy that "
                "was made while it ran, it may count less than the file from which trainings draw"
            )
        return None

    def holds(self, token: str | None, records: Iterable[Record]) -> bool:
        """Whether a training that has ended, with exactly these releases, is counted here."""
        found = [one for one in self.history() if one.token == token]
        return bool(found) and found[0].ended is not None and found[0].releases == tuple(records)

    @property
    def epsilon(self) -> float:
        """The epsilon of everything that is counted, at the cap's delta."""
        return total_epsilon(self._counted(), self.cap.delta)

    @property
    def left(self) -> float:
        """The largest epsilon, at the cap's delta, of one more training (without sampled users)."""
        return largest_epsilon(self._counted(), self.cap)

    def history(self) -> list[Training]:
        """All trainings, in the order in which they began."""
        with self._file.transaction(write=False) as connection:
            return read_trainings(connection)

    def knows(self, token: str) -> bool:
        """Whether a training of this name has reserved something here."""
        return self.training(token) is not None

    def training(self, token: str) -> Training | None:
        """The training of this name, if it is here."""
        with self._file.transaction(write=False) as connection:
            return read_training(connection, token)

    def note_saved(self, token: str, digest: str, output: str | Path) -> None:
        """Note that the model of a training, with this digest, has been saved to this folder."""
        with self._file.transaction() as connection:
            if read_training(connection, token) is None:
                raise BudgetFileError(f"training {token[:8]} is not in the budget {self.path}")
            append(connection, "saved", token, {"digest": digest, "output": str(output)})

    @property
    def last_hash(self) -> str:
        """The hash of the last event, of the whole log that is: keep it where the file is not."""
        return self._hashes()[-1]

    def events_since(self, last_hash: str) -> int:
        """How many events there are after the one whose hash was kept.

        An error if the log does not have it: it was changed, or an old copy is in its place.
        """
        self.history()  # the whole chain is checked
        hashes = self._hashes()
        if last_hash not in hashes:
            raise BudgetFileError(
                f"the log of {self.path} does not have the hash {last_hash[:16]}...: it was changed, or an "
                "older copy was put in its place, which counts less. Find the file that has it"
            )
        return len(hashes) - 1 - hashes.index(last_hash)

    def _hashes(self) -> list[str]:
        with self._file.transaction(write=False) as connection:
            return read_hashes(connection)

    def _counted(self) -> list[Record]:
        with self._file.transaction(write=False) as connection:
            return read_costs(connection)

    def _run(self, token: str) -> Running:
        return Running(lock_path(self.path, token))

    def _insert(
        self, what: str, target: PrivacyTarget, cost: Sequence[Record], token: str, ended: bool
    ) -> None:
        values = {"what": what, "epsilon": target.epsilon, "delta": target.delta}
        values |= {"cost": to_plain(cost), "machine": machine()}
        values |= {"label": self.label, "version": __version__}
        with self._file.transaction() as connection:
            (_, cap), counted = read_cap(connection), read_costs(connection)
            if total_epsilon([*counted, *cost], cap.delta) > cap.epsilon:
                raise BudgetExceededError(
                    f"refused a training with epsilon {target.epsilon:g} at delta {target.delta:g}: the "
                    f"total would pass the budget's {cap.epsilon:g} at {cap.delta:g}, of which "
                    f"{total_epsilon(counted, cap.delta):.4g} is spent or reserved. Nothing was released"
                )
            if read_training(connection, token) is not None:
                raise ParameterError(f"the budget has a training named {token} already")
            append(connection, "set aside" if ended else "reserved", token, values)
