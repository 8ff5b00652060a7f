"""``apportion doctor``: what is installed here, and what would help."""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.table import Table

from apportion.cli.output import Output
from apportion.native import kernels
from apportion.threads import thread_count
from apportion.version import __version__

_LIBRARIES = ("numpy", "scipy", "polars", "cryptography")
_COMPILER = (
    "install a C++ compiler (g++ 11 or clang 14 or later), then build the kernels: "
    "pip install --force-reinstall --no-deps --no-cache-dir apportion (in a checkout: make native)"
)


def doctor(to: Output) -> None:
    """Show what Apportion runs on here: versions, processor, threads, compiled kernels; and what to install.

    Put its output into a report of a problem. Nothing of your data is read.

    [bold]Examples[/bold]

      apportion doctor

      apportion doctor --json
    """
    found = examine()
    to.result(found)
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in found.items():
        if name != "advice":
            table.add_row(name.replace("_", " "), _words(value))
    to.show(table)
    for each in found["advice"] or ["nothing is missing"]:
        to.show(f"\n[bold]advice[/bold]  {each}", soft_wrap=False)


def examine() -> dict[str, Any]:
    """By name: what is there, as plain values; ``advice`` is what to do about what is not."""
    asked = os.environ.get("APPORTION_NUM_THREADS")
    found: dict[str, Any] = {
        "apportion": __version__,
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in _LIBRARIES},
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "processors": os.cpu_count(),
        "threads": thread_count(),
        "threads_asked_for": asked,
        "compiled_kernels": kernels is not None,
        "instruction_set": None if kernels is None else kernels.isa(),
        "instruction_sets": [] if kernels is None else kernels.isas(),
        "kernels_digest": None if kernels is None else kernels.digest[:16],
        "extras": {extra: dict(packages) for extra, packages in _extras().items()},
        "java": _java(),
    }
    return found | {"advice": list(advice(found))}


def advice(found: dict[str, Any]) -> Iterator[str]:
    """What to do about what is missing, of what ``examine`` has found."""
    if not found["compiled_kernels"]:
        yield f"no compiled kernels: NumPy does their work, many times slower; {_COMPILER}"
    elif found["instruction_set"] != found["instruction_sets"][-1]:
        best = found["instruction_sets"][-1]
        yield f"this processor has {best}: unset APPORTION_ISA to use it (results are the same)"
    if found["threads_asked_for"] and not found["threads_asked_for"].isdecimal():
        yield "APPORTION_NUM_THREADS is not a number, and is ignored"
    if found["extras"].get("spark", {}).get("pyspark") and found["java"] is None:
        yield "pyspark needs Java 17: install it (apt install openjdk-17-jre-headless)"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _extras() -> dict[str, list[tuple[str, str | None]]]:
    """Of each extra its packages, with the versions that are installed."""
    found: dict[str, list[tuple[str, str | None]]] = {}
    try:
        required = metadata.requires("apportion") or []
    except metadata.PackageNotFoundError:
        return found
    for each in required:
        extra = re.search(r"extra == ['\"]([^'\"]+)['\"]", each)
        name = re.match(r"[A-Za-z0-9._-]+", each)
        if extra and name:
            found.setdefault(extra[1], []).append((name[0], _version(name[0])))
    return found


def _processor() -> str:
    with_names = Path("/proc/cpuinfo")
    names = (
        re.findall(r"model name\s*:\s*(.+)", with_names.read_text()) if with_names.exists() else []
    )
    return (
        f"{names[0]} ({platform.machine()})"
        if names
        else platform.processor() or platform.machine()
    )


def _java() -> str | None:
    command = shutil.which("java")
    if command is None:
        return None
    try:
        done = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    first = (done.stderr or done.stdout).strip().splitlines()
    return first[0] if first and done.returncode == 0 else None


def _words(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_words(each)}" for name, each in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return str(value)
