"""Trains in processes that die, and goes on. A program of its own, so that it may fork: see ``main``."""

import errno
import itertools
import json
import os
import random
import resource
import secrets
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apportion as ap
from apportion.errors import CheckpointError
from tests.reports import undated

MODELS: dict[str, dict[str, Any]] = {
    "ratings": {"sweeps": 3},
    "per-item": {"factors": 3, "sweeps": 2, "solver": ap.SufficientStatistics(matrices="per-item")},
    "descent": {"factors": 3, "sweeps": 2, "solver": ap.GradientDescent(steps=3)},
    "sampled": {"factors": 3, "sweeps": 2, "allocation": ap.TailSampling(4)},
    "events": {"factors": 3, "sweeps": 3, "feedback": "implicit", "catalog": "private"},
    "exact": {"factors": 3, "sweeps": 3, "epsilon": float("inf")},
}
# What a process does to files: it can die before each of these, and in the middle of a write.
OPERATIONS = ("mkdir", "open", "write", "fsync", "replace", "rename", "unlink")
ORIGINAL = {name: getattr(os, name) for name in OPERATIONS}
DONE, KILLED, REFUSED = "done", "killed", "refused"


def data() -> ap.Interactions:
    # Made in each process: after threads have run, a process cannot fork.
    return ap.simulate_interactions(users=300, items=70, rows=3000)


class Place:
    """A folder for one training: its checkpoint, the model in the end, and the key for the test."""

    def __init__(self, folder: Path, model: str) -> None:
        self.folder, self.model = folder, model
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def attempt(self, prepare: Callable[[], object], after: float | None = None) -> str:
        """Go on in a process of its own, which is killed after some seconds, unless it was before."""
        process = fork(lambda: self._train(prepare))
        if after is not None:
            time.sleep(after)
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return outcome(process)

    def _train(self, prepare: Callable[[], object]) -> None:
        model = ap.MatrixFactorization(**{"epsilon": 5.0, **MODELS[self.model]})
        prepare()
        model.fit(data(), self._keep_key, checkpoint=self.folder / "checkpoint")
        try:
            model.save(self.folder / "model")
        except OSError as error:  # not of the checkpoint, but as good
            raise CheckpointError from error

    def _keep_key(self, done: int, total: int) -> None:
        del done, total
        shutil.copy(self.folder / "checkpoint" / "key", self.folder / "key")

    def check(self) -> None:
        """The model is that of a training with the same key, without checkpoint, in one go."""
        left = {path.name for path in (self.folder / "checkpoint").iterdir()}
        assert left == {"lock", "state"}
        key = (self.folder / "key").read_bytes()
        assert len(key) == 32

        def train() -> None:
            secrets.token_bytes = lambda size=None: key  # type: ignore[assignment]
            model = ap.MatrixFactorization(**{"epsilon": 5.0, **MODELS[self.model]})
            model.fit(data()).save(self.folder / "reference")

        assert outcome(fork(train)) == DONE
        found, expected = (contents(self.folder / name) for name in ("model", "reference"))
        assert found == expected, f"{self.folder}: another model"
        shutil.rmtree(self.folder)


