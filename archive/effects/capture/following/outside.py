"""What a model can reach through libraries: files, processes, clocks, names in their modules.

Python notifies its audit hooks of files and processes, whichever library opens or starts them, and a thread's
profile function of each C function that is called: no function that asks the system or the clock gets past
it, whatever name or library it is called by. While a call is captured, modules of libraries have a class that
refuses to set their names.

What a call sets in a ``ContextVar`` lasts until the call resets it, as it must.
"""

from __future__ import annotations

import functools
import gc
import sys
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from datetime import date
from random import Random
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.graph.sites import error_at, is_model_module
from archive.effects.errors import OUTSIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from archive.effects.capture.graph.sites import ModelStatement
    from archive.effects.capture.table.call import CapturedCall

    Current = Callable[[], CapturedCall | None]


# --- context variables


@dataclass(frozen=True, slots=True, eq=False)
class SetToken:
    """What a variable held before the call set it; None if nothing."""

    before: SetValue | None


@dataclass(frozen=True, slots=True, eq=False)
class SetValue:
    """A value that the call set, and the statement that did."""

    value: object
    at: ModelStatement | None


class ContextVariable:
    """The proxy of a ``ContextVar``, whose values stay within the call."""

    def __init__(self, call: CapturedCall, real: ContextVar[Any]) -> None:
        self._call, self._real = call, real
        self.name = real.name

    def get(self, *default: Any) -> Any:
        """The value; the default if the call has set none."""
        if self._real in self._call.regions.context_values:
            return self._call.regions.context_values[self._real].value
        if self._real in copy_context():
            self._call.refuse(f"a ContextVar that was set before the call: {self.name}")
        return default[0] if default else self._call.wrap(self._real.get(), None)

    def set(self, value: object) -> SetToken:
        """Set a value, until the token is returned."""
        values = self._call.regions.context_values
        token = SetToken(values.get(self._real))
        values[self._real] = SetValue(value, self._call.here())
        return token

    def reset(self, token: SetToken) -> None:
        """Restore the previous value."""
        values = self._call.regions.context_values
        if token.before is None:
            values.pop(self._real, None)
        else:
            values[self._real] = token.before


def check_reset(call: CapturedCall) -> None:
    """Refuse a call that leaves a variable set, since nothing in an archive could do that."""
    for variable, value in call.regions.context_values.items():
        raise error_at(f"a ContextVar that the call leaves set: {variable.name}", value.at)


# --- outside

EVENTS = ("open", "os.", "shutil.", "subprocess.", "socket.", "tempfile.", "glob.", "pathlib.")
"""Prefixes of audit events for what reaches outside."""
CAPTURE = "archive"
WITHIN = frozenset({"importlib", "inspect", "linecache", "tokenize", "torch", "traceback", "zipimport"})
"""Packages that read files for themselves: imports, source lines, PyTorch."""
FOR_THE_MODEL = ("torch.serialization", "torch.hub")
"""Modules among them that read and write what the model asks for."""
OF_THE_PROCESS = ": what it does or returns belongs to this process, and no table has it"
SYSTEM = frozenset(
    [
        *(
            "_decimal",
            "_locale",
            "_posixsubprocess",
            "_signal",
            "_socket",
            "_uuid",
            "atexit",
            "decimal",
            "faulthandler",
            "fcntl",
        ),
        *("gc", "grp", "msvcrt", "nt", "posix", "pwd", "resource", "select", "signal", "syslog", "termios"),
        *("time", "tracemalloc", "winreg"),
    ]
)
"""Modules in C whose functions ask or change the system, the clock or the interpreter.

Functions of ``decimal`` say ``_decimal`` since Python 3.14.
"""
HARMLESS_FUNCTIONS = {
    **dict.fromkeys(["decimal", "_decimal"], frozenset(["localcontext"])),
    "posix": frozenset(["fspath"]),
    "nt": frozenset(["fspath"]),
    "time": frozenset(["struct_time"]),
}
"""Their functions that do neither; nor do those for paths as texts, whose names begin with ``_path_``."""
SHOWN = {
    "_decimal": "decimal",
    "posix": "os",
    "nt": "os",
    "_signal": "signal",
    "_locale": "locale",
    "_thread": "threading",
}
TORCH = frozenset(["torch", "torch._C"])
LOOKED_AT = SYSTEM | TORCH | {"_thread"}
DEFAULT = torch.default_generator
THREADS = frozenset(["get_ident", "get_native_id", "start_new_thread"])
CLOCKS = frozenset(["fromtimestamp", "now", "today", "utcnow"])
"""Class methods of dates that read the clock or the time zone."""
GENERATOR_METHODS = frozenset(
    [
        "manual_seed",
        "set_state",
        "set_offset",
        "initial_seed",
        "get_state",
        "get_offset",
        "clone_state",
        "graphsafe_get_state",
        "graphsafe_set_state",
        *vars(Random),
        *vars(Random.__base__),
        *CLOCKS,
    ]
)
"""Names of methods that may belong to a generator."""
SETTER_PREFIXES = ("_set_", "set_")
"""Prefixes of the names of PyTorch's C functions that change settings of the process."""
SETTING_BACK = (
    "torch._C",
    "torch._dispatch",
    "torch._jit_internal",
    "torch._library",
    "torch._ops",
    "torch.amp",
    "torch.autograd",
    "torch.fx",
    "torch.nn.attention",
    "torch.overrides",
    "torch.random",
    "torch.utils",
)
"""Parts of PyTorch that change such a setting temporarily, or that the capture follows."""


