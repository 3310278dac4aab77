"""Functions of the model behind ``functools.lru_cache``: a pure one gives again what is kept.

A function is pure here if its code says so: it works on constants alone, by operators, ``math``, builtins
that look at nothing else, and other pure functions. Its result must be a constant, too: all calls share it.
"""

from __future__ import annotations

import builtins
import dis
import functools
import math
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from archive.effects.capture.python_numbers import MATH
from archive.effects.capture.sources import is_literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.effects.capture.call import CapturedCall

PURE_NAMES = (
    *(
        "abs",
        "all",
        "any",
        "bool",
        "dict",
        "divmod",
        "enumerate",
        "float",
        "int",
        "len",
        "list",
        "map",
        "max",
    ),
    *("min", "pow", "range", "reversed", "round", "sorted", "str", "sum", "tuple", "zip", "ValueError"),
)
BUILTINS = dict(vars(builtins))
PURE = {BUILTINS[name] for name in PURE_NAMES} | set(MATH)
IMPURE_OPS = ("STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME", "LOAD_NAME")
CACHED: Any = functools._lru_cache_wrapper


class CachedFunction:
    """What a model gets for a function with a cache.

    Args:
        call: the captured call.
        cached: the function with its cache.
    """

    def __init__(self, call: CapturedCall, cached: Any) -> None:  # noqa: ANN401
        self._call, self._cached = call, cached

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """The function's result, without its cache."""
        call, function = self._call, self._cached.__wrapped__
        given = [call.constant_key(one) for one in args]
        named = {name: call.constant_key(one) for name, one in kwargs.items()}
        if not all(_is_told_apart(one) for one in (*given, *named.values())):
            call.refuse("a cached function of more than ints, texts and fractions")
        if not is_pure(function):
            call.refuse(f"a cached function, {function.__qualname__}, that may not be pure")
        result = function(*given, **named)
        if not is_literal(result):
            call.refuse(f"a cached function that gives a {type(result).__name__}, which all calls share")
        return result

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return self._call.refuse(f"{name} of a cached function, which cannot be followed")


def _is_told_apart(key: object) -> bool:
    """Whether a cache keeps nothing else for an equal key: it takes 2.0 and True for 2 and 1."""
    if type(key) is tuple:
        return all(map(_is_told_apart, key))
    if type(key) is float:
        return not key.is_integer()
    return type(key) in (int, str, bytes, type(None))


def is_pure(function: Any, known: frozenset[int] = frozenset()) -> bool:  # noqa: ANN401
    """Whether the code of a function shows that its result depends on its arguments alone."""
    if type(function) is CACHED:
        function = function.__wrapped__
    if id(function) in known:
        return True
    if type(function) is not FunctionType or function.__closure__ or function.__kwdefaults__:
        return False
    if not is_literal(function.__defaults__ or ()):
        return False
    names: dict[str, Any] = {**BUILTINS, **function.__globals__}
    for one in _instructions(function.__code__):
        if one.opname in IMPURE_OPS:
            return False
        if one.opname == "LOAD_GLOBAL" and one.argval in names:
            value = names[one.argval]
            is_listed = value is math or (isinstance(value, BuiltinFunctionType | type) and value in PURE)
            if not is_listed and not is_pure(value, known | {id(function)}):
                return False
    return True


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)
