"""Machines that this one is not: with little memory, or without compiled kernels."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from apportion.engine import choice, cpu, topk, users
from apportion.privacy import discrete
from apportion.twins import topk as topk_twin


@contextmanager
def this_much_memory(size: int) -> Iterator[None]:
    """As on a machine, or in a container, of so many bytes."""
    with mock.patch("apportion.data.memory._memory", return_value=size):
        yield


@contextmanager
def nothing_compiled() -> Iterator[None]:
    """As where the package was installed without a compiler."""
    choice._say_what_is_missing.cache_clear()
    with ExitStack() as stack:
        for module in (choice, users, discrete):
            stack.enter_context(mock.patch.object(module, "kernels", None))
        stack.enter_context(mock.patch.object(cpu, "_native", None))
        stack.enter_context(mock.patch.object(topk, "_topk", topk_twin))
        yield
