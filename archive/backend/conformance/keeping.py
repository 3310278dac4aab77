"""Rules about saved states: ``state``, ``reproducible``, ``refusal``.

Archives run in a new process, which has nothing of this one but the backend's name and classes.
"""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import warnings
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
import torch.jit.mobile

from archive.backend.conformance.failing import raised
from archive.backend.conformance.findings import Differs, Unseen, of_error
from archive.backend.conformance.subject import ENDINGS, FIRST_HANDLE, differences, fresh
from archive.backend.delegate import Delegate
from archive.backend.lower.handles import DebugHandles
from archive.backend.lower.saving import lowered_archive
from archive.backend.registry import Backend, find_backend, register_backend
from archive.base.errors import ArchiveError, LoweringError
from archive.reader.opening import open as open_archive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from archive.backend.conformance.findings import Said
    from archive.backend.conformance.subject import Subject


# --- in a new process

REQUEST_FILE, RESPONSE_FILE = "request.pickle", "response.pickle"
INTERPRETERS = {".pt": "TorchScript", ".ptl": "the lite interpreter"}


@dataclass(slots=True)
class Elsewhere:
    """The answer of another process."""

    results: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)

    def run(self, way: str, run: Callable[[], Any]) -> None:
        """Try a way to run the model."""
        try:
            self.results[way] = _with_plain_tuples(run())
        except Exception as error:  # noqa: BLE001 (whatever a foreign backend raises)
            self.errors[way] = of_error(error)


def run_elsewhere(
    backend: Backend, archives: Mapping[str, bytes], method: str, inputs: Sequence[Any]
) -> Elsewhere:
    """Run a method of archives, given by their endings, in a new process, which imports the backend."""
    try:
        backend_bytes = pickle.dumps(backend)
    except Exception as error:  # noqa: BLE001 (pickle raises what objects raise)
        backend_bytes = b""
        reasons = [f"the backend cannot be imported there: {of_error(error)}"]
    else:
        reasons = []
    try:
        request = pickle.dumps((backend_bytes, dict(archives), method, fresh(tuple(inputs))))
    except Exception as error:  # noqa: BLE001
        return Elsewhere(reasons=[f"the inputs cannot be handed over: {of_error(error)}"])
    with TemporaryDirectory() as folder:
        Path(folder, REQUEST_FILE).write_bytes(request)
        paths = os.pathsep.join(path or os.curdir for path in sys.path)
        done = subprocess.run(  # noqa: S603 (this library's own module)
            [sys.executable, "-m", __spec__.name, folder],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": paths},
        )
        if done.returncode:
            *_, last = [f"exit status {done.returncode}", *done.stderr.strip().splitlines()]
            return Elsewhere(errors={"the archive": last}, reasons=reasons)
        answer = Elsewhere(*pickle.loads(Path(folder, RESPONSE_FILE).read_bytes()))  # noqa: S301 (our own file)
    answer.reasons += reasons
    return answer


def respond(folder: Path) -> None:
    """Read the request in a folder, run it, and write the response there."""
    warnings.simplefilter("ignore", DeprecationWarning)
    backend_bytes, archives, method, inputs = pickle.loads((folder / REQUEST_FILE).read_bytes())  # noqa: S301 (our own file)
    answer = Elsewhere()
    known = bool(backend_bytes)
    if known:
        try:
            backend = pickle.loads(backend_bytes)  # noqa: S301
            try:
                find_backend(backend.name)
            except LoweringError:  # its import has not registered it
                register_backend(
                    backend.name, preprocess=backend.preprocess, runtime=backend.runtime, link=backend.link
                )
        except Exception as error:  # noqa: BLE001 (importing foreign modules)
            known = False
            answer.reasons.append(f"the backend cannot be imported there: {of_error(error)}")

    def stock(ending: str) -> Any:  # noqa: ANN401
        torch.default_generator.manual_seed(0)
        file, given = io.BytesIO(archives[ending]), fresh(inputs)
        if ending == ".ptl":
            return torch.jit.mobile._load_for_lite_interpreter(file).run_method(method, *given)
        return getattr(torch.jit.load(file), method)(*given)

    with torch.no_grad():
        for ending in archives:
            answer.run(INTERPRETERS[ending], partial(stock, ending))
        if known:
            answer.run("the runtime", lambda: Delegate.load(archives[".pt"]).run(method, *fresh(inputs)))
    (folder / RESPONSE_FILE).write_bytes(pickle.dumps((answer.results, answer.errors, answer.reasons)))


