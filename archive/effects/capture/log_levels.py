"""``if logger.isEnabledFor(…):`` around messages of this logger: the model need not ask.

A loaded module's logger leaves out what its level does not let through, like the model's own. So the messages
are kept as if the level let them through. That holds for an ``if`` which does nothing but log: it has no
``else``, and the arguments of its messages are computed by functions that change nothing.
"""

from __future__ import annotations

import ast
import linecache
from functools import cache
from typing import TYPE_CHECKING

from archive.effects.capture.sites import position_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

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
"""Functions and methods that change nothing, whoever they are called on."""
IMPURE = (ast.Await, ast.Lambda, ast.NamedExpr, ast.Yield, ast.YieldFrom)


def only_logs(frame: FrameType, level: int, levels: Mapping[str, int]) -> bool:
    """Whether the question ``isEnabledFor(level)`` that a frame asks decides about messages alone.

    Args:
        frame: the frame that asks.
        level: the level; whoever does not let that through lets no lower level through.
        levels: of each method of loggers that logs.
    """
    code = frame.f_code
    position = position_of(code, frame.f_lasti // 2)
    text = "".join(linecache.getlines(code.co_filename))
    question = None if position is None else _questions(text).get((position[0], position[2]))
    if question is None:
        return False
    statement, call = question
    logger = ast.dump(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    return not statement.orelse and all(_is_message(one, logger, level, levels) for one in statement.body)


@cache
def _questions(text: str) -> dict[tuple[int, int], tuple[ast.If, ast.Call]]:
    """The ``if`` statements whose condition is a call, or ends in ``and`` and a call: by the call's place."""
    found = {}
    for one in ast.walk(_parsed(text)):
        if not isinstance(one, ast.If):
            continue
        last = one.test
        if isinstance(last, ast.BoolOp) and isinstance(last.op, ast.And):
            last = last.values[-1]
        if isinstance(last, ast.Call):
            found[last.lineno, last.col_offset] = one, last
    return found


def _parsed(text: str) -> ast.AST:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def _is_message(statement: ast.stmt, logger: str, level: int, levels: Mapping[str, int]) -> bool:
    """Whether a statement tells a logger something, at this level or a lower one, and does nothing else."""
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
    for one in ast.walk(value):
        if isinstance(one, IMPURE):
            return False
        if isinstance(one, ast.Call):
            function = one.func
            pure = isinstance(function, ast.Name) and function.id in PURE_FUNCTIONS
            if not pure and not (isinstance(function, ast.Attribute) and function.attr in PURE_METHODS):
                return False
    return True
