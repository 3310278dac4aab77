"""The fixture ``conformance`` of pytest, which is imported here alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from archive.backend.conformance.checking import examine

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.backend.conformance.findings import Report


@pytest.fixture
def conformance() -> Callable[..., Report]:
    """Examine a backend, with the arguments of :func:`~archive.backend.conformance.examine`.

    The test fails with all findings, if there are any; otherwise it is given the report.
    """

    def examined(*arguments: Any, **named: Any) -> Report:  # noqa: ANN401 (those of examine)
        report = examine(*arguments, **named)
        if report.findings:
            pytest.fail(str(report), pytrace=False)
        return report

    return examined
