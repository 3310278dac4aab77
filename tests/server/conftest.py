"""Servers for all tests: one that stays as it was, one that takes companions and has little patience."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.servers import SECONDS, TOKEN, Running, store_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of the three models, which is read only."""
    with Running(store_of(tmp_path_factory.mktemp("served") / "store"), "--workers", 1) as running:
        yield running


@pytest.fixture(scope="session")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of short patience that takes companions: one worker, and room for one request behind it."""
    folder = tmp_path_factory.mktemp("strict")
    (folder / "token").write_text(f"{TOKEN}\n")
    options = ("--token-file", folder / "token", "--workers", 1, "--queue", 1, "--timeout", SECONDS)
    with Running(store_of(folder / "store", []), *options) as running:
        yield running
