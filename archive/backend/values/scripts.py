"""Places of operations that TorchScript and the lite interpreter run.

PyTorch's older profiler notes the call stack in generated code beside each event, without following Python.
An event of ours before each operation has the operation's stack; in the lite interpreter it is inside of the
event of an instruction. Optimisation is off: it merges operations, and drops some.

Several paths through a method's instructions may have the operators that ran. An operation may then be of
several lines: those of a lowered module, whose branches are for one operation each. If TorchScript runs the
same archive to the same values, its stacks say of which of them it is.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
import torch.jit.mobile
from torch.autograd import ProfilerConfig, ProfilerState

from archive.backend.errors import BackendError
from archive.backend.lower.by_handle import FAILING_OPERATOR
from archive.backend.stock.running import LITE, LITE_SCOPE, TORCHSCRIPT, LiteMethod, loaded_module, method_of
from archive.backend.values.observing import Observer, Recorder
from archive.base.errors import ArchiveError, one_line
from archive.debuginfo.profiles.places import NO_SOURCE, UNKNOWN_PLACE, common_place
from archive.formats.record_kinds import BYTECODE
from archive.pickles.values import Inert
from archive.reader.lookups.places import StockPlaces

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from archive.backend.values.inputs import Inputs
    from archive.backend.values.observing import KeptValues
    from archive.debuginfo.profiles.places import OperationPlace
    from archive.debuginfo.source_lines import SourceLine
    from archive.debuginfo.values.observed import Observed
    from archive.io.mapped import Source
    from archive.reader.archive import Archive

    Place = tuple[OperationPlace, int | str | None]

MARK = "debug-archive: operation "
PUSH = "push"
DISPATCH = "PythonDispatchMode"
"""PyTorch's event around our observer, in its own events of the operator."""


class Script:
    """A method of a TorchScript or lite archive.

    Args:
        source: the archive as PyTorch loads it.
        opened: the same with its debug info.

    Attributes:
        on_lite: whether the lite interpreter runs it: it does if the archive has bytecode and debug handles.
        parameters: the name and type of each.
    """

    def __init__(self, source: Source, opened: Archive, method: str) -> None:
        self.on_lite = BYTECODE in opened.records and bool(opened.methods)
        self._source, self._opened, self._method = source, opened, method
        self._lite = LiteMethod.of(opened, method) if self.on_lite else None
        self._module = loaded_module(source, opened.file, lite=self.on_lite)
        state = opened.data.state if isinstance(opened.data, Inert) else None
        self._is_frozen = isinstance(state, dict) and "training" not in state
        self._run = method_of(self._module, opened.file, method, lite=self.on_lite)
        if self._lite is None:
            arguments = self._module._c._get_method(method).schema.arguments[1:]
            self.parameters = [(each.name, str(each.type)) for each in arguments]
        else:
            self.parameters = [(name, kind) for name, kind, _ in self._lite.parameters or ()]

    @property
    def wants(self) -> str:
        """Its parameters in words."""
        return ", ".join(f"{name}: {kind}" for name, kind in self.parameters) or "no inputs"

    def bundled(self) -> tuple[object, ...]:
        """The first sample inputs that ``torch.utils.bundled_inputs`` has put into it; () without."""
        name = f"get_all_bundled_inputs_for_{self._method}"
        if self.on_lite:
            has_some = any(method.endswith(f".{name}") for method in self._opened.methods)
            samples = self._module.run_method(name) if has_some else ()
        else:
            samples = getattr(self._module, name)() if self._module._c._has_method(name) else ()
        return tuple(samples[0]) if samples else ()

    def observe(self, inputs: Inputs, values: KeptValues | None) -> Observed:
        """Run it once, without optimisation; only copies of the inputs are changed."""
        if self._lite is not None:
            self._lite.check(inputs.args)
        recorder = Recorder(LITE if self.on_lite else TORCHSCRIPT, values)
        recorder.observed.is_frozen = self._is_frozen
        events = self._noted(recorder, self._run, inputs)
        places = self._places(events, len(recorder))
        if self._lite is not None and any(found is not None and found[0].among for found in places):
            places = self._places(events, len(recorder), self._lines_of_script(recorder, inputs))
        return recorder.finish(places)

    def _noted(self, recorder: Recorder, run: Callable[..., object], inputs: Inputs) -> Sequence[Any]:
        """Run a method, and note what it computes; PyTorch's events of it."""
        given = inputs.copied().args
        recorder.note_inputs(given)
        try:
            with (
                _profiled(stacks=recorder.observed.form == TORCHSCRIPT) as events,
                Observer(recorder, _mark),
                torch.jit.optimized_execution(False),
            ):
                result = run(*given)
        except RuntimeError as error:
            if recorder.failure is None:
                raise
            op, message = recorder.failure
            *_, place = self._places(events, len(recorder) + 1)
            line = place[0].source if place else None
            if op == FAILING_OPERATOR:  # what a backend says itself
                raise BackendError(f"at {line or NO_SOURCE}: {message}", "") from error
            raise RuntimeError(f"{op} at {line or NO_SOURCE}: {message}") from error
        recorder.note_outputs(result)
        return events

    def _lines_of_script(self, recorder: Recorder, inputs: Inputs) -> list[SourceLine | None]:
        """The line of each operation in TorchScript; [] if that does not run, or to other values."""
        again = Recorder(TORCHSCRIPT, None)
        torch.manual_seed(0)
        try:
            module = loaded_module(self._source, self._opened.file, lite=False)
            run = method_of(module, self._opened.file, self._method, lite=False)
            events = self._noted(again, run, inputs)
        except (ArchiveError, RuntimeError):  # it ran in the lite interpreter, which is all that was asked
            return []
        if _values_of(again) != _values_of(recorder):
            return []
        places = _script_places(events, len(again), StockPlaces(self._opened))
        return [None if found is None else found[0].source for found in places]

    def _places(
        self, events: Sequence[Any], count: int, lines: Sequence[SourceLine | None] = ()
    ) -> list[Place | None]:
        """The place of each operation.

        Args:
            lines: of each in TorchScript.
        """
        places = StockPlaces(self._opened)
        if self._lite is not None:
            return _lite_places(events, count, self._lite, places, lines)
        return _script_places(events, count, places)


