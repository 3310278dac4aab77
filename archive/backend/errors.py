"""The errors of lowering and of lowered modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archive.backend.registry import Runtime
    from archive.debuginfo.symbolicate import Symbolication, TracebackFrame

NO_HANDLE = -1
"""Stands in place of a debug handle where no operation runs or has failed."""


class OperationError(RuntimeError):
    """An operation of a lowered module failed.

    Attributes:
        message: the message of the failure.
        handle: the operation's debug handle.
    """

    def __init__(self, message: str, handle: int) -> None:
        super().__init__(message)
        self.message = message
        self.handle = handle


def failed_handle(error: Exception, runtime: Runtime) -> int:
    """The debug handle of the operation that failed in a runtime; -1 where none did."""
    return error.handle if isinstance(error, OperationError) else getattr(runtime, "last_handle", NO_HANDLE)


class BackendError(RuntimeError):
    """A failure in a backend; ``str()`` gives it with the model's source, laid out as PyTorch does.

    Attributes:
        message: the message of the failure.
        backend: the backend's name.
        symbolication: the explanation of the failed operation's debug handle; None if no operation failed.
    """

    def __init__(self, message: str, backend: str, symbolication: Symbolication | None = None) -> None:
        super().__init__(message, backend, symbolication)
        self.message = message
        self.backend = backend
        self.symbolication = symbolication

    @property
    def handles(self) -> tuple[int, ...]:
        """The debug handles of the failed operation, inner ones first; none if no operation failed."""
        return () if self.symbolication is None else self.symbolication.handles

    @property
    def module_hierarchy(self) -> str:
        """The path to the failed operation: ``top(Net)::<unknown>.layer(Linear)::forward.aten::linear``."""
        return "" if self.symbolication is None else self.symbolication.module_hierarchy

    @property
    def frames(self) -> tuple[TracebackFrame, ...]:
        """The traceback in the model's source, outermost first."""
        return () if self.symbolication is None else self.symbolication.frames

    def __str__(self) -> str:
        return self.message if self.symbolication is None else f"{self.message}\n\n{self.symbolication}"
