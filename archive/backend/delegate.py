"""Runs lowered modules by their backend in this process, with errors and profiles at the model's source.

Stock PyTorch runs the TorchScript that a lowered module consists of. A :class:`Delegate` runs the backend's
runtime itself, in Python: each failure is a :class:`BackendError` that shows the model's own lines, and each
operation can be timed. The debug info is that of the module, of its archive, or of a companion.
"""

from __future__ import annotations

import inspect
import io
from contextlib import contextmanager
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.errors import NO_HANDLE, BackendError, failed_handle
from archive.backend.graph.range_finder import OF_LOADED_CODE
from archive.backend.lower import codegen
from archive.backend.lower.reloading import loaded_by_pytorch
from archive.backend.lower.saving import write_lowered
from archive.backend.lower.wrappers import LOWERED_TYPE, lowered_parts
from archive.backend.pytorch import RAISED, message_of, said_by
from archive.backend.recording import CallRecorder
from archive.backend.registry import find_backend
from archive.backend.values.inputs import Inputs
from archive.backend.values.running import Run
from archive.base.errors import ArchiveError, LoweringError
from archive.debuginfo.profiles.places import place_of
from archive.debuginfo.profiles.profile import Profile
from archive.debuginfo.profiles.timeline import Recording
from archive.effects.nested import tensors_in
from archive.io.mapped import Mapped
from archive.reader.opening import open as open_archive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from archive.debuginfo.profiles.places import OperationPlace
    from archive.debuginfo.symbolicate import Symbolication
    from archive.io.mapped import Source
    from archive.reader.archive import Archive


