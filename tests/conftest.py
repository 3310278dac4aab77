"""Which cases run, in which environment; how hypothesis draws: the same examples, unless asked; coverage.

``make test`` gives one verdict on one state of the code, by a sample; ``make test-all`` by all cases. To look
for what nobody has met yet:

    pytest --all --hypothesis-profile=explore
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

from archive.store.client.cache import VARIABLE
from tests.support.processes import pin
from tests.support.sampling import Suite, examples
from tests.support.sources import remember_sources

if TYPE_CHECKING:
    from collections.abc import Generator

# A loaded machine may take longer for an example, or to draw it, than hypothesis allows by default.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", patient, derandomize=True)
settings.register_profile("explore", patient, derandomize=False)
settings.load_profile("repeatable")

FIXTURES = Path(__file__).parents[1] / "fixtures"
pin()
remember_sources()
gc.disable()  # until all tests are collected: nothing of them is garbage
OBJECTS = 10_000
"""New objects after which garbage is looked for. Python's own 700 makes it a twentieth of all CPU here."""

UNTRACED = {"attacks", "costs", "fuzz"}
"""Folders of tests that measure costs, or run the same code thousands of times: not for coverage."""
TRACED_PROCESSES = "COVERAGE_PROCESS_CONFIG"
"""The environment variable that makes coverage trace the processes that a test starts."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--all``."""
    parser.addoption("--all", action="store_true", help="run all cases of large matrices, not a sample")


def pytest_configure(config: pytest.Config) -> None:
    """Tell which cases run before modules of tests ask.

    Raises:
        UsageError: there are no fixtures.
    """
    if not FIXTURES.is_dir():
        raise pytest.UsageError(
            "no fixtures/ here, which a source distribution leaves out: tests need a checkout"
        )
    caches = TemporaryDirectory()  # what a former state of the code has cached is no business of this one
    config.add_cleanup(caches.cleanup)
    os.environ[VARIABLE] = caches.name
    Suite.whole = config.getoption("--all")
    settings.register_profile("sample", max_examples=examples(settings().max_examples))
    settings.load_profile("sample")


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name packed bytes by their length in the id of a test: workers compare ids, and gzip holds the time."""
    return f"{len(val)} bytes" if isinstance(val, bytes) and not val.isascii() else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for no examples in the docstrings of tests: there are none, and looking takes a second."""
    return [collector for collector in (yield) if not isinstance(collector, DoctestModule)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests of effects first: most fork, which takes time for all memory that the process has by then."""
    items.sort(key=lambda item: "effects" not in item.path.parts)


def pytest_collection_finish() -> None:
    """Pass over ten thousand tests, and the modules that they import, whenever garbage is collected."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Stop coverage, if it is on, for a test of an untraced folder and the processes that it starts."""
    coverage = sys.modules.get("coverage")
    running = coverage.Coverage.current() if coverage else None
    if running is None or item.path.parent.name not in UNTRACED:
        return (yield)
    running.stop()
    try:
        with mock.patch.dict(os.environ):
            os.environ.pop(TRACED_PROCESSES, None)
            return (yield)
    finally:
        running.start()
