"""One browser for all tests of the page that need one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.page.browser import started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Started once for a module of tests."""
    with started() as browser:
        yield browser
