"""Plants every fault in turn and runs the tests that execute its line, the quickest first.

    python -m tests.mutants.run [--fresh] [--only PART-OF-A-PATH] [--seconds MOST] [--share SHARE]

Tests are collected once; each fault gets a process forked from that one. What was found is kept in
build/mutants/, so that another run tries only what is new and what survived. Faults that
docs/explanation/mutants.md lists as harmless, with the reason, are not tried (with --fresh they are). It
fails if a survivor is not listed, if of those that are not fewer than 95 of 100 are noticed, or if more
than 12 of 100 are listed.
"""

import argparse
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import threading
import time
import zlib
from collections.abc import Set
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

from tests.mutants.operators import Mutant, mutants
from tests.mutants.planting import plant

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src/apportion"
PAGE = ROOT / "docs/explanation/mutants.md"
KEPT = ROOT / "build/mutants"
LEAST, MOST_LISTED = 0.95, 0.12

# The kernel, and the Python that bounds, sums and counts, with the tests that are to notice its faults. No
# doctests: pytest would load a second copy of the module for these, and the fault would be in that one.
_BUDGET = tuple(
    f"tests/accounts/test_{name}.py" for name in ("budget", "settling", "log", "trail", "running")
)
_SAMPLING = "tests/soundness/test_row_10_sampling.py"
_CONTRACT = ("tests/engine/contract", "tests/engine/test_session.py")
_SESSION = (
    "tests/engine/test_small_sums.py",
    "tests/engine/test_steps.py",
    "tests/engine/test_session.py",
    "tests/engine/contract/test_users.py",
    "tests/engine/contract/test_bounds.py",
    "tests/tasks/test_ridge.py",
    "tests/soundness/test_row_04_global_mean.py",
    "tests/soundness/test_row_11_catalog.py",
    f"{_SAMPLING}::test_a_user_outside_the_sample_adds_nothing",
)
TARGETS = {
    "privacy/bounds.py": (
        "tests/privacy/test_limits.py",
        "tests/privacy/test_bounds.py",
        "tests/allocation/test_weights.py",
        "tests/engine/contract/test_users.py",
        "tests/soundness/test_row_08_duplicates.py",
    ),
    "privacy/curator.py": tuple(
        f"tests/privacy/test_{name}.py"
        for name in ("limits", "curator", "release", "selection", "listener", "ledger")
    ),
    "privacy/discrete.py": (
        "tests/privacy/test_discrete.py",
        "tests/privacy/test_noise.py",
        "tests/native/test_noise.py::test_noise_of_a_key_never_changes",
    ),
    "privacy/gaussian.py": (
        "tests/privacy/test_limits.py",
        "tests/privacy/test_gaussian.py",
        "tests/privacy/test_ledger.py::test_the_largest_target_is_said",
    ),
    "privacy/ledger.py": tuple(
        f"tests/privacy/test_{name}.py" for name in ("limits", "ledger", "selection", "sampled")
    ),
    "privacy/noise.py": ("tests/privacy/test_noise.py", "tests/native/test_noise.py"),
    "privacy/parts.py": (
        "tests/privacy/test_limits.py",
        "tests/privacy/test_release.py",
        f"{_SAMPLING}::test_parts_on_one_sample_are_not_accounted_as_independent_samples",
    ),
    "privacy/release.py": (
        "tests/privacy/test_release.py",
        "tests/privacy/test_listener.py",
        f"{_SAMPLING}::test_steps_beyond_the_recorded_ones_are_refused",
        f"{_SAMPLING}::test_a_sample_that_is_not_drawn_is_no_sample",
        f"{_SAMPLING}::test_a_step_of_sampled_users_belongs_to_one_thread",
    ),
    "privacy/rounding.py": ("tests/privacy/test_rounding.py", "tests/engine/test_small_sums.py"),
    "privacy/sampled.py": ("tests/privacy/test_sampled.py",),
    "allocation/scaling.py": ("tests/privacy/test_bounds.py", "tests/allocation/test_weights.py"),
    # What the contract compares with the reference has these faults on both sides.
    "engine/held.py": _SESSION,
    "engine/session.py": _SESSION,
    "engine/reference.py": ("tests/engine/test_reference.py", *_CONTRACT),
    "engine/feed.py": ("tests/engine/test_feed.py",),
    "twins/sums.py": ("tests/engine/test_reference.py", "tests/native/test_sums.py"),
    "twins/gradients.py": ("tests/engine/test_reference.py", "tests/native/test_gradients.py"),
    "accounts/budget.py": (*_BUDGET, "tests/accounts/test_budget_files.py"),
    "accounts/reservation.py": ("tests/accounts/test_reservation.py", *_BUDGET),
    "accounts/ledgers.py": (
        "tests/accounts/test_ledgers.py",
        "tests/accounts/test_report.py",
        "tests/privacy/test_ledger.py",
    ),
    "accounts/log.py": ("tests/accounts/test_events.py", "tests/accounts/test_log.py"),
    "accounts/history.py": ("tests/accounts/test_events.py", "tests/accounts/test_log.py"),
    "accounts/costs.py": ("tests/accounts/test_costs.py",),
}
# By how much a test may be slower with a fault.
SLOWER = 5.0


