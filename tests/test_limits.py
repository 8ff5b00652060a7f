"""What a container allows, from files as both versions of control groups have them."""

from pathlib import Path

import pytest

from apportion import limits, threads
from apportion.data import memory


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("max 100000", None),
        ("150000 100000", 2),
        ("50000 100000", 1),
        ("400000 100000", 4),
        ("nonsense", None),
        ("1 0", None),
    ],
)
def test_processors_of_the_second_version(tmp_path: Path, quota: str, expected: int | None) -> None:
    put(tmp_path, {"proc/self/cgroup": "0::/box\n", "sys/fs/cgroup/box/cpu.max": f"{quota}\n"})
    assert limits.processors(tmp_path) == expected


def test_the_tightest_of_all_groups_around_counts(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/outer/inner\n",
        "sys/fs/cgroup/outer/inner/memory.max": "max\n",
        "sys/fs/cgroup/outer/memory.max": "3000\n",
        "sys/fs/cgroup/memory.max": "5000\n",
        "sys/fs/cgroup/outer/cpu.max": "300000 100000\n",
        "sys/fs/cgroup/cpu.max": "700000 100000\n",
    }
    put(tmp_path, files)
    assert limits.memory(tmp_path) == 3000
    assert limits.processors(tmp_path) == 3


def test_the_first_version(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "4:memory:/a\n3:cpu,cpuacct:/b\n0::/\n",
        "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1073741824\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/cpu/b/cpu.cfs_quota_us": "200000\n",
        "sys/fs/cgroup/cpu/b/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    }
    put(tmp_path, files)
    assert limits.memory(tmp_path) == 2**30
    assert limits.processors(tmp_path) == 2


def test_where_there_are_none(tmp_path: Path) -> None:
    assert limits.processors(tmp_path) is None
    assert limits.memory(tmp_path) is None


def test_they_are_kept_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("APPORTION_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "processors", lambda: 1)
    monkeypatch.setattr(memory, "memory", lambda: 1000)
    threads._allowed.cache_clear()
    try:
        assert threads.thread_count() == 1
    finally:
        threads._allowed.cache_clear()
    with pytest.raises(Exception, match="does not fit"):
        memory.check_memory("this", 1001)
