"""Trainings on a disk that fails, or loses its power: run by ``test_faults.py`` under ``disk.c``.

``trainings.py FOLDER JOB ...``, a job being ``fail`` or ``lose``, ``budget`` or ``checkpoint``, the number of
the first case, the step to the next, and perhaps a planted fault, with colons between them. Prints a line of
JSON for each: how many cases there were and how they ended, or what was wrong. What a release returned is
noted as soon as it is there; the budget must count all of it, and nothing may be seen twice with other noise.
"""

import contextlib
import errno
import hashlib
import json
import math
import random
import shutil
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import apportion as ap
from apportion.accounts import Budget
from apportion.accounts.costs import whole_cost
from apportion.accounts.reservation import Reservation
from apportion.errors import ApportionError, BudgetFileError, ParameterError
from apportion.privacy import Curator, OpenRelease, PrivacyTarget, Record, UserBound
from tests.accounts.faults.disk import Call, Disk, Memory, read_record

CAP = PrivacyTarget(8.0, 1e-5)
TARGET = PrivacyTarget(1.0, 1e-5)
ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO}
WAYS = ("least", "names", "contents", "some")

# What was returned: of a training and a release, a digest of its values.
Seen = dict[tuple[str, str], str]


@contextlib.contextmanager
def noted(seen: Seen, mark: Callable[[str], object]) -> Iterator[None]:
    """Note what releases return in this block; the same one with other values is a second view."""
    tokens: list[str] = []
    commit: Any = Reservation.commit
    feed: Any = OpenRelease.feed

    def committed(self: Reservation, records: Any) -> None:
        tokens.append(self.token)
        commit(self, records)

    def fed(self: OpenRelease, first: int, *units: Any) -> Any:
        values = feed(self, first, *units)
        digest = hashlib.sha256(b"".join(np.asarray(each).tobytes() for each in values)).hexdigest()
        for record in self.records:
            note(seen, tokens[-1], f"{record.name} of {first}", digest)
            mark(f"{tokens[-1]}/{record.name} of {first}/{digest}")
        return values

    setattr(Reservation, "commit", committed)  # noqa: B010
    setattr(OpenRelease, "feed", fed)  # noqa: B010
    try:
        yield
    finally:
        setattr(Reservation, "commit", commit)  # noqa: B010
        setattr(OpenRelease, "feed", feed)  # noqa: B010


def note(seen: Seen, token: str, name: str, digest: str) -> None:
    known = seen.setdefault((token, name), digest)
    assert known == digest, f"{name} was seen with other noise"


def with_budget(place: Path) -> None:
    """Everything that a budget can do, from its creation on."""
    path = place / "budget.db"
    budget = Budget.create(path, CAP)
    bound = UserBound(1.0, "given")
    reservation = budget.reserve("first", TARGET)
    curator = Curator(TARGET, reservation=reservation)
    try:
        for number in range(3):
            units = np.full((2, 1), number, dtype=np.int64)
            curator.release(f"release {number}", units, bound, TARGET.mu / 2)
    finally:
        reservation.settle()
    budget.note_saved(reservation.token, "digest", "model")
    budget.set_aside("elsewhere", TARGET)
    left = budget.reserve("left", TARGET)
    left.commit([Record("a", "", (1,), TARGET.mu / 2, "", 1.0)])
    left.leave()
    budget.resume(left.token).leave()
    budget.close(left.token)


def with_checkpoint(place: Path) -> None:
    """A training with a budget, made before, and with a checkpoint."""
    data = ap.simulate_interactions(users=60, items=10, rows=400)
    model = ap.MatrixFactorization(factors=2, sweeps=2, epsilon=TARGET.epsilon, delta=TARGET.delta)
    model.fit(data, budget=Budget(place / "budget.db"), checkpoint=place / "going")


WORK = {"budget": with_budget, "checkpoint": with_checkpoint}


def check(place: Path, kind: str, seen: Seen) -> None:
    """What was returned is counted, the file is whole, and the next training draws from it."""
    path = place / "budget.db"
    try:
        budget = Budget(path)
    except BudgetFileError:  # it was not made yet
        if kind != "budget" or seen:
            raise
        budget = Budget.create(path, CAP)
    trainings = {training.token: training for training in budget.history()}
    [whole] = whole_cost(TARGET)
    for token, name in seen:
        assert name.rpartition(" of ")[0] in trainings[token].released, name
    for training in trainings.values():
        counted = math.fsum(record.mu**2 for record in training.cost)
        assert counted >= math.fsum(record.mu**2 for record in training.releases) * (1 - 1e-15)
        if training.ended is None:
            assert training.cost == (whole,)
    hashes = budget.last_hash
    budget.set_aside("next", PrivacyTarget(0.1, 1e-5))
    assert budget.events_since(hashes) == 1


