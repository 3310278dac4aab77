"""The rule ``availability``: about backends that are not available.

It copies a backend so that its runtime's ``is_available`` returns False. Links read a runtime's source, so
the copy must have source, too. The source of the class that defines ``is_available``, and of its subclasses
down to the runtime, is copied with that one method replaced, into modules that exist only in memory.
"""

from __future__ import annotations

import ast
import inspect
import io
import linecache
import sys
import textwrap
import warnings
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
import torch.jit.mobile

from archive.backend.conformance.failing import raised
from archive.backend.conformance.findings import Differs, Unseen, of_error
from archive.backend.delegate import Delegate
from archive.backend.errors import BackendError
from archive.backend.lower.codegen import UNAVAILABLE, UNAVAILABLE_WARNING
from archive.backend.lower.lowering import lower
from archive.backend.lower.saving import lowered_archive
from archive.backend.registry import register_backend, unregister_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.backend.conformance.findings import Said
    from archive.backend.conformance.subject import Subject
    from archive.backend.registry import Backend, Runtime


# --- variant

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
    """A copy of a class with ``is_available`` returning False, for the ``with`` block.

    Raises:
        NoVariantError: no copy can be made.
    """
    bases = [base for base in kind.__mro__ if base is not object]
    holder = next((place for place, base in enumerate(bases) if REPLACED_METHOD in vars(base)), None)
    if holder is None:
        raise NoVariantError(f"{kind.__name__} has no {REPLACED_METHOD}")
    modules: list[str] = []
    copies: dict[Any, Any] = {}
    try:
        for cls in reversed(bases[: holder + 1]):
            if cls is bases[holder] or any(base in copies for base in cls.__bases__):
                copies[cls] = _copied(cls, copies, modules, refusing=cls is bases[holder])
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
        raise NoVariantError(f"Python does not find the source of {kind.__name__}: {error}") from error
    if not isinstance(tree, ast.ClassDef):
        raise NoVariantError(f"the source of {kind.__name__} isn't a class")
    name = f"{__name__}_{next(_numbers)}"
    module = ModuleType(name)
    module.__file__ = f"<{name}>"
    original = vars(sys.modules[kind.__module__])
    vars(module).update({key: value for key, value in original.items() if not key.startswith("__")})
    if kind.__bases__ != (object,):
        bases = {f"_base_{place}": copies.get(base, base) for place, base in enumerate(kind.__bases__)}
        vars(module).update(bases)
        tree.bases = [ast.Name(base) for base in bases]
    if refusing:
        (method,) = ast.parse(REPLACEMENT).body
        tree.body = [
            method if getattr(member, "name", "") == REPLACED_METHOD else member for member in tree.body
        ]
    source = ast.unparse(tree)
    lines = source.splitlines(keepends=True)
    linecache.cache[module.__file__] = len(source), None, lines, module.__file__
    sys.modules[name] = module
    modules.append(name)
    try:
        # the flag of ``from __future__ import annotations``, if the module has such a line
        feature: Any = getattr(sys.modules[kind.__module__], "annotations", None)
        flags = int(getattr(feature, "compiler_flag", 0))
        exec(compile(source, module.__file__, "exec", dont_inherit=True, flags=flags), vars(module))  # noqa: S102 (the backend's own source)
    except Exception as error:
        raise NoVariantError(f"{kind.__name__} cannot be copied: {error}") from error
    return vars(module)[tree.name]


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


# --- availability


def availability(subject: Subject) -> Said:
    """Check that a backend says whether it is available, and is not run if it is not."""
    said = subject.backend.runtime().is_available()
    if not isinstance(said, bool):
        yield Differs("is_available to give a bool", repr(said))
    if bool(said) != subject.available:
        told = (
            "the backend to be available here"
            if subject.available
            else "the backend not to be available here"
        )
        yield Differs(f"{told}, as the test says by available={subject.available}", f"is_available {said}")
    try:
        with unavailable_variant(subject.backend) as variant:
            yield from _refused(subject, variant.name, "a copy that is not available")
    except NoVariantError as error:
        yield Unseen(f"no copy that is not available: {error}")
    if said is True:
        yield from _withdrawn(subject)
    if subject.unavailable is None:
        yield Unseen("the test does not say how to make the backend unavailable")
        return
    before = Delegate.of(subject.lowered.module) if said else None
    with subject.unavailable():
        what = "made unavailable"
        if subject.backend.runtime().is_available() is not False:
            yield Differs(f"{what}: is_available to give False", "True")
        if before is not None:
            yield from _says(f"{what}: a run", raised(partial(subject.delegated, before)), here=True)
        run = getattr(subject.lowered.module, subject.method)
        yield from _says(f"{what}: a run in TorchScript", raised(partial(subject.called, run)))
        yield from _refused(subject, subject.backend.name, what)


def _refused(subject: Subject, backend: str, what: str) -> Said:
    """Check that lowering to an unavailable backend warns, and that running and loading are refused."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            module = lower(subject.model, backend, subject.full_spec)
        except Exception as error:  # noqa: BLE001 (whatever a foreign backend raises)
            yield Differs(f"{what}: to be lowered to", of_error(error))
            return
    if UNAVAILABLE_WARNING.format(backend) not in (str(warning.message) for warning in caught):
        yield Differs(f"{what}: a warning when lowered to", "none")
    run = getattr(module, subject.method)
    yield from _says(f"{what}: running in TorchScript", raised(partial(subject.called, run)))
    yield from _says(f"{what}: a delegate", raised(partial(Delegate.of, module)), here=True)
    for ending, lite in subject.endings.items():
        data = lowered_archive(module, lite=lite)
        load = torch.jit.mobile._load_for_lite_interpreter if lite else torch.jit.load
        yield from _says(f"{what}: loading {ending}", raised(partial(load, io.BytesIO(data))))
        if not lite:
            yield from _says(f"{what}: loading a delegate", raised(partial(Delegate.load, data)), here=True)


def _withdrawn(subject: Subject) -> Said:
    """Check that a runtime that is no longer available is not run."""
    delegate = Delegate.of(subject.lowered.module)
    runtime: Any = delegate._runtime
    try:
        runtime.is_available = lambda: False
    except AttributeError:
        yield Unseen("is_available cannot be replaced in the runtime")
        return
    error = raised(partial(subject.delegated, delegate))
    yield from _says("no longer available: a run", error, here=True)


def _says(what: str, error: Exception | None, *, here: bool = False) -> Said:
    """Check that an error is the one about unavailable backends.

    If this library ran the action ``here``, the error is a ``BackendError``.
    """
    told = getattr(error, "message", None) == UNAVAILABLE and isinstance(error, BackendError)
    if not (told if here else UNAVAILABLE in str(error)):
        yield Differs(f"{what} to raise {UNAVAILABLE!r}", of_error(error))
