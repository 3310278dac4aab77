"""Records every n-th call of a lowered module: its operations, their memory, and what they computed."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING, Any

from archive.backend.values.observing import Recorder, ranges_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.debuginfo.profiles.timeline import Recording
    from archive.debuginfo.values.observed import Range


class CallValues:
    """What the operations of a call computed, as a backend's runtime gives it.

    Args:
        recorder: what it is noted by, with the debug handle of each operation.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.run = recorder.run

    def before(self, given: Sequence[object]) -> Sequence[Range]:
        """The arguments of an operation that may change them, before it runs, for :meth:`note`."""
        return ranges_in(given)

    def note(self, handle: int, op: str, given: object, result: object, before: Sequence[Range] = ()) -> None:
        """Note an operation that has run.

        Args:
            handle: its debug handle.
            op: its name: ``aten::linear``.
            given: its arguments.
            result: what it returned; tensors may be in lists and tuples.
            before: of its arguments, if it may have changed them.
        """
        self._recorder.note(op, before, given, result)
        self.run.handles.append(handle)


@contextmanager
def recorded(
    runtime: Any,  # noqa: ANN401 (of any backend)
    operations: list[tuple[int, int, int, str]],
    memory: list[tuple[int, int, int, int, int]] | None = None,
    values: CallValues | None = None,
) -> Iterator[None]:
    """Have a runtime that can be profiled record what it runs in a block; see its protocol."""
    runtime.operations, runtime.memory = operations, memory
    if values is not None:
        runtime.values = values
    runtime.profiling = True
    try:
        yield
    finally:
        runtime.profiling = False
        runtime.operations, runtime.memory = [], None
        if values is not None:
            runtime.values = None


class CallRecorder:
    """Executes the calls of a lowered module, and records every n-th of them.

    Args:
        recording: what they are added to.
        every: n; the first call is recorded.
        memory: whether their memory is recorded.
        values: whether what they compute is.
    """

    def __init__(self, recording: Recording, every: int, *, memory: bool, values: bool) -> None:
        self._recording, self._every = recording, every
        self._memory, self._values = memory, values
        self._calls, self._lock = count(), RLock()

    def execute(self, runtime: Any, compiled: Any, inputs: list[Any]) -> list[Any]:  # noqa: ANN401 (of any backend)
        """Execute a call in a runtime that can be profiled: see :class:`archive.backend.Runtime`."""
        if next(self._calls) % self._every:
            results: list[Any] = runtime.execute(compiled, inputs)
            return results
        with self._lock:
            return self._recorded(runtime, compiled, inputs)

    def _recorded(self, runtime: Any, compiled: Any, inputs: list[Any]) -> list[Any]:  # noqa: ANN401
        recording = self._recording
        recorder = Recorder(f"backend {recording.backend}", None) if self._values else None
        if recorder is not None:
            recorder.observed.outputs = None
            recording.values.append(recorder.run)
        values = None if recorder is None else CallValues(recorder)
        memory = recording.memory if self._memory else None
        with recorded(runtime, recording.operations, memory, values):
            results: list[Any] = runtime.execute(compiled, inputs)
        if recorder is not None:
            recorder.note_outputs(results)
        return results
