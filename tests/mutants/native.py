"""Plants one small fault at a time in the C++ that bounds, sums and samples; the kernels' tests must notice.

    python -m tests.mutants.native [--all] [--only PART-OF-A-NAME] [--seconds MOST]

Without ``--all`` every file gives a sample, the same each time. A faulty file is compiled for the best
instruction set of this machine and linked with the other objects of ``make native``. What was found is in
build/mutants-native/found.json: another run tries what is new, or survived. Faults that native/MUTANTS.md
lists as harmless, with the reason, are not tried. It fails as ``run`` does.
"""

import argparse
import json
import os
import random
import re
import resource
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.mutants.run import verdict

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build/native" / Path(sys.prefix).name
KEPT = ROOT / "build/mutants-native"
PAGE = ROOT / "native/MUTANTS.md"
SAMPLE = 24  # of a file
# Seconds of processors and memory for the tests of one fault: more of either is noticed, too.
TIME, MEMORY = 120, 6 << 30
SLOWER = 3  # times what they take without a fault
WAIT = 20 * TIME  # where the machine is busy with other things


@dataclass(frozen=True)
class Target:
    """A file, or a part of it from one line to another (as regular expressions), and its tests."""

    name: str
    tests: str
    first: str = "^namespace {"
    last: str = "^}  // namespace$"
    of: str = ""  # the file that is compiled, if it is another one


TARGETS = (
    Target("sums.cpp", "tests/native/test_sums.py"),
    Target("gradients.cpp", "tests/native/test_gradients.py"),
    Target("noise.cpp", "tests/native/test_noise.py"),
    Target("users.cpp", "tests/native/test_users.py", "^void shorten", "^// found"),
    Target("bind_sums.cpp", "tests/native/test_sums.py", "^nb::tuple gram_sums", "^}  // namespace$"),
    Target("vectors.hpp", "tests/native/test_sums.py", "load_shorts", "^// The sums of eight", "sums.cpp"),
    Target("losses.hpp", "tests/native/test_gradients.py", "^inline double exp", "^}  //", "gradients.cpp"),
)  # fmt: skip
# What an exchange of these changes is how fast a kernel is, or how soon it hears of Ctrl-C.
SPEED = re.compile(
    r"prefetch|ask_for|AHEAD|stopped\(\)|constexpr int TILE|#|stable_sort|(BLOCK|PIECE_ROWS|SEEN) = |NEAR"
)
OTHER_SETS = re.compile(r"__AVX2__|__x86_64__|else")

