"""Trainings that are killed, in processes of their own: run by ``test_budget_kills.py``.

Each child writes a line to a file as soon as a release has been returned to it, and nothing else. What is in
that file has left; the budget must count all of it. Run as a script:
``killing.py KIND BUDGET RETURNED FIRST STOP STEP``; prints one line for each child: how it ended.
"""

import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from apportion.accounts import Budget
from apportion.errors import ApportionError, BudgetExceededError
from apportion.privacy import Curator, PrivacyTarget, UserBound

TARGET = PrivacyTarget(0.2, 1e-5)
KERNEL = (
    "budget.py",
    "database.py",
    "running.py",
    "log.py",
    "history.py",
    "reservation.py",
    "ledger.py",
    "curator.py",
    "release.py",
)
RELEASES = 3


def train(path: str, returned: int) -> None:
    """Three releases of a quarter of the target each; the rest is given back at the end."""
    bound = UserBound(1.0, "given")
    budget = Budget(path)
    reservation = budget.reserve("victim", TARGET)
    curator = Curator(TARGET, reservation=reservation)
    try:
        for number in range(RELEASES):
            curator.release(
                f"release {number}", np.zeros((2, 1), dtype=np.int64), bound, TARGET.mu / 2
            )
            os.write(returned, f"{reservation.token} release {number}\n".encode())
    finally:
        reservation.settle()


def train_for_ever(path: str, returned: int) -> None:
    while True:
        train(path, returned)


def train_at_full_length(path: str, returned: int) -> None:
    """Real trainings, one after the other; what each release returns is written down."""
    import apportion as ap
    from apportion.privacy import OpenRelease

    data = ap.simulate_tasks(users=200, tasks=5, tasks_per_user=2)
    feed: Any = OpenRelease.feed
    tokens: list[str] = []
    reserve: Any = Budget.reserve

    def reserved(self: Budget, *arguments: Any) -> Any:
        reservation = reserve(self, *arguments)
        tokens.append(reservation.token)
        return reservation

    def fed(self: OpenRelease, *arguments: Any) -> Any:
        values = feed(self, *arguments)
        for record in self.records:
            os.write(returned, f"{tokens[-1]} {record.name}\n".encode())
        return values

    setattr(Budget, "reserve", reserved)  # noqa: B010
    setattr(OpenRelease, "feed", fed)  # noqa: B010
    while True:
        ap.MultiTaskRidge(TARGET.epsilon, TARGET.delta).fit(data, budget=Budget(path))


def create_for_ever(path: str, returned: int) -> None:
    """New budgets; one that was returned must be there, with its cap."""
    while True:
        new = f"{path}.{os.getpid()}.{time.monotonic_ns()}"
        Budget.create(new, PrivacyTarget(1.0, 1e-5)).reserve("first", PrivacyTarget(0.5, 1e-5))
        os.write(returned, f"{new}\n".encode())


def killed_at_line(count: int) -> None:
    """Kill this process when it is about to execute the given line of the kernel, counted as they come."""
    left = count

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal left
        if Path(frame.f_code.co_filename).name not in KERNEL:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def child(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BudgetExceededError:
        code = 3
    except ApportionError as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        code = 2
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def outcome(pid: int) -> str:
    _, status = os.waitpid(pid, 0)
    return "killed" if os.WIFSIGNALED(status) else f"ended {os.WEXITSTATUS(status)}"


def main() -> None:
    kind, path, written = sys.argv[1:4]
    first, stop, step = (int(word) for word in sys.argv[4:])
    returned = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    rng = random.Random(first)

    def at_line(number: int) -> None:
        own = f"{path}-{number}"
        shutil.copyfile(path, own)
        killed_at_line(number)
        train(own, returned)

    def with_little_space(blocks: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096 * blocks, 4096 * blocks))
        train(path, returned)

    loops = {
        "moments": (train_for_ever, 0.15),
        "fits": (train_at_full_length, 1.5),
        "creations": (create_for_ever, 0.3),
    }
    if kind == "crowd":
        children = [child(lambda: train_for_ever(path, returned)) for _ in range(stop)]
        endings = [outcome(pid) for pid in children]
    else:
        endings = []
        for number in range(first, stop, step):
            if kind in loops:
                loop, seconds = loops[kind]
                pid = child(lambda loop=loop: loop(path, returned))  # type: ignore[misc]
                time.sleep(rng.uniform(0.0, seconds))
                os.kill(pid, signal.SIGKILL)
            else:
                work = {"lines": at_line, "space": with_little_space}[kind]
                pid = child(lambda number=number, work=work: work(number))  # type: ignore[misc]
            endings.append(outcome(pid))
            if kind == "lines" and endings[-1] == "ended 0":
                break
    print("\n".join(endings))


if __name__ == "__main__":
    main()