def _with_plain_tuples(value: Any) -> Any:  # noqa: ANN401
    """A result with plain tuples for named ones, whose classes this process cannot import."""
    if isinstance(value, tuple | list):
        kind = list if isinstance(value, list) else tuple
        return kind(map(_with_plain_tuples, value))
    if isinstance(value, dict):
        return {key: _with_plain_tuples(item) for key, item in value.items()}
    return value


if __name__ == "__main__":
    respond(Path(sys.argv[1]))


# --- keeping

REFUSALS = (ArchiveError, AssertionError, RuntimeError)
"""The errors by which a runtime may refuse a state; those in TorchScript's language raise the last two."""
MAX_SHOWN_LENGTH = 60
"""Most characters of a text that are shown."""
GARBAGE = "\0 no state"


def state(subject: Subject) -> Said:
    """Check that state, compile spec and later attributes survive saving, and that loaded modules run."""
    spec, processed = kept_of(subject.lowered.module._c)
    before = fresh(processed)
    yield from differences("the compile spec", subject.full_spec, spec, 0)
    loaded = torch.jit.load(io.BytesIO(subject.archives[".pt"]))
    yield from _kept("loaded", subject, before, loaded)
    result = subject.called(getattr(loaded, subject.method))
    yield from subject.compared("the result of TorchScript, loaded,", result)
    again = torch.jit.load(io.BytesIO(_saved(loaded)))
    yield from _kept("loaded, run and saved again", subject, before, again)
    delegate = Delegate.load(subject.archives[".pt"])
    yield from subject.compared("the result of the runtime, loaded,", subject.delegated(delegate))
    after = delegate._module.getattr("__processed_module")
    yield from differences("the state of the runtime, loaded and run,", before, after, 0)
    if ".ptl" in subject.archives:
        lite = torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(subject.archives[".ptl"]))
        result = subject.called(partial(lite.run_method, subject.method))
        yield from subject.compared("the result of the lite interpreter", result)
    module = subject.lower(DebugHandles(FIRST_HANDLE))
    module._c._register_attribute("put_on_later", torch._C.StringType.get(), "kept")
    later = getattr(torch.jit.load(io.BytesIO(_saved(module))), "put_on_later", None)
    yield from differences("an attribute that is put on the lowered module", "kept", later)
    if not subject.elsewhere:
        return
    answer = run_elsewhere(subject.backend, subject.archives, subject.method, subject.good)
    for reason in answer.reasons:
        yield Unseen(f"in a new process: {reason}")
    for way, result in answer.results.items():
        yield from subject.compared(f"the result of {way} in a new process", result)
    for way, error in answer.errors.items():
        yield Differs(f"{way} to run in a new process", error)


def _kept(when: str, subject: Subject, before: object, module: Any) -> Said:  # noqa: ANN401 (a ScriptModule)
    """Check that a module has the same compile spec and state as before."""
    spec, processed = kept_of(module._c)
    yield from differences(f"the compile spec, {when},", subject.full_spec, spec, 0)
    yield from differences(f"the state, {when},", before, processed, 0)


def kept_of(wrapper: Any) -> tuple[Any, Any]:  # noqa: ANN401 (a torch._C.ScriptModule)
    """The compile spec and state of a lowered module."""
    lowered = wrapper.getattr("__loweredModule__")
    return lowered.getattr("__method_compile_spec"), lowered.getattr("__processed_module")


def _saved(module: Any) -> bytes:  # noqa: ANN401 (a ScriptModule)
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    return buffer.getvalue()


class _Pair(torch.nn.Module):  # type: ignore[misc]
    """A module that holds two others."""

    def __init__(self, first: torch.nn.Module, second: torch.nn.Module) -> None:
        super().__init__()
        self.first = first
        self.second = second

    def forward(self) -> None:
        """Do nothing: the module is only saved."""


