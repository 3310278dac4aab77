"""Runs archives in a new process, which has nothing of this one but the backend's name and classes."""

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

from archive.backend.conformance.findings import of_error
from archive.backend.conformance.subject import fresh
from archive.backend.delegate import Delegate
from archive.backend.registry import Backend, find_backend, register_backend
from archive.effects.errors import LoweringError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

REQUEST_FILE, RESPONSE_FILE = "request.pickle", "response.pickle"
INTERPRETERS = {".pt": "TorchScript", ".ptl": "the lite interpreter"}


@dataclass(slots=True)
class Elsewhere:
    """The answer of another process.

    Attributes:
        results: the results by the way in which the model was run.
        errors: the errors by the way that failed.
        reasons: why something could not be tried.
    """

    results: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)

    def run(self, way: str, run: Callable[[], Any]) -> None:
        """Try a way to run the model."""
        try:
            self.results[way] = _plain(run())
        except Exception as error:  # noqa: BLE001 (whatever a foreign backend raises)
            self.errors[way] = of_error(error)


def run_elsewhere(
    backend: Backend, archives: Mapping[str, bytes], method: str, inputs: Sequence[Any]
) -> Elsewhere:
    """Run archives in a new process.

    Args:
        backend: the backend that they were lowered to; the new process imports it.
        archives: the archives by their endings.
        method: the method to run.
        inputs: the method's arguments.
    """
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
        found = Elsewhere(*pickle.loads(Path(folder, RESPONSE_FILE).read_bytes()))  # noqa: S301 (our own file)
    found.reasons += reasons
    return found


def respond(folder: Path) -> None:
    """Read the request in a folder, run it, and write the response there."""
    warnings.simplefilter("ignore", DeprecationWarning)
    backend_bytes, archives, method, inputs = pickle.loads((folder / REQUEST_FILE).read_bytes())  # noqa: S301 (our own file)
    found = Elsewhere()
    known = bool(backend_bytes)
    if known:
        try:
            _known(pickle.loads(backend_bytes))  # noqa: S301
        except Exception as error:  # noqa: BLE001 (importing foreign modules)
            known = False
            found.reasons.append(f"the backend cannot be imported there: {of_error(error)}")
    with torch.no_grad():
        for ending, data in archives.items():
            found.run(INTERPRETERS[ending], partial(_stock, ending, data, method, fresh(inputs)))
        if known:
            found.run("the runtime", lambda: Delegate.load(archives[".pt"]).run(method, *fresh(inputs)))
    (folder / RESPONSE_FILE).write_bytes(pickle.dumps((found.results, found.errors, found.reasons)))


def _known(backend: Backend) -> None:
    """Register a backend, unless its import has done so."""
    try:
        find_backend(backend.name)
    except LoweringError:
        register_backend(
            backend.name, preprocess=backend.preprocess, runtime=backend.runtime, link=backend.link
        )


def _stock(ending: str, data: bytes, method: str, inputs: Sequence[Any]) -> Any:  # noqa: ANN401
    """The results of stock PyTorch."""
    torch.default_generator.manual_seed(0)
    if ending == ".ptl":
        return torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(data)).run_method(method, *inputs)
    return getattr(torch.jit.load(io.BytesIO(data)), method)(*inputs)


def _plain(value: Any) -> Any:  # noqa: ANN401
    """A result with plain tuples in place of named ones, whose classes this process cannot import."""
    if isinstance(value, tuple | list):
        kind = list if isinstance(value, list) else tuple
        return kind(map(_plain, value))
    return {key: _plain(one) for key, one in value.items()} if isinstance(value, dict) else value


if __name__ == "__main__":
    respond(Path(sys.argv[1]))
