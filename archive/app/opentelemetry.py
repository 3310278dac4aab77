"""Log records of OpenTelemetry, explained before they are exported.

Experimental: OpenTelemetry's logs for Python are in modules that it calls private, and change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archive.app.explaining import Explainer


class ExplainingProcessor:
    """A processor of log records, to be added to a ``LoggerProvider`` before the one that exports.

    Args:
        explainer: explains.
    """

    def __init__(self, explainer: Explainer) -> None:
        self._explainer = explainer

    def on_emit(self, log_record: Any) -> None:  # noqa: ANN401 (private, and named otherwise in each release)
        """Explain the failures in a record's body and in its attributes."""
        try:
            record = log_record.log_record
            record.body = self._explainer.explain_event(record.body)
            for key, value in list((record.attributes or {}).items()):
                explained = self._explainer.explain_event(value)
                if explained is not value:
                    record.attributes[key] = explained
        except Exception as problem:  # noqa: BLE001 (it would reach the application)
            self._explainer.count_problem(problem)

    def shutdown(self) -> None:
        """Nothing: who made the explainer closes it."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 (its interface)
        """True: nothing is held back."""
        return True