# One expression for another: lanes, signs, thresholds, off-by-one, rounding.
OPERATORS = (
    (r" \+ ", " - "), (r" - ", " + "), (r" \* ", " + "), (r" / ", " * "), (r" \+= ", " -= "),
    (r" \+= ", " = "), (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "),
    (r" == ", " != "), (r" && ", " || "),
    (r" & ", " | "), (r" \| ", " & "), (r" << ", " >> "), (r" >> ", " << "), (r" \? ", " ? !"),
    (r"std::max", "std::min"), (r"std::min", "std::max"), (r"std::fabs", ""), (r"std::sqrt", ""),
    (r"greater\(", "lesser("), (r"truncated\(", "rounded("), (r"int64_t\((units|part)\)", r"std::llrint(\1)"),
    (r"\bcontinue;", ";"), (r"\bsize\(", "("), (r"= -", "= "), (r"\(-", "("),
    (r"(?<![\w.])(\d+)(?![\w.])", "PLUS_ONE"), (r"(?<![\w.])(\d+\.\d+f?)(?![\w])", "TWICE"),
)  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One line of a file, before and after."""

    target: Target
    line: int
    before: str
    after: str

    @property
    def key(self) -> str:
        """Says which fault it is, wherever in the file the line is."""
        return f"{self.target.name}: {self.before.strip()}  ->  {self.after.strip()}"


def mutants(target: Target) -> Iterator[Mutant]:
    """All faults of a target, in order."""
    lines = (ROOT / "native" / target.name).read_text().splitlines()
    inside, other_set = False, False
    for number, line in enumerate(lines):
        inside = inside or re.search(target.first, line) is not None
        if inside and re.search(target.last, line):
            return
        if line.startswith("#"):
            other_set = re.match("#(if|elif|else)", line) is not None and bool(
                OTHER_SETS.search(line)
            )
        code = line.split("//")[0].rstrip()
        if not inside or other_set or not code.strip() or SPEED.search(code):
            continue
        if re.match(r"^\s*(template|static_assert|require|using|typedef|case)", code):
            continue
        for pattern, other in OPERATORS:
            for found in re.finditer(pattern, code):
                changed = _exchanged(found, other)
                after = code[: found.start()] + changed + code[found.end() :]
                yield Mutant(target, number, code, after)
        if re.match(r"^\s+[\w.\[\]()>-]+(\[.*\])? [-+*|&]?= .*;$|^\s+[\w.:]+\(.*\);$", code):
            yield Mutant(target, number, code, " " * (len(code) - len(code.lstrip())) + ";")


def _exchanged(found: re.Match[str], other: str) -> str:
    if other == "PLUS_ONE":
        return str(int(found[1]) + 1)
    if other == "TWICE":
        number = found[1].rstrip("f")
        return f"{2 * float(number) or 1.0}" + ("f" if found[1].endswith("f") else "")
    return found.expand(other)


class Builder:
    """Compiles a faulty file and puts the module into a copy of the package."""

    def __init__(self) -> None:
        self.package = KEPT / "package"
        [built] = (ROOT / "src/apportion").glob(f"_native{sysconfig.get_config_var('EXT_SUFFIX')}")
        subprocess.run([ROOT / ".ci/with_module", self.package, built], check=True)
        self.module = self.package / "apportion" / built.name
        from apportion.native import kernels

        self.isa = kernels.isas()[-1]
        listed = subprocess.run(
            ["ninja", "-C", BUILT, "-t", "commands", "_native"], capture_output=True, text=True, check=True,
            env={**os.environ, "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}"},
        ).stdout.splitlines()  # fmt: skip
        self.commands = [shlex.split(each) for each in listed]
        shutil.copytree(ROOT / "native", KEPT / "native", dirs_exist_ok=True)

    def build(self, mutant: Mutant | None) -> bool:
        """Whether the file could be compiled with the fault."""
        name = "sums.cpp" if mutant is None else mutant.target.of or mutant.target.name
        place = f"/{self.isa}.dir/native/{name}.o" if "bind" not in name else f"/native/{name}.o"
        [compile_it] = [
            c for c in self.commands if "-c" in c and c[c.index("-o") + 1].endswith(place)
        ]
        shutil.copytree(ROOT / "native", KEPT / "native", dirs_exist_ok=True)
        if mutant is not None:
            path = KEPT / "native" / mutant.target.name
            lines = path.read_text().splitlines()
            lines[mutant.line] = mutant.after
            path.write_text("\n".join(lines) + "\n")
        object_file = compile_it[compile_it.index("-o") + 1]
        made = KEPT / "mutant.o"
        command = [
            made if each == object_file else each for each in compile_it if each not in {"-MD"}
        ]
        for option in ("-MT", "-MF"):
            at = command.index(option)
            del command[at : at + 2]
        command[command.index("-c") + 1] = KEPT / "native" / name
        quick = ["-O1", "-w", f"-I{ROOT / 'native'}"]
        if subprocess.run(
            [*command, *quick], cwd=BUILT, capture_output=True, check=False
        ).returncode:
            return False
        [link] = [c for c in self.commands if "-shared" in c]
        link = link[
            next(i for i, each in enumerate(link) if each.endswith(("c++", "g++", "clang++"))) :
        ]
        link = [
            str(made) if each == object_file else each
            for each in link
            if each != "&&" and each != ":"
        ]
        link[link.index("-o") + 1] = str(self.module)
        subprocess.run(link, cwd=BUILT, capture_output=True, check=True)
        return True

    def noticed(self, tests: str, seconds: int) -> bool:
        """Whether the tests fail, or take too long or too much."""
        sets = [each for each in ("portable", "avx2", "avx512") if each != self.isa]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", tests]
        command += ["-k", "not " + " and not ".join(sets)]
        own = {"PYTHONPATH": str(self.package), "PYTHONDONTWRITEBYTECODE": "1"}
        own |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "APPORTION_NUM_THREADS"), "1")
        try:
            done = subprocess.run(
                command, cwd=ROOT, capture_output=True, timeout=WAIT, check=False,
                env={**os.environ, **own},
                preexec_fn=partial(_limit, seconds),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return True
        return done.returncode != 0


def _limit(seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def main() -> int:
    """Try the faults; 0 if enough are noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    chosen: list[Mutant] = []
    for target in TARGETS:
        every = list(mutants(target))
        few = random.Random(target.name).sample(every, min(SAMPLE, len(every)))
        chosen += [each for each in (every if options.all else few) if options.only in each.key]
    builder = Builder()
    assert builder.build(None)
    seconds = dict[str, int]()
    for tests in sorted({each.target.tests for each in chosen}):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        assert not builder.noticed(tests, TIME), f"{tests} fails without a fault"
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        seconds[tests] = int(3 + SLOWER * used)
    path = KEPT / "found.json"
    found: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    listed = set(re.findall(r"^- `(.*)`$", PAGE.read_text(), re.MULTILINE))
    until = time.monotonic() + options.seconds
    for number, mutant in enumerate(chosen):
        if time.monotonic() > until:
            break
        if mutant.key in listed:
            found[mutant.key] = "survived"
        elif found.get(mutant.key, "survived") == "survived":
            built = builder.build(mutant)
            fate = "not C++" if not built else "survived"
            if built and builder.noticed(mutant.target.tests, seconds[mutant.target.tests]):
                fate = "noticed"
            found[mutant.key] = fate
            path.write_text(json.dumps(found, indent=1))
            print(f"{number + 1} of {len(chosen)}: {fate}: {mutant.key}", flush=True)
    fates = {each.key: found[each.key] for each in chosen if each.key in found}
    survivors = {key for key, fate in fates.items() if fate == "survived"}
    for key in sorted(survivors - listed):
        print(f"survived, without a reason in native/MUTANTS.md: {key}")
    noticed = sum(fate == "noticed" for fate in fates.values())
    return verdict(noticed + len(survivors), noticed, len(survivors & listed))


if __name__ == "__main__":
    sys.exit(main())
