"""Code of hooks that no name leads to, found again by its place and its digest.

A lambda or local function is created each time the code around it runs; its code object is created once, and
is a constant of the function around it. ``models:Model.forward.<locals>.<lambda>`` names both.
"""

from __future__ import annotations

import hashlib
import sys
from inspect import unwrap
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCALS, LAMBDA = ".<locals>.", "<lambda>"
DIGEST_BYTES = 16


def digest_of(code: CodeType) -> str:
    """A digest of what a code object does, in hexadecimal; it differs between releases of Python.

    Lines and files do not count: code that moved still does the same.
    """
    text = repr((sys.version_info[:2], _facts(code))).encode()
    return hashlib.blake2b(text, digest_size=DIGEST_BYTES).hexdigest()


def _facts(code: CodeType) -> tuple[object, ...]:
    return (
        code.co_code,
        code.co_exceptiontable,
        code.co_flags,
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
        tuple(map(_constant, code.co_consts)),
    )


def _constant(value: object) -> object:
    """A constant of some code, the same in each process."""
    if isinstance(value, CodeType):
        return _facts(value)
    if isinstance(value, frozenset):
        return "frozenset", sorted(repr(_constant(element)) for element in value)
    if isinstance(value, tuple):
        return tuple(map(_constant, value))
    return type(value).__name__, value


def holder_of(qualname: str) -> str:
    """The part of a qualified name that can be looked up: what holds the code; "" for the Python module."""
    holder = qualname.partition(LOCALS)[0]
    return holder.removesuffix(LAMBDA).removesuffix(".")


def found_code(holder: Any, qualname: str, digest: str) -> tuple[CodeType, dict[str, Any]] | None:
    """The code of a function, and its globals; None if no such function exists."""
    for function in _functions_of(holder):
        for code in codes_in(function.__code__):
            if code.co_qualname == qualname and digest_of(code) == digest:
                return code, function.__globals__
    return None


def _functions_of(holder: Any) -> Iterator[FunctionType]:
    """A function with those that it wraps, or the functions of a class or Python module."""
    held = [holder]
    if not isinstance(holder, FunctionType) and not hasattr(holder, "__wrapped__"):
        held += list(getattr(holder, "__dict__", {}).values())
    for member in held:
        inner = unwrap(getattr(member, "__func__", getattr(member, "fget", member)))
        for function in (member, inner):
            if isinstance(function, FunctionType):
                yield function


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """A code object, and those of the functions and classes inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)
