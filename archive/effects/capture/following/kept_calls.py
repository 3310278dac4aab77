"""Calls that a table keeps: ``print``, loggers and ``warnings.warn``. Replay makes them after all changes.

What they print is kept as it is at the time of the call: lists are copied, tensors cloned by the graph.

A model need not ask ``if logger.isEnabledFor(…):`` around messages to this logger. A loaded module's logger
drops what its level does not let through, just like the model's own. So the messages are kept as if the level
let them through. That holds for an ``if`` that only logs: it has no ``else``, and the arguments of its
messages are computed by functions that change nothing.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import logging
import sys
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from archive.effects.capture.following.outside import OF_THE_PROCESS
from archive.effects.capture.graph.scalars import ShapeProxy, is_scalar
from archive.effects.capture.graph.sites import position_of
from archive.effects.capture.graph.variables import HELD_BY_NAME, LITERALS
from archive.effects.capture.proxies.containers import without_proxies
from archive.effects.errors import OUTSIDE
from archive.effects.looking import PLAIN_TENSORS
from archive.formats.effects.known_calls import CATEGORIES, LEVELS, LOG, PRINT, WARN
from archive.formats.effects.model import Constant, Op

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

    from archive.effects.capture.table.call import CapturedCall
    from archive.formats.effects.model import GlobalName


# --- log levels

PURE_FUNCTIONS = {
    "abs",
    "bool",
    "float",
    "int",
    "len",
    "list",
    "max",
    "min",
    "repr",
    "round",
    "str",
    "sum",
    "tuple",
}
PURE_METHODS = {
    *(
        "abs",
        "all",
        "any",
        "argmax",
        "argmin",
        "cpu",
        "detach",
        "dim",
        "double",
        "float",
        "format",
        "item",
        "join",
    ),
    *("max", "mean", "min", "norm", "numel", "size", "std", "sum", "tolist", "var"),
}
"""Functions and methods that change nothing, on any object."""
IMPURE = (ast.Await, ast.Lambda, ast.NamedExpr, ast.Yield, ast.YieldFrom)


def only_logs(frame: FrameType, level: int, levels: Mapping[str, int]) -> bool:
    """Whether a frame asks ``isEnabledFor(level)`` only to decide about messages.

    Args:
        level: the level; a logger that does not let it through lets no lower level through.
        levels: the level at which each method of loggers logs.
    """
    code = frame.f_code
    position = position_of(code, frame.f_lasti // 2)
    text = "".join(linecache.getlines(code.co_filename))
    question = None if position is None else _questions(text).get((position[0], position[2]))
    if question is None:
        return False
    statement, call = question
    logger = ast.dump(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    return not statement.orelse and all(_is_message(inner, logger, level, levels) for inner in statement.body)


@cache
def _questions(text: str) -> dict[tuple[int, int], tuple[ast.If, ast.Call]]:
    """The ``if`` statements whose condition is a call, or ends in ``and`` and a call; by position."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    questions = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.If):
            continue
        last = node.test
        if isinstance(last, ast.BoolOp) and isinstance(last.op, ast.And):
            last = last.values[-1]
        if isinstance(last, ast.Call):
            questions[last.lineno, last.col_offset] = node, last
    return questions


