"""Runs a model in any form, and notes what each of its operations computed."""

from __future__ import annotations

import io
import json
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import torch

from archive.backend.errors import BackendError
from archive.backend.pytorch import AS_OPTION, IMPORTING, message_of, not_loaded
from archive.backend.values.comparing import compared
from archive.backend.values.compiled import observe_compiled
from archive.backend.values.devices import observe_device
from archive.backend.values.eager import observe_eager
from archive.backend.values.etrecords import identity, loaded_program, method_program
from archive.backend.values.inputs import Inputs, by_position, random_inputs, wants_of, without_shapes
from archive.backend.values.observing import KeptValues
from archive.backend.values.programs import observe_program
from archive.backend.values.scripts import Script
from archive.base.bounded import bounded
from archive.base.errors import ArchiveError, LoweringError, one_line
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.notebooks import shown_by, text_by
from archive.debuginfo.source_lines import lines_of, model_line
from archive.debuginfo.values.gaps import DEFAULT_TOLERANCE
from archive.formats.etdump import is_dump
from archive.formats.tensor_files.safetensors import DTYPES, build_header
from archive.io.mapped import Mapped
from archive.io.output import replacing
from archive.reader.lookups.instructions import Regions
from archive.reader.opening import open as open_archive
from archive.reader.recognition import FileKind
from archive.reader.recognition.kinds import COMMAND_KINDS
from archive.reader.runtime.runs import read_etdump

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch.export.pt2_archive._package import PT2ArchiveContents

    from archive.debuginfo.values.gaps import ValueDiff
    from archive.debuginfo.values.observed import (
        Kept,
        Observed,
        ObservedOperation,
        RowView,
        Summary,
        ValueRow,
    )
    from archive.formats.exported.program import Program
    from archive.io.mapped import Source
    from archive.io.output import Sink
    from archive.reader.archive import Archive

ModelT = TypeVar("ModelT")
FORWARD = "forward"
SAFE_DTYPES = {name: written for written, name in DTYPES.items()}
RUN_KINDS = COMMAND_KINDS["run"]
EXECUTING = "While executing"
"""Begins what ``torch.fx.Interpreter`` adds to an error."""