def finish(place: Path, kind: str, seen: Seen) -> str:
    """Resume the training on a disk that works; how that ended."""
    if kind == "budget":
        return "-"
    try:
        with noted(seen, lambda _: None):
            with_checkpoint(place)
    except (ApportionError, ParameterError) as error:
        check(place, kind, seen)
        return f"refused: {type(error).__name__}"
    check(place, kind, seen)
    return "finished"


def begin(place: Path, kind: str) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True, mode=0o700)
    if kind == "checkpoint":
        Budget.create(place / "budget.db", CAP)


def fail(kind: str, folder: Path, first: int, step: int) -> dict[str, Any]:
    """Every step-th call fails, once with each error, until there are no more."""
    place, endings = folder / "place", Counter[str]()
    disk, cases = Disk(folder), 0
    for name, error in ERRORS.items():
        for at in range(first, 100_000, step):
            begin(place, kind)
            seen: Seen = {}
            with noted(seen, lambda _: None), disk.failing(at, error):
                try:
                    WORK[kind](place)
                    ending = "done"
                except ApportionError as refusal:
                    ending = type(refusal).__name__
            if not disk.failed:
                break
            cases += 1
            try:
                check(place, kind, seen)
                endings[f"{ending}, {finish(place, kind, seen)}"] += 1
            except Exception as wrong:
                raise AssertionError(f"{name} at call {at} ({ending})") from wrong
    return {"cases": cases, "calls": disk.calls, "endings": endings}


def lose(kind: str, folder: Path, first: int, step: int) -> dict[str, Any]:
    """The power fails after every step-th call; each time in all ways."""
    place, record, lost = folder / "place", folder / "record", folder / "lost"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True, mode=0o700)
    record.unlink(missing_ok=True)
    disk, memory, endings = Disk(folder), Memory(place), Counter[str]()
    with noted({}, disk.mark), disk.recorded(record):
        if kind == "checkpoint":  # it was there before
            Budget.create(place / "budget.db", CAP)
            disk.mark("begins")
        WORK[kind](place)
    seen: Seen = {}
    begun, cases, source = kind == "budget", 0, random.Random(first)
    calls = read_record(record)
    for number, call in enumerate(calls):
        if call.kind == "mark" and call.path == "begins":
            begun = True
        elif call.kind == "mark":
            note(seen, *call.path.split("/"))
        else:
            memory.after(call)
        if not begun or (number - first) % step:
            continue
        for way in WAYS:
            memory.lost(way, lost, source)
            try:
                check(lost, kind, seen)
                endings[finish(lost, kind, dict(seen))] += 1
            except Exception as wrong:
                raise AssertionError(
                    f"{way} after call {number}: {call.kind} {call.path}"
                ) from wrong
            cases += 1
    kinds = Counter(call.kind for call in calls)
    return {"cases": cases, "calls": len(calls), "endings": endings, "kinds": kinds}


@contextlib.contextmanager
def planted(fault: str) -> Iterator[None]:
    """A fault that the cases must notice, if one is named."""
    commit: Any = Reservation.commit
    after: Any = Memory.after

    def ignored(self: Reservation, records: Any) -> None:
        with contextlib.suppress(BudgetFileError):
            commit(self, records)

    def unsynced(ending: str) -> Callable[[Memory, Call], None]:
        def heard(self: Memory, call: Call) -> None:
            if not (call.kind == "sync" and call.path.endswith(ending)):
                after(self, call)

        return heard

    if fault == "errors ignored":
        setattr(Reservation, "commit", ignored)  # noqa: B010
    elif fault:
        setattr(Memory, "after", unsynced(fault.removeprefix("unsynced ")))  # noqa: B010
    try:
        yield
    finally:
        setattr(Reservation, "commit", commit)  # noqa: B010
        setattr(Memory, "after", after)  # noqa: B010


def main() -> None:
    warnings.simplefilter("ignore")
    for job in sys.argv[2:]:
        what, kind, first, step, *fault = job.split(":")
        with planted("".join(fault)):
            try:
                walk = {"fail": fail, "lose": lose}[what]
                found = walk(kind, Path(sys.argv[1]), int(first), int(step))
            except AssertionError as error:
                traceback.print_exc()
                found = {"wrong": str(error)}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