def _is_message(statement: ast.stmt, logger: str, level: int, levels: Mapping[str, int]) -> bool:
    """Whether a statement only logs a message to a logger, at this level or a lower one."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    call = statement.value
    return (
        isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name | ast.Attribute)
        and ast.dump(call.func.value) == logger
        and levels.get(call.func.attr, level + 1) <= level
        and all(map(_is_pure, (*call.args, *call.keywords)))
    )


def _is_pure(value: ast.AST) -> bool:
    """Whether computing a value changes nothing."""
    for node in ast.walk(value):
        if isinstance(node, IMPURE):
            return False
        if isinstance(node, ast.Call):
            function = node.func
            pure = isinstance(function, ast.Name) and function.id in PURE_FUNCTIONS
            if not pure and not (isinstance(function, ast.Attribute) and function.attr in PURE_METHODS):
                return False
    return True


# --- kept calls

LEVEL_BY_METHOD = {name: level for level, name in LEVELS.items()} | {"warn": 30, "fatal": 50}
"""Levels, by the methods of loggers that log at them."""


STREAMS = ("stdin", "stdout", "stderr")
SYS_LOOKUPS = ("exc_info", "exception", "getdefaultencoding", "getsizeof", "intern")
"""Functions of ``sys`` that neither reveal anything of the process nor change it."""


class KeptCalls:
    """Notes the calls that one captured call makes."""

    def __init__(self, call: CapturedCall) -> None:
        self._call = call

    def note(self, function: GlobalName, settings: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Note a call, to be repeated at replay."""
        self._call.side_effects.mutation(function, Op.CALL, Constant(settings), values, self._call.here())

    def shown(self, value: Any, caller: FrameType) -> Any:
        """A value that is printed, as it is now."""
        if isinstance(value, str) and type(value) is str:
            return self._call.texts.resolved(value, caller)
        if is_scalar(value) or type(value) in LITERALS or isinstance(value, HELD_BY_NAME):
            return value
        if isinstance(value, torch.Tensor):
            # Its text must not name operations that a graph may do in another way.
            if type(value) not in PLAIN_TENSORS[:1] or value.requires_grad:
                self._call.refuse(
                    "a tensor with a gradient, or a parameter, that is printed: print it detached"
                )
            return value.clone()
        value = without_proxies(value)
        if type(value) in (tuple, list):
            return type(value)(self.shown(item, caller) for item in value)
        if type(value) in (ShapeProxy, torch.Size):
            return ShapeProxy(self.shown(item, caller) for item in value)
        if type(value) is dict:
            return {self.shown(key, caller): self.shown(item, caller) for key, item in value.items()}
        return self._call.refuse(f"a {type(value).__qualname__} that is printed")

    def printed(
        self,
        *values: object,
        sep: object = None,
        end: object = None,
        file: object = None,
        flush: bool = False,
    ) -> None:
        """Replace ``print``."""
        caller = sys._getframe(1)
        if not (file is None or file is sys.stdout or (type(file) is StreamView and file.name == "stdout")):
            self._call.refuse("print to a file")
        settings = (" " if sep is None else sep, "\n" if end is None else end)
        if not all(type(setting) is str for setting in settings):
            self._call.refuse("print with a separator that isn't plain text")
        del flush  # only affects timing
        self._call.check_once()
        self.note(PRINT, settings, tuple(self.shown(value, caller) for value in values))

    def warned(self, message: Any, category: Any = None, stacklevel: Any = 1, **more: Any) -> None:
        """Replace ``warnings.warn``."""
        caller = sys._getframe(1)
        kind = UserWarning if category is None else self._call.objects.real_of(category)
        if more or type(stacklevel) is not int or stacklevel > 1:
            self._call.refuse("a warning at another line than its own: stacklevel")
        if kind.__name__ not in CATEGORIES or getattr(builtins, kind.__name__) is not kind:
            self._call.refuse(f"a warning of a class of its own, {kind.__qualname__}")
        if type(message) is not str:
            self._call.refuse("a warning that isn't plain text")
        module = caller.f_globals.get("__name__") or "<string>"
        settings = (kind.__name__, caller.f_code.co_filename, caller.f_lineno, module)
        self._call.check_once()
        self.note(WARN, settings, (self.shown(message, caller),))

    def logged(self, name: str, level: Any, caller: FrameType, values: tuple[Any, ...], more: Any) -> None:
        """Note a message that a frame logs: ``values`` are its text and arguments."""
        if any(more.values()) or type(level) is not int:
            self._call.refuse(f"a logger that gets more than a message: {', '.join(more) or 'level'}")
        if not values or type(values[0]) is not str:
            self._call.refuse("a message of a logger that isn't plain text")
        code = caller.f_code
        settings = (name, level, code.co_filename, caller.f_lineno, code.co_name)
        self._call.check_once()
        self.note(LOG, settings, tuple(self.shown(value, caller) for value in values))

    # --- what the model has in place of modules and loggers -----------------------------------------

    def in_place_of(self, value: Any) -> Any:
        """What the model gets for ``logging``, ``warnings``, a logger or their functions; else None."""
        if value is logging:
            return LoggingModule(self)
        if value is warnings:
            return WarningsModule(self)
        if value is sys:
            return SysModule(self)
        if value is warnings.warn:
            return self.warned
        if isinstance(value, logging.Logger):
            return LoggerView(self, value.name)
        return None

    def refuse(self, message: str) -> NoReturn:
        """Give up, naming the model's line."""
        self._call.refuse(message)


