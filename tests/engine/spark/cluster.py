"""A standalone cluster on loopback: a master, two workers of one core each, and a driver of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.engine.spark.running import JAVA, ROOT, set_environment

DRIVER = Path(__file__).with_name("driver.py")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass
class Cluster:
    """A running cluster: its address, its folder, and its workers' processes."""

    master: str
    folder: Path
    workers: list[int]

    def executors(self) -> list[int]:
        """The processes that workers have started."""
        found = []
        for one in Path("/proc").iterdir():
            if one.name.isdigit():
                try:
                    parent = (one / "stat").read_text().rpartition(")")[2].split()[1]
                    words = (one / "cmdline").read_bytes()
                except OSError:  # it ended
                    continue
                if int(parent) in self.workers and b"CoarseGrainedExecutorBackend" in words:
                    found.append(int(one.name))
        return sorted(found)

    def kill_executor(self, number: int) -> bool:
        """Kill one (-9); False if there is none at this moment."""
        there = self.executors()
        if not there:
            return False
        os.kill(there[number % len(there)], signal.SIGKILL)
        return True

    @contextmanager
    def driver(self, *words: object) -> Iterator["subprocess.Popen[str]"]:
        """A training in a process of its own: ``driver.py`` with these arguments."""
        with (
            (self.folder / "driver.log").open("a") as log,
            subprocess.Popen(
                [sys.executable, str(DRIVER), self.master, str(self.folder), *map(str, words)],
                stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT,
            ) as process,
        ):  # fmt: skip
            try:
                yield process
            finally:
                process.kill()

    def told(self) -> str:
        """What drivers have said of themselves."""
        return (self.folder / "driver.log").read_text()[-5000:]


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A master and two workers that end with the block."""
    import pyspark

    set_environment()
    home = Path(pyspark.__file__).parent
    port = _free_port()
    address = f"spark://127.0.0.1:{port}"
    # Executors are killed on purpose, more often than a master puts up with.
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": JAVA,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }
    worker = ["worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work")]
    commands = [["master.Master", "--port", str(port)], *[[*worker, address] for _ in range(2)]]
    with ExitStack() as running:
        log = running.enter_context((folder / "cluster.log").open("w"))
        started = []
        for name, *rest in commands:
            words = [f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", "--webui-port", "0"]
            process = running.enter_context(
                subprocess.Popen(
                    [str(home / "bin" / "spark-class"), *words, *rest],
                    stdout=log,
                    stderr=log,
                    env=environment,
                )
            )
            running.callback(process.kill)
            started.append(process)
            if len(started) == 1:
                _wait_for(port, process)
        yield Cluster(address, folder, [one.pid for one in started[1:]])


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Until the master listens."""
    while process.poll() is None:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise RuntimeError("the master has ended: see cluster.log")