class Delegate:
    """A lowered module and the backend that runs it here.

    :meth:`of` and :meth:`load` make one; it is called like the module.

    Args:
        module: the module that is lowered, or holds the lowered one.
        part: the lowered module: its path in ``module``, and the ``torch._C.ScriptModule``.
        debug: opens the archive with the module's debug info; called when that is first needed.

    Attributes:
        backend: the backend that runs it.
        module: the module that is lowered, or holds the lowered one.
        path: attributes that lead from ``module`` to the lowered one, joined by dots; "" for itself.

    Raises:
        LoweringError: no backend has this name.
        BackendError: the backend is not available.
    """

    def __init__(
        self,
        module: torch.jit.ScriptModule,
        part: tuple[str, Any],
        debug: Callable[[], Archive],
    ) -> None:
        path, lowered = part
        lowered_name = LOWERED_TYPE.match(lowered._type().annotation_str)
        assert lowered_name is not None  # noqa: S101 (callers choose by this)
        self.backend = find_backend(lowered_name["backend"])
        self.module = module
        self.path = path
        self._module = lowered
        self._top = lowered._type().annotation_str.rpartition(".")[2]
        self._debug = debug
        self._methods: dict[str, tuple[inspect.Signature, int, int, bool]] = {}
        self._runtime = self.backend.runtime()
        self._recorder: CallRecorder | None = None
        if not self._runtime.is_available():
            raise BackendError(codegen.UNAVAILABLE, self.backend.name)
        try:
            spec, processed, _ = lowered._get_method("__getstate__")()
            self._compiled = self._runtime.compile(processed, spec)
        except Exception as error:
            said = BackendError(said_by(error), self.backend.name, self._place_of_failure(error))
            raise ArchiveError(f"backend {self.backend.name} does not compile the state: {said}") from error

    def __repr__(self) -> str:
        return f"<Delegate of {self._top}{self.path and f' at {self.path}'}, lowered to {self.backend.name}>"

    @classmethod
    def of(cls, module: torch.jit.ScriptModule, *, part: str | None = None) -> Delegate:
        """A delegate of a module that was lowered in this process, or read by ``load_archive``.

        Args:
            module: the lowered module, or one that holds it.
            part: path of the lowered module in ``module``; needed if there are several.

        Raises:
            LoweringError: ``module`` holds no lowered module, or several; the backend does not exist; or the
                lowered module was read by ``torch.jit.load``, and no longer knows the model's source.
            BackendError: the backend is not available.
        """
        path, lowered = _part(module, part)

        def debug() -> Archive:
            """The archive of the module as saving would write it."""
            buffer = io.BytesIO()
            write_lowered(module, buffer, "the module", lite=False)
            return open_archive(buffer.getvalue(), name="the module")

        methods = map(lowered._get_method, lowered.getattr("__method_compile_spec"))
        if any(OF_LOADED_CODE in node.sourceRange() for method in methods for node in method.graph.nodes()):
            # It was read from a file, and may not know the model's source: fail now.
            archive = debug()
            return cls(module, (path, lowered), lambda: archive)
        return cls(module, (path, lowered), debug)

    @classmethod
    def load(cls, source: Source, *, companion: Source | None = None, part: str | None = None) -> Delegate:
        """A delegate of a lowered module in an archive.

        TorchScript of the archive runs: trust it as you must for ``torch.jit.load``; see SECURITY.md.

        Args:
            source: the archive: a path, a bytes-like object, or a binary file.
            companion: its debug info, if that was split off.
            part: path of the lowered module in the archive's module; needed if there are several.

        Raises:
            LoweringError: the archive holds no lowered module, or several, or the backend does not exist.
            BackendError: the backend is not available.
        """
        debug = open_archive(source, companion=companion)
        mapped = Mapped(source)
        try:
            module = loaded_by_pytorch(io.BytesIO(mapped.data), debug.file)
        finally:
            mapped.close()
        return cls(module, _part(module, part), lambda: debug)

    def __call__(self, *inputs: object, **named: object) -> Any:  # noqa: ANN401
        """Run ``forward``; see :meth:`run`."""
        return self.run("forward", *inputs, **named)

    def run(self, method: str, *inputs: object, **named: object) -> Any:  # noqa: ANN401
        """Run a method.

        Raises:
            BackendError: an operation failed, or the backend has become unavailable.
            TypeError: the arguments do not fit the method.
            AttributeError: the method was not lowered.
        """
        if method not in self._compiled:
            raise AttributeError(f"expected a lowered method ({', '.join(self._compiled)}), found {method}")
        signature, positions, count, is_tuple = self._described(method)
        values = list(inputs)
        if named or len(inputs) != positions:
            bound = signature.bind(*inputs, **named)
            bound.apply_defaults()
            values = list(bound.arguments.values())
        if not self._runtime.is_available():
            raise BackendError(codegen.UNAVAILABLE, self.backend.name)
        self._check(method, dict(zip(signature.parameters, values, strict=True)))
        self._runtime.last_handle = NO_HANDLE
        try:
            recorder = self._recorder  # another thread may end the recording
            if recorder is None:
                results = self._runtime.execute(self._compiled[method], values)
            else:
                results = recorder.execute(self._runtime, self._compiled[method], values)
        except Exception as error:
            raise BackendError(said_by(error), self.backend.name, self._place_of_failure(error)) from error
        if len(results) != count:
            raise BackendError(
                f"method {method}: expected {count} results of the backend, found {len(results)}",
                self.backend.name,
            )
        return tuple(results) if is_tuple else results[0]

    def _check(self, method: str, arguments: Mapping[str, object]) -> None:
        """Check the arguments of a method that has a check."""
        check = codegen.CHECK_PREFIX + method
        if self._module._has_method(check):
            try:
                self._module._get_method(check)(**arguments)
            except (RuntimeError, torch.jit.Error) as error:
                raise BackendError(message_of(error).removeprefix(RAISED), self.backend.name) from error

    def _described(self, method: str) -> tuple[inspect.Signature, int, int, bool]:
        """A method's signature, the numbers of its parameters and results, and whether these are a tuple.

        If a parameter is given only by name, the first number is -1.
        """
        if method not in self._methods:
            schema = self._module._get_method(method).schema
            types, is_tuple = codegen.results(schema)
            arguments = codegen.arguments(schema)
            positions = -1 if any(argument.kwarg_only for argument in arguments) else len(arguments)
            by_name, by_place = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
            parameters = [
                inspect.Parameter(
                    argument.name,
                    by_name if argument.kwarg_only else by_place,
                    default=argument.default_value
                    if argument.has_default_value()
                    else inspect.Parameter.empty,
                )
                for argument in arguments
            ]
            self._methods[method] = inspect.Signature(parameters), positions, len(types), is_tuple
        return self._methods[method]

    def _place_of_failure(self, error: Exception) -> Symbolication | None:
        """The explanation of the operation that failed in the runtime; None if none did."""
        handle = failed_handle(error, self._runtime)
        return None if handle < 0 else self.symbolicate([handle])

    def symbolicate(self, handles: Sequence[int]) -> Symbolication:
        """Explain debug handles, inner ones first. Module paths start at the lowered module."""
        return self.archive.symbolicate(handles, top=self._top)

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors in the state of the lowered module."""
        return list(tensors_in(self._module.getattr("__processed_module")))

    @cached_property
    def archive(self) -> Archive:
        """The archive of the module, with its debug info."""
        return self._debug()

    @contextmanager
    def recording(self, *, memory: bool = False, values: bool = False, every: int = 1) -> Iterator[Recording]:
        """Record the calls in a ``with`` block; see :meth:`profile` and :meth:`runs`.

        Recorded calls run one after the other. Those that are not recorded may run beside them in other
        threads, if the backend's runtime keeps ``profiling`` by thread, as that of ``aten`` does.

        Args:
            memory: record the memory of operations, too, if the backend can; this takes longer. The backend
                ``aten`` records all that PyTorch's allocator gives and takes back; other backends may record
                only their results, and ``of_allocator`` of the recording is false then. What libraries such
                as oneDNN allocate by themselves is not seen. With gradients enabled, tensors that are kept
                for them count as in use.
            values: note what each operation computes: a summary of each result, as :func:`archive.run` does,
                some 0.5 KB for each operation. Tensors are not kept. Not together with ``memory``.
            every: record the first call, and each n-th after it; the others run as without a recording.

        Raises:
            LoweringError: the backend records no operations or no values, or this delegate is being recorded
                already.
            ValueError: ``every`` is less than 1, or both memory and values are asked for.
        """
        if memory and values:
            raise ValueError(
                "memory and values need a recording each: what values take would count as memory"
            )
        if every < 1:
            raise ValueError(f"every {every}: expected 1 or more")
        wanted = ["profiling", *(["values"] if values else [])]
        for name, what in zip(wanted, ("operations", "values"), strict=False):
            if not hasattr(self._runtime, name):
                raise LoweringError(
                    f"backend {self.backend.name} records no {what}: its runtime has no attribute {name} "
                    "(see archive.backend.Runtime)"
                )
        if self._recorder is not None:
            raise LoweringError("this delegate is being recorded already")
        of_allocator = getattr(self._runtime, "of_allocator", False)
        recording = Recording(self.backend.name, of_allocator=of_allocator)
        self._recorder = CallRecorder(recording, every, memory=memory, values=values)
        try:
            yield recording
        finally:
            self._recorder = None

    def profile(self, recording: Recording) -> Profile:
        """A recording at the model's source."""
        sources = self.archive.range_table.sources
        return Profile(recording, self._place, [sources[number] for number in range(len(sources))])

    def runs(self, recording: Recording) -> list[Run]:
        """The values of each recorded call at the model's source, as :func:`archive.run` has them.

        A call that failed has those of the operations before the failure.
        """
        place, inputs = cache(self._place), Inputs((), {})
        placed = [
            call.placed([(place(handle), handle) for handle in call.handles]) for call in recording.values
        ]
        return [Run(self.archive.file, inputs, observed, None) for observed in placed]

    def _place(self, handle: int) -> OperationPlace:
        return place_of(self.symbolicate([handle]))


def _part(module: torch.jit.ScriptModule, part: str | None) -> tuple[str, Any]:
    """A lowered module in a module, with its path, which is not needed if there is only one."""
    parts = lowered_parts(module._c)
    if part is None and len(parts) == 1:
        (part,) = parts
    if not parts:
        raise LoweringError("no module in it is lowered; lower it before saving")
    if part not in parts:
        known = " or ".join(f"part={one!r}" for one in sorted(parts))
        raise LoweringError(f"expected {known}, a lowered module's path, found {part!r}")
    return part, parts[part]
