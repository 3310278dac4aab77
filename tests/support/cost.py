"""Memory and time that something may take, and no more."""

from __future__ import annotations

import resource
import time
import tracemalloc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20


@contextmanager
def peak_below(limit: int) -> Iterator[None]:
    """Memory may grow by so many bytes meanwhile."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit


MEMORY = 512 << 20
"""Bytes that no file of a few hundred bytes may take to be refused, nor to be read."""

SECONDS = 20  # on a busy machine


@contextmanager
def affordable() -> Iterator[None]:
    """Fail where something takes more memory or time than that."""
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 (no file)
        size = int(file.read().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    start = time.process_time()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert time.process_time() - start < SECONDS
