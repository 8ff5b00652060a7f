"""The module as a whole: instruction sets, signals, forks, sources, symbols."""

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import apportion
from apportion import native
from apportion.native import kernels
from tests.native.interrupting import seconds_to_end

pytestmark = pytest.mark.skipif(kernels is None, reason="no compiled kernels")
ROOT = Path(apportion.__file__).resolve().parents[2]


def gram(rows: int, d: int, threads: int) -> np.ndarray:
    features = np.full((1, -(-d // 16) * 16), 100, dtype=np.int16)
    ones, start = np.ones(rows), np.array([0, rows])
    args = (features, d, np.zeros(rows, np.int32), ones, None, ones, start, 1.0, 2.0**10, 1.0)
    return np.asarray(kernels.gram_sums(*args, threads)[0])


def in_a_new_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.mark.parametrize("name", kernels.isas() if kernels else [])
def test_the_environment_chooses_an_instruction_set(name: str) -> None:
    code = "from apportion import _native; print(_native.isa())"
    assert in_a_new_process(code, APPORTION_ISA=name).stdout.strip() == name


def test_unknown_instruction_sets_are_refused() -> None:
    done = in_a_new_process("from apportion import _native", APPORTION_ISA="mmx")
    assert "portable, avx2 or avx512, not 'mmx'" in done.stderr
    with pytest.raises(ValueError, match="portable, avx2 or avx512"):
        kernels.use_isa("mmx")


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_long_kernel_soon(threads: int) -> None:
    before = gram(1000, 64, threads)
    # The kernel looks every 50 ms; the rest is for a machine that is busy with other things.
    assert seconds_to_end(lambda: gram(3_000_000, 512, threads)) < 0.25 + 0.5
    assert np.array_equal(gram(1000, 64, threads), before)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc")
def test_no_thread_outlives_its_call() -> None:
    def threads() -> set[str]:
        return {path.name for path in Path("/proc/self/task").iterdir()}

    before, seen = threads(), set[str]()
    call = threading.Thread(target=lambda: gram(2_000_000, 128, 4))
    call.start()
    while call.is_alive():
        seen |= threads() - before
    call.join()
    assert len(seen) >= 4  # the caller's and three more
    until = time.perf_counter() + 5.0  # the system forgets a joined thread a moment later
    while threads() & seen and time.perf_counter() < until:
        time.sleep(0.001)
    assert not threads() & seen


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_kernels_work_after_a_fork() -> None:
    code = """
import os, sys
import numpy as np
from tests.native.test_module import gram
before = gram(200_000, 64, 2)
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(gram(200_000, 64, 2), before) else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    done = in_a_new_process(code, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr


def test_threads_compute_side_by_side() -> None:
    results = []
    expected = gram(100_000, 64, 1)
    calls = [
        threading.Thread(target=lambda: results.append(gram(100_000, 64, 2))) for _ in range(4)
    ]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    assert len(results) == 4
    assert all(np.array_equal(each, expected) for each in results)


def test_a_module_older_than_its_sources_is_refused(tmp_path: Path) -> None:
    if native.sources_digest(ROOT) is None:
        pytest.skip("not a checkout")
    shutil.copytree(ROOT / "native", tmp_path / "native")
    shutil.copy(ROOT / "CMakeLists.txt", tmp_path)
    assert native.sources_digest(tmp_path) == kernels.digest
    native.check_digest(kernels.digest, native.sources_digest(tmp_path))
    source = tmp_path / "native" / "sums.cpp"
    source.write_text(source.read_text().replace("+ sums[v][p]", "- sums[v][p]"))
    with pytest.raises(ImportError, match="make native"):
        native.check_digest(kernels.digest, native.sources_digest(tmp_path))
    assert native.sources_digest(tmp_path / "native") is None  # an installation has no sources
    native.check_digest(kernels.digest, None)


@pytest.mark.skipif(shutil.which("nm") is None, reason="no nm")
@pytest.mark.parametrize("name", ["avx2", "avx512"])
def test_no_code_for_new_processors_is_shared_with_others(name: str) -> None:
    objects = sorted(ROOT.glob(f"build/native/**/CMakeFiles/{name}.dir/native/*.o"))
    if not objects:
        pytest.skip("not built here (make native)")
    for path in objects:
        listed = subprocess.run(
            ["nm", "-C", path], capture_output=True, text=True, check=True
        ).stdout
        # Weak symbols are copies of which the linker keeps any; those of this set's namespace are its own.
        shared = [
            line
            for line in listed.splitlines()
            if line[17:18] in {"W", "V", "u"}
            and f"{name}::" not in line
            and "personality" not in line
        ]
        assert not shared, f"{path.name}: {shared}"