def reproducible(subject: Subject) -> Said:
    """Check that a model gives the same bytes twice, and that one recorder serves several modules."""
    again = subject.lower(DebugHandles(FIRST_HANDLE))
    for ending, lite in ENDINGS.items():
        first, second = subject.archives[ending], lowered_archive(again, lite=lite)
        if first != second:
            yield Differs(f"{ending}: the same bytes when lowered again", _first_difference(first, second))
    recorder, given = subject.lowered.recorder, subject.lowered.operations
    both = torch.jit.script(_Pair(subject.lowered.module, subject.lower(recorder)))
    if len(recorder.operations) != 2 * len(given):
        count = len(recorder.operations) - len(given)
        yield Differs(f"{len(given)} handles more when lowered again", str(count))
    for ending, lite in ENDINGS.items():
        with open_archive(subject.archives[ending], name=ending) as opened:
            asked = len([handle for handle in given if handle in opened.handles])
        with open_archive(lowered_archive(both, lite=lite), name=f"both{ending}") as opened:
            known = len([handle for handle in recorder.operations if handle in opened.handles])
            states = [set(state.handles) for state in opened.lowered.values()]
        if known != 2 * asked:
            yield Differs(f"{ending}: {2 * asked} handles of two modules", str(known))
        if shared := set.intersection(*states):
            yield Differs(f"{ending}: no handle in the states of two modules", str(min(shared)))


def _first_difference(first: bytes, second: bytes) -> str:
    """The first record that differs between two archives."""
    with open_archive(first, name="first") as left, open_archive(second, name="second") as right:
        for name, record in left.records.items():
            if name not in right.records or bytes(record.view()) != bytes(right.records[name].view()):
                return f"another {name}"
    return f"{len(second)} bytes for {len(first)}"


def refusal(subject: Subject) -> Said:
    """Check that invalid states are refused."""
    spec, processed = kept_of(subject.lowered.module._c)
    states: dict[str, Any] = {"None": None, "the number 3": 3}
    if _texts(processed):
        states["a state of garbage texts"] = _with_texts(processed, lambda _: GARBAGE)
    for what, state in states.items():
        error = raised(partial(subject.backend.runtime().compile, state, spec))
        if not isinstance(error, REFUSALS):
            yield Differs(f"{what} to be refused with an ArchiveError", _taken(error, state))
    if any(text for _, text in _texts(processed)):
        cut = _with_texts(processed, lambda text: text[: len(text) // 2])
        error = raised(partial(subject.backend.runtime().compile, cut, spec))
        if error is not None and not isinstance(error, REFUSALS):
            yield Differs("texts that are cut in half to be refused with an ArchiveError", of_error(error))
        if error is None:
            yield Unseen(f"texts that are cut in half are a state, too: {_taken(error, cut)}")
    for what in ("None", "the number 3"):
        lowered = subject.lower(DebugHandles(FIRST_HANDLE))._c.getattr("__loweredModule__")
        given = spec, states[what], True
        if raised(partial(lowered._get_method("__setstate__"), given)) is None:
            yield Differs(f"{what} to be refused in TorchScript", "no error")


def _taken(error: Exception | None, state: object) -> str:
    """The error of compiling a state; if there is none, the texts in the state that were accepted."""
    texts = [f"{text[:MAX_SHOWN_LENGTH]!r} at state{place}" for place, text in _texts(state)]
    return f"no error, taken: {', '.join(texts)}" if error is None and texts else of_error(error)


def _texts(value: object, place: str = "") -> list[tuple[str, str]]:
    """The texts in a state, except keys: where each is, as ``['forward'][0]``, and the text."""
    if isinstance(value, str):
        return [(place, value)]
    items: list[tuple[object, object]] = []
    if isinstance(value, dict):
        items = [*value.items()]
    elif isinstance(value, list | tuple):
        items = [*enumerate(value)]
    return [text for key, item in items for text in _texts(item, f"{place}[{key!r}]")]


def _with_texts(value: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401
    """A copy of a state with changed texts."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _with_texts(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_with_texts(item, change) for item in value)
    return value