class Run:
    """A run of a model: each operation in its order, at its place, with a summary of each result.

    Attributes:
        file: the name of what ran.
        form: what ran it: ``TorchScript``, ``lite interpreter``, ``exported program``, ``eager``,
            ``ExecuTorch``, ``AOTInductor``, or a backend: ``backend aten``.
        inputs: what it was run with, as it was before the run; none where that is not known.
        operations: in the order of the run.
        unseen: what ran without being seen, and how often.
        first_nan: the first operation that returned a NaN although no argument had one; None if none did.
        first_inf: the same of infinite numbers, which no argument asked for.
    """

    def __init__(self, file: str, inputs: Inputs, observed: Observed, values: KeptValues | None) -> None:
        self.file, self.inputs = file, inputs
        self.observed = observed
        self._kept = values
        self.form, self.operations, self.unseen = observed.form, observed.operations, observed.unseen
        self.first_nan, self.first_inf = observed.first_nan, observed.first_inf

    _repr_html_ = shown_by("of_run")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the room of kept values back; they cannot be read or compared after that."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def at(self, line: str) -> list[ObservedOperation]:
        """The operations of a line: ``models/net.py:57``, or any end of that path."""
        return [*self.observed.at(line)]

    def rows_by(self, view: RowView) -> list[ValueRow]:
        """One row for each line, module or operator, in the order in which they first ran."""
        return self.observed.rows_by(view)

    def value(self, operation: ObservedOperation, result: int = 0) -> torch.Tensor:
        """What an operation returned; quantised and sparse tensors as the numbers that they stand for.

        Raises:
            ValueError: values were not kept.
        """
        return self._values.tensor(operation.results[result])

    def diff(self, base: Run, *, tolerance: float = DEFAULT_TOLERANCE) -> ValueDiff:
        """How far this run is from another one of the same model, operation by operation.

        Args:
            base: the run of the reference.
            tolerance: of relative differences: the largest absolute one by the reference's largest value.

        Raises:
            ArchiveError: the runs return tensors of different sizes: they are of different models or inputs.
            ValueError: values were not kept.
        """
        return compared(self.observed, self._values, base.observed, base._values, tolerance)

    def save(self, target: Sink, *, force: bool = False) -> None:
        """Write all values as safetensors: ``00012.aten::linear``, in the order of the run.

        Metadata says of each what its line, module and handle are, as JSON.

        Args:
            force: replace an existing file.

        Raises:
            ValueError: values were not kept.
        """
        values = self._values
        tensors, at = dict[str, Any](), 0
        for name, result, kept in self._named():
            if result.dtype not in SAFE_DTYPES:
                raise ArchiveError(f"safetensors have no {result.dtype}", place=name)
            offsets = [at, at + kept.size]
            tensors[name] = {
                "dtype": SAFE_DTYPES[result.dtype],
                "shape": result.shape,
                "data_offsets": offsets,
            }
            at += kept.size
        places = {_name(operation): json.dumps(_place(operation)) for operation in self.operations}
        with replacing(target, force=force) as file:
            file.write(build_header(tensors, places))
            for _, _, kept in self._named():
                file.write(values.bytes_of(kept))

    def save_json(self, target: Sink, *, force: bool = False) -> None:
        """Write the document that ``debug-archive run --json`` prints, for ``report --values`` and programs.

        Args:
            force: replace an existing file.
        """
        with replacing(target, force=force) as file:
            file.write(text_by("value_facts", "run_document", self).encode())

    def _named(self) -> Iterator[tuple[str, Summary, Kept]]:
        """Each kept result, with its name in a file of values."""
        for operation in self.operations:
            name = _name(operation)
            for number, result in enumerate(operation.results):
                if result.kept is not None:
                    yield (f"{name}.{number}" if number else name), result, result.kept

    @property
    def _values(self) -> KeptValues:
        if self._kept is None:
            raise ValueError("values were not kept: run(..., keep=True)")
        return self._kept


def _name(operation: ObservedOperation) -> str:
    """The name of an operation's first result in a file of values."""
    return f"{operation.number:05}.{operation.op}"


def _place(operation: ObservedOperation) -> dict[str, object]:
    return {"line": operation.line, "module": operation.place.module, "key": operation.key}


