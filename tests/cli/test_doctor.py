"""What the doctor finds, and what it advises."""

import json
import platform
from pathlib import Path

import pytest

from apportion.cli import doctor
from apportion.native import kernels
from apportion.threads import thread_count
from apportion.version import __version__
from tests.cli.test_commands import apportion


def test_what_is_here_is_named() -> None:
    done = apportion("doctor", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["apportion"], found["python"]) == (__version__, platform.python_version())
    assert found["threads"] == thread_count()
    assert found["compiled_kernels"] == (kernels is not None)
    assert found["instruction_set"] == (kernels and kernels.isa())
    text = apportion("doctor").stdout
    assert __version__ in text
    assert all(name in text for name in ("numpy", "threads", "instruction set", "java", "advice"))


def test_without_kernels_it_says_what_to_install() -> None:
    found = doctor.examine() | {"compiled_kernels": False, "instruction_sets": []}
    [advice] = doctor.advice(found)
    assert "install a C++ compiler" in advice


@pytest.mark.skipif(kernels is None or len(kernels.isas()) < 2, reason="one instruction set")
def test_a_slower_instruction_set_is_noticed() -> None:
    before = kernels.isa()
    kernels.use_isa("portable")
    try:
        [advice] = doctor.examine()["advice"]
    finally:
        kernels.use_isa(before)
    assert "unset APPORTION_ISA" in advice


def test_threads_that_are_no_number_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPORTION_NUM_THREADS", "many")
    assert any("not a number" in each for each in doctor.examine()["advice"])
    monkeypatch.setenv("APPORTION_NUM_THREADS", "3")
    assert doctor.examine()["threads"] == 3


def test_java_is_asked_for_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.examine()["java"] == 'openjdk version "17.0.1"'
    java.write_text("#!/bin/sh\nexit 1\n")
    assert doctor.examine()["java"] is None
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert doctor.examine()["java"] is None


def test_spark_without_java_is_noticed() -> None:
    found = doctor.examine() | {"extras": {"spark": {"pyspark": "4.0.0"}}}
    assert any("Java 17" in each for each in doctor.advice(found | {"java": None}))
    there = found | {"java": 'openjdk version "17"'}
    assert not any("Java" in each for each in doctor.advice(there))