def _mark(number: int) -> None:
    with torch._C._profiler._RecordFunctionFast(f"{MARK}{number}"):
        pass


@contextmanager
def _profiled(*, stacks: bool) -> Generator[list[Any]]:
    """The events of the older profiler, one list for all threads; filled at the end.

    Args:
        stacks: whether each has its call stack. In the lite interpreter that says nothing, and takes half of
            the run.
    """
    if torch._C._autograd._profiler_enabled():
        raise ArchiveError("PyTorch's profiler runs already, and there is one in a process")
    events: list[Any] = []
    config = ProfilerConfig(
        ProfilerState.CPU, False, False, stacks, False, False, torch._C._profiler._ExperimentalConfig()
    )
    torch._C._autograd._enable_profiler_legacy(config)
    try:
        yield events
    finally:
        for thread in torch._C._autograd._disable_profiler_legacy():
            events += thread


def _script_places(events: Sequence[Any], count: int, places: StockPlaces) -> list[Place | None]:
    """The place of each operation, by its call stack."""
    of_stack = cache(places.of_stack)
    found: list[Place | None] = [None] * count
    operator = ""
    for event in events:
        if event.kind() != PUSH:
            continue
        name = event.name()
        if name.startswith(MARK):
            stack = tuple(event.stack())
            found[int(name.removeprefix(MARK))] = (of_stack(stack, one_line(operator)), None)
        elif name != DISPATCH:
            operator = name
    return found


def _values_of(recorder: Recorder) -> list[tuple[str, list[str]]]:
    """The operators of a run in their order, and what identifies their results."""
    return [(one.op, [each.digest for each in one.results]) for one in recorder.run.operations]


def _lite_places(
    events: Sequence[Any],
    count: int,
    method: LiteMethod,
    places: StockPlaces,
    lines: Sequence[SourceLine | None] = (),
) -> list[Place | None]:
    """The place of each operation, by the instruction that it runs in, and its line if that is known."""
    instructions, of_operation = list[str](), [-1] * count
    for event in events:
        if event.kind() != PUSH:
            continue
        if event.scope() == LITE_SCOPE:
            instructions.append(one_line(event.name()))
        elif event.name().startswith(MARK):
            of_operation[int(event.name().removeprefix(MARK))] = len(instructions) - 1
    handles = method.handles_of(instructions)
    of_handle = cache(places.of_handle)

    def place(at: int, line: SourceLine | None) -> Place:
        found = handles[at] if at >= 0 else ()
        if not found:
            return UNKNOWN_PLACE, None
        found = (*(each for each in found if line and of_handle(each).source == line),) or found
        return common_place([of_handle(handle) for handle in found]), found[0] if len(found) == 1 else None

    return [place(*pair) for pair in zip(of_operation, lines or [None] * count, strict=True)]
