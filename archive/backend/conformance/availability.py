"""The rule ``availability``: about backends that are not available."""

from __future__ import annotations

import io
import warnings
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.jit.mobile

from archive.backend.conformance.failing import raised
from archive.backend.conformance.findings import Differs, Unseen, of_error
from archive.backend.conformance.refusing import refusing
from archive.backend.conformance.subject import ENDINGS, in_torchscript
from archive.backend.delegate import Delegate
from archive.backend.errors import BackendError
from archive.backend.lower.codegen import UNAVAILABLE, UNAVAILABLE_WARNING
from archive.backend.lower.saving import lowered_archive
from archive.backend.registry import register_backend, unregister_backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.backend.conformance.findings import Said
    from archive.backend.conformance.subject import Subject
    from archive.backend.registry import Backend


def availability(subject: Subject) -> Said:
    """Check that a backend says whether it is available, and is not run if it is not."""
    said = subject.backend.runtime().is_available()
    if not isinstance(said, bool):
        yield Differs("is_available to give a bool", repr(said))
    if bool(said) != subject.available:
        expected = f"the backend {'' if subject.available else 'not '}to be available here, as the test says"
        yield Differs(f"{expected} by available={subject.available}", f"is_available {said}")
    with _unavailable(subject.backend) as name:
        yield from _refused(subject, name, "a runtime that is not available")
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


@contextmanager
def _unavailable(backend: Backend) -> Iterator[str]:
    """The name of a backend like this one, but never available; registered for the ``with`` block."""
    name = f"{backend.name}_unavailable"
    register_backend(
        name, preprocess=backend.preprocess, runtime=refusing(backend.runtime), link=backend.link
    )
    try:
        yield name
    finally:
        unregister_backend(name)


def _refused(subject: Subject, backend: str, what: str) -> Said:
    """Check that lowering to an unavailable backend warns, and that running and loading are refused."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            module = in_torchscript(subject.model, backend, subject.full_spec)
        except Exception as error:  # noqa: BLE001 (whatever a foreign backend raises)
            yield Differs(f"{what}: to be lowered to", of_error(error))
            return
    if UNAVAILABLE_WARNING.format(backend) not in (str(warning.message) for warning in caught):
        yield Differs(f"{what}: a warning when lowered to", "none")
    run = getattr(module, subject.method)
    yield from _says(f"{what}: running in TorchScript", raised(partial(subject.called, run)))
    yield from _says(f"{what}: a delegate", raised(partial(Delegate.of, module)), here=True)
    for ending, lite in ENDINGS.items():
        data = lowered_archive(module, lite=lite)
        load = torch.jit.mobile._load_for_lite_interpreter if lite else torch.jit.load
        yield from _says(f"{what}: loading {ending}", raised(partial(load, io.BytesIO(data))))
        if not lite:
            yield from _says(f"{what}: loading a delegate", raised(partial(Delegate.load, data)), here=True)


def _withdrawn(subject: Subject) -> Said:
    """Check that an unavailable runtime is not run."""
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
    is_known = getattr(error, "message", None) == UNAVAILABLE and isinstance(error, BackendError)
    if not (is_known if here else UNAVAILABLE in str(error)):
        yield Differs(f"{what} to raise {UNAVAILABLE!r}", of_error(error))