@bounded
def run(
    model: Source | torch.nn.Module,
    *inputs: object,
    named: Mapping[str, object] | None = None,
    companion: Source | None = None,
    buffer: Source | None = None,
    method: str = FORWARD,
    keep: bool = True,
    seed: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Run:
    """Run a model once without gradients, and note what each of its operations computed.

    PyTorch loads and runs an archive, so its code must be trusted as with ``torch.jit.load``. TorchScript
    runs without optimisation, which would merge operations. Random numbers are those of seed 0.

    Of a model that AOTInductor compiled, only what it returns is noted.

    An ETDump is a run that ExecuTorch's runtime has noted: nothing runs, and inputs are not taken.

    Args:
        model: an archive, exported program, ETRecord or ETDump: a path, a bytes-like object, or a binary
            file; or a module, which runs in the mode that it is in.
        inputs: arguments.
        named: arguments by name.
        companion: debug info of the archive, if that was split off; of an ETDump, the ETRecord of the program
            that ran.
        buffer: of an ETDump, the values that were noted: its debug buffer.
        method: the method to run, or that ran; of an exported program its name, if there are several.
        keep: whether values are kept, in a temporary file, for :meth:`Run.value`, ``diff`` and ``save``.
        seed: make inputs by the model's own shapes from this seed, in place of ``inputs``.

    Raises:
        ArchiveError: the model cannot be run with these inputs.
    """
    if buffer is not None and not _is_dump(model):
        raise ValueError("a debug buffer is of an ETDump")
    values = KeptValues() if keep else None
    call = _Call(Inputs(inputs, dict(named or {})), method, seed, values)
    try:
        with torch.random.fork_rng(devices=[]), torch.inference_mode():
            torch.manual_seed(0)
            if isinstance(model, torch.jit.ScriptModule):
                model = _saved(model)
            if isinstance(model, torch.nn.Module):
                name = type(model).__name__
                given = call.inputs
                with _failing(name, method, given, "a call that the module takes"):
                    observed = observe_eager(model, *given.copied(), values)
            elif _is_dump(model):
                given = Inputs((), {})
                name, observed = _noted(model, companion, buffer, call, limits)
            else:
                with open_archive(model, companion=companion, kinds=RUN_KINDS, limits=limits) as opened:
                    name = opened.file
                    run_it = RUNS.get(opened.recognised.kind, _run_script)
                    given, observed = run_it(model, opened, call)
    except BaseException:
        if values is not None:
            values.close()
        raise
    return Run(name, given, observed, values)


class _Call(NamedTuple):
    """What :func:`run` is asked for."""

    inputs: Inputs
    method: str
    seed: int | None
    values: KeptValues | None


def _saved(module: torch.jit.ScriptModule) -> bytes:
    """A module's archive, which has the places of its operations."""
    file = io.BytesIO()
    torch.jit.save(module, file)
    return file.getvalue()


def _is_dump(model: Source | torch.nn.Module) -> bool:
    if isinstance(model, torch.nn.Module):
        return False
    with closing(Mapped(model)) as mapped:
        return is_dump(mapped.data)


def _noted(
    source: Source, record: Source | None, buffer: Source | None, call: _Call, limits: Limits
) -> tuple[str, Observed]:
    """The name of an ETDump, and a run that it has noted."""
    dump = read_etdump(source, limits)
    if record is None or buffer is None:
        missing = "the ETRecord of the program that ran" if record is None else "its debug buffer"
        raise ArchiveError(f"the values of an ETDump are read with {missing}", file=dump.file)
    if not call.inputs.is_empty or call.seed is not None:
        raise ArchiveError("an ETDump is of a run that is over: it takes no inputs", file=dump.file)
    with open_archive(record, kinds={FileKind.ETRECORD}, limits=limits) as opened:
        return dump.file, observe_device(dump, buffer, opened, call.method, call.values)


def _run_exported(source: Source, opened: Archive, call: _Call) -> tuple[Inputs, Observed]:
    """Run an exported program."""
    return _run_program(opened, *exported_program(source, opened, call.method), call)


def exported_program(
    source: Source, opened: Archive, name: str
) -> tuple[Program, torch.export.ExportedProgram]:
    """The program of a name, or the only one, and the same as PyTorch loads it."""
    program = _named(opened.programs, name, opened.file)
    return program, _loaded(source, opened.file).exported_programs[program.name]


def _run_recorded(_: Source, opened: Archive, call: _Call) -> tuple[Inputs, Observed]:
    """Run a program of an ETRecord: a method's in ExecuTorch's operators, or the one of a name."""
    program = method_program(opened, call.method)
    named = identity(opened, program.name)
    sourced = Regions(opened).sourced
    return _run_program(
        opened, program, loaded_program(opened, program), call, identity=named, sourced=sourced
    )


def _run_compiled(source: Source, opened: Archive, call: _Call) -> tuple[Inputs, Observed]:
    """Run a compiled model."""
    compiled = _named(opened.compiled, call.method, opened.file)
    wants = "inputs of the sizes that it was compiled for"
    if call.seed is not None:
        raise without_shapes(wants, opened.file)
    if not compiled.objects:  # PyTorch would compile them
        raise ArchiveError("has sources that were not compiled: it cannot run", file=opened.file)
    runner = _loaded(source, opened.file).aoti_runners[compiled.name]
    with _failing(opened.file, compiled.name, call.inputs, wants):
        observed = observe_compiled(runner, compiled, call.inputs.copied(), call.values)
        return call.inputs, observed


RUNS = {
    FileKind.EXPORTED: _run_exported,
    FileKind.ETRECORD: _run_recorded,
    FileKind.AOTI: _run_compiled,
}
"""What runs a file of a kind; TorchScript otherwise."""


def _run_program(
    opened: Archive,
    program: Program,
    exported: torch.export.ExportedProgram,
    call: _Call,
    **of_record: Any,  # noqa: ANN401 (as ``observe_program`` takes it)
) -> tuple[Inputs, Observed]:
    """Run a program."""
    given = call.inputs
    if call.seed is not None:
        given = random_inputs(program.inputs or (), call.seed, opened.file)
    with running_program(opened, program, exported, given) as given:
        observed = observe_program(exported, program, given.copied().args, call.values, **of_record)
        return given, observed


@contextmanager
def running_program(
    opened: Archive, program: Program, exported: torch.export.ExportedProgram, given: Inputs
) -> Iterator[Inputs]:
    """The inputs of a program's run, by default the samples that it has; its errors say what it takes."""
    parameters = program.inputs or ()
    if given.is_empty and exported.example_inputs is not None:
        given = Inputs(*exported.example_inputs)
    wants = wants_of(parameters)
    given = by_position(given, [each.name for each in parameters], wants, opened.file)
    with _failing(opened.file, program.name, given, wants):
        yield given


def _run_script(source: Source, opened: Archive, call: _Call) -> tuple[Inputs, Observed]:
    """Run a method of TorchScript, by default with the sample inputs that the archive has."""
    script = Script(source, opened, call.method)
    if call.seed is not None:
        raise without_shapes(script.wants, opened.file)
    given = call.inputs
    if given.is_empty and script.parameters:
        given = Inputs(script.bundled(), {})
    given = by_position(given, [name for name, _ in script.parameters], script.wants, opened.file)
    with _failing(opened.file, call.method, given, f"{script.wants}{AS_OPTION}"):
        return given, script.observe(given, call.values)


def _named(models: Mapping[str, ModelT], name: str, file: str) -> ModelT:
    """The model of a name, or the only one."""
    if len(models) == 1:
        return models[next(iter(models))]
    if name not in models:
        found = ", ".join(map(one_line, models))
        raise ArchiveError(expected="--method with one of its programs", found=found, file=file)
    return models[name]


def _loaded(source: Source, file: str) -> PT2ArchiveContents:
    """A package of programs and compiled models as PyTorch loads it."""
    from torch.export.pt2_archive._package import load_pt2  # noqa: PLC0415 (takes as long as torch itself)

    mapped = Mapped(source)
    try:
        return load_pt2(io.BytesIO(mapped.data))
    except Exception as error:  # broken archives make PyTorch raise errors of any kind
        raise not_loaded(error, file) from error
    finally:
        mapped.close()


def _line_of(error: BackendError) -> str:
    """The model's line at which an operation of a backend failed, and its text; "" where it is not known."""
    spans = [frame.range for frame in reversed(error.frames) if frame.range is not None]
    line = model_line([line for span in spans for line in lines_of(span)])
    return "" if line is None else f"{line.file}:{line.number}: {line.text}"


@contextmanager
def _failing(file: str, method: str, given: Inputs, wants: str) -> Iterator[None]:
    """Errors of a run, with what the model takes."""
    try:
        yield
    except ArchiveError:
        raise
    except LoweringError as error:  # no backend has the name that a lowered part asks for
        said = str(error).partition(f"\n\n{EXECUTING}")[0]
        raise ArchiveError(f"{one_line(' '.join(said.split()))}; {IMPORTING}", file=file) from error
    except BackendError as error:
        where = _line_of(error)
        if not where:
            raise ArchiveError(
                f"{method} fails with {given.text}: {one_line(error.message)}", file=file
            ) from error
        raise ArchiveError(f"{method} fails at {where}: {one_line(error.message)}", file=file) from error
    except Exception as error:  # a model may raise any
        message = f"{method} fails with {given.text}: {one_line(message_of(error))}; it takes {wants}"
        raise ArchiveError(message, file=file) from error