def _asks_or_changes(function: Any) -> str:
    """The name of a function in C that no table can follow; "" for others."""
    module, name = function.__module__, function.__name__
    owner = function.__self__
    shown_name = ""
    if module is None:
        if isinstance(owner, Random):
            shown_name = f"random.{name}"
        elif owner is DEFAULT:
            shown_name = f"torch.default_generator.{name}"
        elif isinstance(owner, torch.Generator) and name == "seed":
            shown_name = f"torch.Generator.{name}"
        elif isinstance(owner, type) and issubclass(owner, date) and name in CLOCKS:
            shown_name = f"{owner.__name__}.{name}"
    elif module in TORCH:
        shown_name = f"{module}.{name}" if name.startswith(SETTER_PREFIXES) else ""
    elif module == "_thread":
        shown_name = f"threading.{name}" if name in THREADS else ""
    elif name not in HARMLESS_FUNCTIONS.get(module, ()) and not name.startswith("_path_"):
        shown_name = f"{SHOWN.get(module, module)}.{name}"
    return shown_name


@contextmanager
def watched_calls(call: CapturedCall) -> Iterator[None]:
    """Refuse functions in C that ask the system, the clock or the interpreter, or change them.

    A profile function that this thread already has sees what it would see otherwise; a profiler in C waits.
    So does the garbage collector, which would run others' callbacks and finalizers as if the model called
    them.
    """
    before: Any = sys.getprofile()
    collects = gc.isenabled()

    def see(frame: FrameType, event: str, what: Any) -> None:
        if event != "c_call":
            return
        module = what.__module__
        if module in LOOKED_AT or (module is None and what.__name__ in GENERATOR_METHODS):
            name = _asks_or_changes(what)
            if name and _is_called_for_the_model(frame, torch_too=name.startswith("torch.")):
                call.refuse(f"{name}{OF_THE_PROCESS}")

    def see_both(frame: FrameType, event: str, what: Any) -> None:
        before(frame, event, what)
        see(frame, event, what)

    if before is not None and not callable(before) and not hasattr(before, "enable"):
        call.refuse("a profiler in C runs in this thread, and would not see the call")
    gc.disable()
    sys.setprofile(see_both if callable(before) else see)
    try:
        yield
    finally:
        sys.setprofile(before if callable(before) else None)
        if collects:
            gc.enable()
        if before is not None and not callable(before):
            before.enable()


def for_the_model(real: Callable[..., Any], current: Current) -> Callable[..., Any]:
    """A method of ``os.environ``, refused where a library or the model itself calls it for the model."""

    def method(*args: Any) -> Any:
        call = current()
        if call is not None and _is_for_the_model(sys._getframe(1)):
            call.refuse(f"os.environ{OF_THE_PROCESS}")
        return real(*args)

    return method


