"""Ctrl-C in the middle of a kernel."""

import gc
import os
import signal
import threading
import time
from collections.abc import Callable

import pytest


def seconds_to_end(kernel: Callable[[], object]) -> float:
    """How long a kernel, called again and again, goes on after Ctrl-C.

    There is no garbage collection meanwhile: what is raised in its callbacks is lost, Ctrl-C as well.
    """
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    # Whatever other tests of this process have made of the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, interrupt)
    until = time.perf_counter() + 60.0
    gc.disable()
    try:
        timer.start()
        while time.perf_counter() < until:
            kernel()
    except KeyboardInterrupt:
        return time.perf_counter() - sent[0]
    finally:
        gc.enable()
        timer.join()
        signal.signal(signal.SIGINT, before)
    pytest.fail("Ctrl-C was lost")
