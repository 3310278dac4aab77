"""The pytest fixture ``conformance``. No other module of this library imports pytest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from archive.backend.conformance.checking import examine

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.backend.conformance.findings import Report


@pytest.fixture
def conformance() -> Callable[..., Report]:
    """A function that examines a backend, with the arguments of :func:`~archive.backend.conformance.examine`.

    If there are findings, the test fails with all of them; otherwise the function returns the report.
    """

    def examined(*arguments: Any, **named: Any) -> Report:  # noqa: ANN401 (those of examine)
        report = examine(*arguments, **named)
        if report.findings:
            pytest.fail(str(report), pytrace=False)
        return report

    return examined