def contents(folder: Path) -> dict[str, object]:
    """The files of a model, but for the date and the digests that depend on it."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    settings = json.loads(files.pop("model.json"))
    del settings["sha256"]
    report = ap.PrivacyReport.from_json(files.pop("privacy.json").decode())
    assert set(files) == {"items.safetensors"}
    return {**files, **settings, "report": undated(report)}


def fork(job: Callable[[], object]) -> int:
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            job()
        code = 0
    except CheckpointError:
        code = 3
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def outcome(process: int) -> str:
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        return KILLED
    code = os.WEXITSTATUS(status)
    assert code in (0, 3), "a process failed; see above"
    return DONE if code == 0 else REFUSED


def at_operation(which: int, fail: Callable[[str], object]) -> Callable[[], None]:
    """Prepares a process to fail before its operation of this number, or in the middle of a write."""

    def reached(number: int, name: str, *arguments: Any) -> None:
        if number == which:
            if name == "write":
                file, content = arguments
                ORIGINAL["write"](file, content[: len(content) // 2])
            fail(name)

    return lambda: watch(reached)


def watch(reached: Callable[..., None]) -> None:
    """Tell of every operation before it is done: its number, its name and what it is done with."""
    numbers = itertools.count(1)

    def watched(name: str) -> Callable[..., Any]:
        def operation(*arguments: Any, **options: Any) -> Any:
            reached(next(numbers), name, *arguments)
            return ORIGINAL[name](*arguments, **options)

        return operation

    for name in OPERATIONS:
        setattr(os, name, watched(name))


def operations(folder: Path, model: str) -> int:
    """How many there are in a training that nothing happens to."""
    place = Place(folder / f"{model}-count", model)
    log = place.folder / "operations"
    assert place.attempt(lambda: watch(lambda number, *_: log.write_text(str(number)))) == DONE
    found = int(log.read_text())
    place.check()
    return found


def die(name: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run_full(name: str) -> None:
    if name in ("mkdir", "open", "write", "fsync", "replace"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def nothing() -> None:
    """Let a process live."""


def each_operation(folder: Path, model: str, step: int) -> Iterator[str]:
    """Die at every operation in turn, or at every so many, and go on once."""
    for which in range(1, operations(folder, model) + 1, step):
        place = Place(folder / f"{model}-{which}", model)
        yield place.attempt(at_operation(which, die))
        assert place.attempt(nothing) == DONE
        place.check()


def again_and_again(folder: Path, model: str, seed: int, kills: int) -> Iterator[str]:
    """Die at a random operation, go on, die again, at random times as well."""
    rng = random.Random(seed)
    place = Place(folder / f"{model}-{seed}", model)
    for _ in range(kills):
        if rng.random() < 0.3:
            yield place.attempt(nothing, after=rng.uniform(0, 0.25))
        else:
            yield place.attempt(at_operation(rng.randint(1, 40), die))
    assert place.attempt(nothing) == DONE
    place.check()


def full_disk(folder: Path, step: int) -> Iterator[str]:
    """At every operation in turn, or at every so many, there is no room; then there is."""
    for which in range(1, operations(folder, "ratings") + 1, step):
        place = Place(folder / f"full-{which}", "ratings")
        yield place.attempt(at_operation(which, run_full))
        assert place.attempt(nothing) == DONE
        place.check()


def files_too_large(folder: Path) -> Iterator[str]:
    """The system refuses to write more than so many bytes to a file."""
    for most in (16, 4000):
        place = Place(folder / f"large-{most}", "ratings")

        def limit(most: int = most) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

        yield place.attempt(limit)
        assert place.attempt(nothing) == DONE
        place.check()


def two_at_once(folder: Path, times: int) -> Iterator[str]:
    """Of two processes that go on at the same time one is refused, or comes when all is done."""
    for time_ in range(times):
        place = Place(folder / f"two-{time_}", "ratings")
        yield place.attempt(at_operation(30, die))
        processes = [fork(lambda: place._train(nothing)) for _ in range(2)]  # noqa: B023
        found = sorted(outcome(process) for process in processes)
        assert found in ([DONE, REFUSED], [DONE, DONE]), found
        yield found[1]
        place.check()


def main(folder: Path, games: list[list[Any]]) -> None:
    """Play games by name, with arguments; print how many processes came to which end."""
    named = (each_operation, again_and_again, full_disk, files_too_large, two_at_once)
    by_name: dict[str, Callable[..., Iterator[str]]] = {game.__name__: game for game in named}
    ends: dict[str, dict[str, int]] = {}
    for name, *arguments in games:
        count = ends.setdefault(name, {KILLED: 0, REFUSED: 0, DONE: 0})
        for end in by_name[name](folder, *arguments):
            count[end] += 1
    print(json.dumps(ends))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
