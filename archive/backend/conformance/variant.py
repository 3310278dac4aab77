"""Makes a copy of a backend whose runtime's ``is_available`` gives False.

Links read a runtime's source, so the copy must have source, too. The source of the class that defines
``is_available``, and of its subclasses down to the runtime, is copied with that one method replaced, into
modules that exist only in memory.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import textwrap
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from types import ModuleType
from typing import TYPE_CHECKING, Any

from archive.backend.registry import register_backend, unregister_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.backend.registry import Backend, Runtime

REPLACED_METHOD = "is_available"
REPLACEMENT = f"def {REPLACED_METHOD}(self) -> bool:\n    return False\n"
_numbers = count(1)


class NoVariantError(Exception):
    """No copy of a runtime can be made; the text says why."""


@contextmanager
def unavailable_variant(backend: Backend) -> Iterator[Backend]:
    """A copy of a backend that is never available, registered for the ``with`` block.

    Raises:
        NoVariantError: no copy can be made.
    """
    runtime = backend.runtime
    with _refusing_class(runtime) as made:
        copy = replace(backend, name=f"{backend.name}_unavailable_{next(_numbers)}", runtime=made)
        register_backend(copy.name, preprocess=copy.preprocess, runtime=made, link=copy.link)
        try:
            yield copy
        finally:
            unregister_backend(copy.name)


@contextmanager
def _refusing_class(kind: Any) -> Iterator[Any]:  # noqa: ANN401 (a class)
    """A copy of a class whose ``is_available`` gives False, for the ``with`` block.

    Raises:
        NoVariantError: no copy can be made.
    """
    bases = [one for one in kind.__mro__ if one is not object]
    holder = next((place for place, one in enumerate(bases) if REPLACED_METHOD in vars(one)), None)
    if holder is None:
        raise NoVariantError(f"{kind.__name__} has no {REPLACED_METHOD}")
    modules: list[str] = []
    copies: dict[Any, Any] = {}
    try:
        for one in reversed(bases[: holder + 1]):
            if one is bases[holder] or any(base in copies for base in one.__bases__):
                copies[one] = _copied(one, copies, modules, refusing=one is bases[holder])
        _tried(copies[kind])
        yield copies[kind]
    finally:
        for name in modules:
            linecache.cache.pop(sys.modules.pop(name).__file__ or "", None)


def _copied(kind: Any, copies: dict[Any, Any], modules: list[str], *, refusing: bool) -> Any:  # noqa: ANN401
    """Copy one class into a module of its own.

    Args:
        kind: the class.
        copies: the copies of its base classes.
        modules: takes the name of the new module.
        refusing: whether to replace its ``is_available``.

    Raises:
        NoVariantError: its source is not found, or does not run.
    """
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError, ValueError) as error:
        raise NoVariantError(f"the source of {kind.__name__} is not to be had: {error}") from error
    if not isinstance(tree, ast.ClassDef):
        raise NoVariantError(f"the source of {kind.__name__} is no class")
    name = f"{__name__}_{next(_numbers)}"
    module = ModuleType(name)
    module.__file__ = f"<{name}>"
    original = vars(sys.modules[kind.__module__])
    vars(module).update({key: one for key, one in original.items() if not key.startswith("__")})
    if kind.__bases__ != (object,):
        bases = {f"_base_{place}": copies.get(one, one) for place, one in enumerate(kind.__bases__)}
        vars(module).update(bases)
        tree.bases = [ast.Name(base) for base in bases]
    if refusing:
        (method,) = ast.parse(REPLACEMENT).body
        tree.body = [method if getattr(one, "name", "") == REPLACED_METHOD else one for one in tree.body]
    source = ast.unparse(tree)
    lines = source.splitlines(keepends=True)
    linecache.cache[module.__file__] = len(source), None, lines, module.__file__
    sys.modules[name] = module
    modules.append(name)
    try:
        exec(compile(source, module.__file__, "exec", dont_inherit=True, flags=_flags(kind)), vars(module))  # noqa: S102 (the backend's own source)
    except Exception as error:
        raise NoVariantError(f"{kind.__name__} cannot be copied: {error}") from error
    return vars(module)[tree.name]


def _flags(kind: Any) -> int:  # noqa: ANN401
    """The compiler flag of ``from __future__ import annotations``; 0 if the module has no such line."""
    feature: Any = getattr(sys.modules[kind.__module__], "annotations", None)
    return int(getattr(feature, "compiler_flag", 0))


def _tried(make: Callable[[], Runtime]) -> None:
    """Make sure that the copy can be made and is not available.

    Raises:
        NoVariantError: it cannot, or is.
    """
    try:
        said = make().is_available()
    except Exception as error:
        raise NoVariantError(f"a copy of the runtime fails: {error}") from error
    if said is not False:
        raise NoVariantError(f"a copy of the runtime says that it is available: {said!r}")
