"""What can go wrong with lowered modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archive.debuginfo.symbolicate import Symbolication, TracebackFrame

NO_HANDLE = -1
"""Stands in place of a debug handle where no operation runs or has failed."""


class LoweringError(RuntimeError):
    """A module that cannot be lowered: PyTorch's own words where PyTorch has some."""


class OperationError(RuntimeError):
    """An operation of a lowered module that failed, by its debug handle.

    Attributes:
        message: what is wrong.
        handle: of the operation.
    """

    def __init__(self, message: str, handle: int) -> None:
        super().__init__(message)
        self.message = message
        self.handle = handle


class BackendError(RuntimeError):
    """What went wrong in a backend, with the model's own source; the text is laid out as PyTorch's.

    Attributes:
        message: what is wrong.
        backend: its name.
        symbolication: what the failed operation's debug handle stands for; None where no operation failed.
    """

    def __init__(self, message: str, backend: str, symbolication: Symbolication | None = None) -> None:
        super().__init__(message, backend, symbolication)
        self.message = message
        self.backend = backend
        self.symbolication = symbolication

    @property
    def handles(self) -> tuple[int, ...]:
        """The debug handles of what failed, inner ones first."""
        return () if self.symbolication is None else self.symbolication.handles

    @property
    def module_hierarchy(self) -> str:
        """Where in the model it failed: ``top(Net)::<unknown>.layer(Linear)::forward.aten::linear``."""
        return "" if self.symbolication is None else self.symbolication.module_hierarchy

    @property
    def frames(self) -> tuple[TracebackFrame, ...]:
        """The traceback in the model's source, outermost first."""
        return () if self.symbolication is None else self.symbolication.frames

    def __str__(self) -> str:
        return self.message if self.symbolication is None else f"{self.message}\n\n{self.symbolication}"
