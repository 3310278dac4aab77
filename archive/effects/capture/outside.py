"""What a model reaches outside of itself by libraries: files, processes, names in their modules.

Python tells its audit hooks of files and processes, whichever library opens or starts them. Modules of
libraries get a class that refuses to set their names, for as long as a call is captured.
"""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from archive.effects.capture.function_code import is_model_module

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from archive.effects.capture.call import CapturedCall

    Current = Callable[[], CapturedCall | None]

OUTSIDE = ": what it does outside the model would be lost"
EVENTS = ("open", "os.", "shutil.", "subprocess.", "socket.", "tempfile.", "glob.", "pathlib.")
"""Beginnings of audit events, of what reaches outside."""
CAPTURE = "archive"
WITHIN = frozenset({"importlib", "inspect", "linecache", "tokenize", "torch", "traceback", "zipimport"})
"""Packages that read files for themselves: imports, source lines, PyTorch."""
FOR_THE_MODEL = ("torch.serialization", "torch.hub")
"""Modules among them that read and write what the model asks for."""


@functools.cache
def audit(current: Current) -> None:
    """Refuse, from now on, what models do to files and processes while they are captured.

    Args:
        current: gives the captured call of this thread.
    """

    def hook(event: str, _: tuple[Any, ...]) -> None:
        if event.startswith(EVENTS):
            call = current()
            if call is not None and _is_for_the_model(sys._getframe(1)):
                call.refuse(f"{event}{OUTSIDE}")

    sys.addaudithook(hook)


def _is_for_the_model(frame: FrameType | None) -> bool:
    """Whether a library does something for the model's code, and not for an import or for source lines."""
    while frame is not None and not _is_model_code(frame):
        module = frame.f_globals.get("__name__") or ""
        package = module.partition(".")[0].removeprefix("_frozen_")
        if package in WITHIN and not module.startswith(FOR_THE_MODEL):
            return False
        frame = frame.f_back
    return frame is not None


def _is_model_code(frame: FrameType) -> bool:
    """Whether a frame is one of a copied function: these have globals of their own kind."""
    return type(frame.f_globals) is not dict


def _is_set_by_the_model(frame: FrameType | None) -> bool:
    """Whether the model's code sets a name, perhaps by a builtin that the capture replaces."""
    while frame is not None and (frame.f_globals.get("__name__") or "").partition(".")[0] == CAPTURE:
        frame = frame.f_back
    return frame is not None and _is_model_code(frame)


class Watch:
    """Refuses that a captured model sets or deletes names in modules of libraries.

    Args:
        current: gives the captured call of this thread.
    """

    def __init__(self, current: Current) -> None:
        self._current = current
        self._kinds: dict[type, type] = {}
        self._watched: list[tuple[ModuleType, type]] = []

    def begin(self) -> None:
        """Give each module a class that refuses."""
        for name, module in list(sys.modules.items()):
            kind: type = type(module)
            if issubclass(kind, ModuleType) and not is_model_module(name):
                self._kinds[kind] = self._kinds.get(kind) or _watching(self._current, kind)
                self._watched.append((module, kind))
                _become(module, self._kinds[kind])

    def end(self) -> None:
        """Give the modules their own classes again."""
        while self._watched:
            _become(*self._watched.pop())


def _become(module: ModuleType, kind: type) -> None:
    """Give a module another class, past a ``__setattr__`` of its own."""
    object.__setattr__(module, "__class__", kind)


def _watching(current: Current, kind: Any) -> Any:  # noqa: ANN401
    """A class of modules like another one, whose names no captured model sets."""

    def check(module: ModuleType, name: str) -> None:
        call = current()
        if call is not None and _is_set_by_the_model(sys._getframe(2)):
            call.refuse(f"{module.__name__}.{name} that is set{OUTSIDE}")

    def set_name(self: Any, name: str, value: object) -> None:  # noqa: ANN401
        check(self, name)
        kind.__setattr__(self, name, value)

    def delete_name(self: Any, name: str) -> None:  # noqa: ANN401
        check(self, name)
        kind.__delattr__(self, name)

    return type(
        kind.__name__, (kind,), {"__slots__": (), "__setattr__": set_name, "__delattr__": delete_name}
    )
