"""``ContextVar``: what a call sets lasts until it is reset, which the same call must do."""

from __future__ import annotations

from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from archive.effects.capture.sites import error_at

if TYPE_CHECKING:
    from archive.effects.capture.call import CapturedCall
    from archive.effects.capture.sites import Statement


@dataclass(frozen=True, slots=True, eq=False)
class SetToken:
    """What a variable had before the call set it; None if nothing."""

    before: SetValue | None


@dataclass(frozen=True, slots=True, eq=False)
class SetValue:
    """A value that the call has set, and the statement that did."""

    value: object
    at: Statement | None


class ContextVariable:
    """The proxy of a ``ContextVar``, whose values the call keeps to itself.

    Args:
        call: the captured call.
        real: the variable.
    """

    def __init__(self, call: CapturedCall, real: ContextVar[Any]) -> None:
        self._call, self._real = call, real
        self.name = real.name

    def get(self, *default: Any) -> Any:  # noqa: ANN401
        """The value; the default if the call has set none."""
        if self._real in self._call.context_values:
            return self._call.context_values[self._real].value
        if self._real in copy_context():
            self._call.refuse(f"a ContextVar that was set before the call: {self.name}")
        return default[0] if default else self._call.wrap(self._real.get(), None)

    def set(self, value: object) -> SetToken:
        """Set a value, until the token is given back."""
        values = self._call.context_values
        token = SetToken(values.get(self._real))
        values[self._real] = SetValue(value, self._call.here())
        return token

    def reset(self, token: SetToken) -> None:
        """Go back to the value before."""
        values = self._call.context_values
        if token.before is None:
            values.pop(self._real, None)
        else:
            values[self._real] = token.before


def check_reset(call: CapturedCall) -> None:
    """Refuse a call that leaves a variable set, since nothing in an archive could.

    Raises:
        CaptureError: the call does.
    """
    for variable, value in call.context_values.items():
        raise error_at(f"a ContextVar that the call leaves set: {variable.name}", value.at)