class Lines:
    """Which lines of the files each test executes."""

    def __init__(self, files: set[str]) -> None:
        self._files = files
        self.seen: set[tuple[str, int]] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        self.seen.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line

    def _line(self, frame: FrameType, event: str, _: object) -> Any:
        self.seen.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line


class Plan:
    """A plugin of pytest: instead of running what was collected it runs parts of it, once for each fault."""

    def __init__(self, path: Path, most_seconds: float, share: float, listed: Set[str]) -> None:
        self.path = path
        self.listed = listed  # survivors with their reasons: not tried
        # As it is loaded: someone may edit it meanwhile.
        self.faults = some(mutants(path.read_text("utf-8")), share)
        self.most_seconds = most_seconds
        self._killed_by: dict[str, list[str]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """See the class."""
        items = {item.nodeid: item for item in session.items}
        seconds, lines = self._watch(session)
        print(f"\n{len(items)} tests, {sum(seconds.values()):.0f} s", flush=True)
        self._try_all(items, seconds, lines)
        return True

    def _try_all(
        self, items: dict[str, pytest.Item], seconds: dict[str, float], lines: dict[str, Any]
    ) -> None:
        name, began = str(self.path.relative_to(SOURCES)), time.monotonic()
        kept, found = read_kept(name), dict[str, str]()
        for mutant in self.faults:
            answer = kept.get(mutant.key, "")
            explained = f"{name} {mutant.key}" in self.listed
            if not answer and not explained:
                tests = _covering(str(self.path), mutant, lines)
                first = self._killed_by.get(mutant.function, [])
                tests.sort(key=lambda test: (test not in first, seconds[test]))
                answer = self._try(mutant, [items[test] for test in tests], seconds)
            if answer:
                self._killed_by.setdefault(mutant.function, []).insert(0, answer)
            elif not explained:
                print(f"  survived: {name}:{mutant.first} {mutant.key}", flush=True)
            found[mutant.key] = answer
            keep(name, {**kept, **found})
        keep(name, found)
        noticed = sum(map(bool, found.values()))
        took = time.monotonic() - began
        print(f"{name}: {noticed} of {len(found)} noticed, {took:.0f} s", flush=True)

    def _watch(self, session: pytest.Session) -> tuple[dict[str, float], dict[str, Any]]:
        """Run all tests once: how long each takes, and which lines it executes."""
        reading, writing = os.pipe()
        parent = os.getpid()
        child = os.fork()
        if not child:
            os.close(reading)
            _silence(parent)
            seconds, seen, failed = {}, {}, []
            module = importlib.import_module(_module(self.path))
            for item in session.items:
                forget(module)  # whoever is first would be the only one to execute what is cached
                lines = Lines({str(self.path)})
                threading.settrace(lines)
                sys.settrace(lines)
                began = time.process_time()
                reports = _run_one(item)
                seconds[item.nodeid] = time.process_time() - began
                sys.settrace(None)
                threading.settrace(None)
                seen[item.nodeid] = sorted(lines.seen)
                if any(report.failed for report in reports):
                    failed.append(item.nodeid)
            with os.fdopen(writing, "w") as answer:
                json.dump([seconds, seen, failed], answer)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as answer:
            seconds, seen, failed = json.load(answer)
        os.waitpid(child, 0)
        assert not failed, f"these tests fail without any fault: {failed}"
        return seconds, seen

    def _try(
        self,
        mutant: Mutant,
        items: list[pytest.Item],
        seconds: dict[str, float],
    ) -> str:
        """The test that notices this fault, or nothing."""
        chosen, total = [], 0.0
        for item in items:
            if total < self.most_seconds:
                chosen.append(item)
                total += seconds[item.nodeid]
        if not chosen:
            return ""
        reading, writing = os.pipe()
        parent = os.getpid()
        child = os.fork()
        if not child:
            os.close(reading)
            os.setpgid(0, 0)
            _silence(parent)
            limit = int(5 + SLOWER * total)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
            os.write(writing, _noticed_by(self.path, mutant, chosen).encode())
            os._exit(0)
        os.close(writing)
        os.set_blocking(reading, False)
        stop = time.monotonic() + 120 + 10 * total
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if time.monotonic() > stop:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                break
            time.sleep(0.005)
        with os.fdopen(reading, "rb") as answer:
            text = (answer.read() or b"").decode()
        # A process that was ended, or that ended itself, has noticed.
        return {"": "no end", "nothing": ""}.get(text, text)


def forget(module: ModuleType) -> None:
    """Empty the caches of a module's functions."""
    for each in vars(module).values():
        if callable(each) and hasattr(each, "cache_clear"):
            each.cache_clear()


def _noticed_by(path: Path, mutant: Mutant, items: list[pytest.Item]) -> str:
    try:
        plant(importlib.import_module(_module(path)), mutant)
    except Exception as error:
        return f"not loaded: {type(error).__name__}"
    for item in items:
        if any(report.failed for report in _run_one(item)):
            return item.nodeid
    return "nothing"


def _run_one(item: pytest.Item) -> list[pytest.TestReport]:
    from _pytest.runner import runtestprotocol

    return runtestprotocol(item, log=False, nextitem=None)


def _covering(path: str, mutant: Mutant, lines: dict[str, Any]) -> list[str]:
    """The tests that execute the fault's line; for a constant those that execute any of its file."""
    found = []
    for test, seen in lines.items():
        own = [line for file, line in seen if file == path]
        inside = any(mutant.first <= line <= mutant.last for line in own)
        if inside or (not mutant.function and own):
            found.append(test)
    return found


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)


