"""Spark for tests: small, on loopback, one session for all. What is missing is said once."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # for processes that end soon


def missing() -> str:
    """Why these tests cannot run here; empty if they can."""
    try:
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        return f"{error.name} is not installed: make engines"
    java = shutil.which("java")
    home = os.environ.get("JAVA_HOME")
    if java is None and not (home and Path(home, "bin", "java").exists()):
        return "there is no Java: Spark 4 needs Java 17 or later"
    found = subprocess.run(
        [java or str(Path(str(home), "bin", "java")), "-version"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    version = found.stderr.split('"')[1].split(".")[0] if '"' in found.stderr else "0"
    return "" if int(version) >= 17 else f"Java {version} is too old: Spark 4 needs 17 or later"


def set_environment() -> None:
    """Python of the executors is this one, everything is on loopback."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)


def kept_by(session: Any) -> Path:
    """What the one executor of a local session keeps of trainings."""
    local = Path(session.sparkContext.getConf().get("spark.local.dir"))
    return next(local.glob("blockmgr-*")) / "apportion"


def make_session(folder: Path, master: str = "local[2]", **settings: str) -> Any:
    """A session that keeps its files in a folder."""
    from pyspark.sql import SparkSession

    set_environment()
    builder = SparkSession.builder.master(master).appName("apportion tests")
    ours = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": f"{JAVA} -Dderby.system.home={folder}",
        "spark.executor.extraJavaOptions": JAVA,
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    for name, value in ours.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