class LoggerView:
    """The proxy of a logger.

    Args:
        name: of the logger; "" for the functions of ``logging`` itself.
    """

    def __init__(self, calls: KeptCalls, name: str) -> None:
        self._calls = calls
        self._name = name

    @property
    def name(self) -> str:
        """The logger's name."""
        return self._name

    def log(self, level: Any, *values: Any, **more: Any) -> None:
        """Log at a level."""
        self._calls.logged(self._name, level, sys._getframe(1), values, more)

    def isEnabledFor(self, level: Any) -> bool:  # noqa: N802 (Python's name)
        """Return True where it does not matter; see :mod:`archive.effects.capture.following.kept_calls`."""
        if type(level) is not int or not only_logs(sys._getframe(1), level, LEVEL_BY_METHOD):
            self._calls.refuse("logger.isEnabledFor, which decides about more than messages of this logger")
        return True

    def __getattr__(self, name: str) -> Any:
        if name not in LEVEL_BY_METHOD:
            self._calls.refuse(f"what is done to a Logger cannot be followed: {name}")

        def method(*values: Any, **more: Any) -> None:
            self._calls.logged(self._name, LEVEL_BY_METHOD[name], sys._getframe(1), values, more)

        return method


class LoggingModule:
    """The proxy of ``logging``."""

    def __init__(self, calls: KeptCalls) -> None:
        self._calls = calls

    def getLogger(self, name: str | None = None) -> LoggerView:  # noqa: N802 (Python's name)
        """The proxy of a logger."""
        return LoggerView(self._calls, logging.getLogger(name).name)

    def __getattr__(self, name: str) -> Any:
        if name == "log" or name in LEVEL_BY_METHOD:
            return getattr(LoggerView(self._calls, ""), name)
        value = getattr(logging, name)
        if isinstance(value, int | type):
            return value
        return self._calls.refuse(f"logging.{name}{OUTSIDE}")


class SysModule:
    """The proxy of ``sys``: everything except constants and streams is refused."""

    def __init__(self, calls: KeptCalls) -> None:
        object.__setattr__(self, "_calls", calls)

    def __getattr__(self, name: str) -> Any:
        if name in STREAMS:
            return StreamView(self._calls, name)
        value = getattr(sys, name)
        if isinstance(value, str | int | float | tuple) or name in SYS_LOOKUPS:
            return value
        return self._calls.refuse(f"sys.{name}{OF_THE_PROCESS}")

    def __setattr__(self, name: str, _: object) -> None:
        self._calls.refuse(f"sys.{name} that is set{OUTSIDE}")

    def __delattr__(self, name: str) -> None:
        self._calls.refuse(f"sys.{name} that is deleted{OUTSIDE}")


class StreamView:
    """The proxy of a standard stream, which only ``print`` may write to."""

    def __init__(self, calls: KeptCalls, name: str) -> None:
        self._calls, self.name = calls, name

    def __getattr__(self, name: str) -> Any:
        return self._calls.refuse(f"sys.{self.name}.{name}{OUTSIDE}")


class WarningsModule:
    """The proxy of ``warnings``: everything except ``warn`` is refused."""

    def __init__(self, calls: KeptCalls) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        if name == "warn":
            return self._calls.warned
        return self._calls.refuse(f"warnings.{name}{OUTSIDE}")