def _silence(parent: int) -> None:
    """Print nothing; sources of noise that the parent has made do not see that this is a fork.

    Those that a test forks see it, as they should.
    """
    number, own = os.getpid, os.getpid()
    os.getpid = lambda: parent if number() == own else number()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def some(faults: list[Mutant], share: float) -> list[Mutant]:
    """A sample, the same each time."""
    return [
        each for each in faults if zlib.crc32(f"{each.first} {each.key}".encode()) < share * 2**32
    ]


def read_kept(name: str) -> dict[str, str]:
    """What earlier runs found about this file: for each fault the test that noticed it, or nothing."""
    place = KEPT / name.replace("/", "-").replace(".py", ".json")
    if not place.exists():
        return {}
    return dict(json.loads(place.read_text("utf-8")))


def keep(name: str, found: dict[str, str]) -> None:
    """For the next run."""
    KEPT.mkdir(parents=True, exist_ok=True)
    place = KEPT / name.replace("/", "-").replace(".py", ".json")
    place.write_text(json.dumps(found, indent=0), "utf-8")


def explained() -> Set[str]:
    """Lines of the page, among them the faults that it lists as harmless."""
    return set(PAGE.read_text("utf-8").splitlines())


def judge(files: list[Path]) -> int:
    """Print how many faults were planted, noticed and listed as harmless; 1 if that is not good enough."""
    page, found = explained(), dict[str, str]()
    for path in files:
        name = str(path.relative_to(SOURCES))
        found |= {f"{name} {key}": answer for key, answer in read_kept(name).items()}
    survivors = [line for line, answer in found.items() if not answer]
    listed = sum(line in page for line in survivors)
    for line in survivors:
        if line not in page:
            print(f"no reason on docs/explanation/mutants.md: {line}")
    return verdict(len(found), len(found) - len(survivors), listed)


def verdict(planted: int, noticed: int, listed: int) -> int:
    """Print the three and two shares; 1 if too few are noticed, too many listed, or any is neither."""
    counted = noticed / max(planted - listed, 1)
    print(
        f"{planted} faults planted, {noticed} noticed ({noticed / max(planted, 1):.1%}), "
        f"{listed} listed as harmless ({listed / max(planted, 1):.1%}): "
        f"{counted:.1%} of the others noticed"
    )
    good = counted >= LEAST and listed <= MOST_LISTED * planted and noticed + listed == planted
    return int(not good)


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--fresh", action="store_true", help="forget earlier runs, try what is listed"
    )
    parser.add_argument("--only", default="", help="only files with this in their path")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="of tests that a fault must outlive"
    )
    parser.add_argument("--share", type=float, default=1.0, help="of the faults, a sample of them")
    given = parser.parse_args()
    if given.fresh:
        shutil.rmtree(KEPT, ignore_errors=True)
    os.chdir(ROOT)
    options = ["-q", "-p", "no:cacheprovider", "--capture=sys", "-m", "not slow"]
    files, listed = [], set() if given.fresh else explained()
    for place, tests in TARGETS.items():
        if given.only in place:
            files.append(SOURCES / place)
            plan = Plan(files[-1], given.seconds, given.share, listed)
            pytest.main([*options, *tests], plugins=[plan])
    return judge(files)


if __name__ == "__main__":
    sys.exit(main())