def _is_called_for_the_model(frame: FrameType, *, torch_too: bool) -> bool:
    """Whether a function is called for the model rather than by the capture itself."""
    if str(frame.f_globals.get("__name__")).partition(".")[0] == CAPTURE:
        return False
    if not torch_too:
        return _is_for_the_model(frame)
    at: FrameType | None = frame
    while at is not None and not _is_model_code(at):
        if str(at.f_globals.get("__name__")).startswith((*SETTING_BACK, f"{CAPTURE}.")):
            return False
        at = at.f_back
    return at is not None


@functools.lru_cache(maxsize=256)
def _reaches_outside(event: str) -> bool:
    """Whether a kind of event does: kinds are few, and one may come thousands of times."""
    return event.startswith(EVENTS)


@functools.cache
def audit(current: Current) -> None:
    """From now on, refuse what models do to files and processes while they are captured."""
    is_ending = sys.is_finalizing  # no global is left when Python notifies the hook for the last time

    def hook(event: str, _: tuple[Any, ...]) -> None:
        if not is_ending() and _reaches_outside(event):
            call = current()
            if call is not None and _is_for_the_model(sys._getframe(1)):
                call.refuse(f"{event}{OUTSIDE}")

    sys.addaudithook(hook)


def _is_for_the_model(frame: FrameType | None) -> bool:
    """Whether a library acts for the model's code, not for an import or for source lines."""
    while frame is not None and not _is_model_code(frame):
        module = frame.f_globals.get("__name__") or ""
        package = module.partition(".")[0].removeprefix("_frozen_")
        if package in WITHIN and not module.startswith(FOR_THE_MODEL):
            return False
        frame = frame.f_back
    return frame is not None


def _is_model_code(frame: FrameType) -> bool:
    """Whether a frame is a copied function's: these have their own kind of globals."""
    return type(frame.f_globals) is not dict


def _is_set_by_the_model(frame: FrameType | None) -> bool:
    """Whether the model's code sets a name, perhaps by a builtin that the capture replaces."""
    while frame is not None and (frame.f_globals.get("__name__") or "").partition(".")[0] == CAPTURE:
        frame = frame.f_back
    return frame is not None and _is_model_code(frame)


class Watch:
    """Keeps captured models from setting or deleting names in modules of libraries.

    Attributes:
        captures: how many captures keep the watch between their attempts.
    """

    def __init__(self, current: Current) -> None:
        self._current, self.captures = current, 0
        self._kinds: dict[type, type | None] = {}
        self._watched: list[tuple[ModuleType, type]] = []

    def begin(self) -> None:
        """Give each module a class that refuses, unless it has one."""
        for name, module in list(sys.modules.items()):  # thousands, for each call: a hot loop
            kind: type = type(module)
            if kind not in self._kinds:
                self._kinds[kind] = watching = (
                    _watching(self._current, kind) if issubclass(kind, ModuleType) else None
                )
                if watching is not None:
                    self._kinds[watching] = None
            if (watching := self._kinds[kind]) is not None and _is_of_a_library(name):
                self._watched.append((module, kind))
                _become(module, watching)

    def end(self) -> None:
        """Give the modules their own classes back."""
        while self._watched:
            _become(*self._watched.pop())


_become: Callable[[ModuleType, type], None] = vars(object)["__class__"].__set__
"""Gives a module another class, bypassing its own ``__setattr__``."""


@functools.cache
def _is_of_a_library(name: object) -> bool:
    return not is_model_module(name)


def _watching(current: Current, kind: Any) -> Any:
    """A class of modules like another one, whose names no captured model can set."""

    def check(module: ModuleType, name: str) -> None:
        call = current()
        if call is not None and _is_set_by_the_model(sys._getframe(2)):
            call.refuse(f"{module.__name__}.{name} that is set{OUTSIDE}")

    def set_name(self: Any, name: str, value: object) -> None:
        check(self, name)
        kind.__setattr__(self, name, value)

    def delete_name(self: Any, name: str) -> None:
        check(self, name)
        kind.__delattr__(self, name)

    def names(self: Any) -> dict[str, Any]:
        check(self, "__dict__")
        namespace: dict[str, Any] = vars(ModuleType)["__dict__"].__get__(self)
        return namespace

    parts = {"__setattr__": set_name, "__delattr__": delete_name, "__dict__": property(names)}
    return type(kind.__name__, (kind,), {"__slots__": (), **parts})
