"""The runs of an ETDump → their times at the model's source.

Each instruction counts once: with the time of its kernel, or of its call where no kernel is noted, as of
operators on sizes. What a call takes beside its kernel, the runtime's own work and its notes, is part of no
operation. What a backend notes lies inside of the call of the backend, whose own time is the rest. Where it
does not (the backend has another clock, or does several things at once), the call counts as a whole, and the
backend's notes are left out and counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archive.base import memory
from archive.base.bounded import bounded
from archive.base.errors import ArchiveError, in_file, one_line
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.debuginfo.profiles.places import NO_MODULES, OperationPlace, joint_place
from archive.debuginfo.profiles.profile import Profile
from archive.debuginfo.profiles.timeline import RUNTIME_VIEWS, VIEWS, Recording
from archive.formats.etdump import DELEGATE_CALL
from archive.formats.etrecord import node_handles
from archive.reader.lookups.instructions import runs
from archive.reader.lookups.nodes import place_of_node
from archive.reader.lookups.own_program import check_own
from archive.reader.opening import open as open_archive
from archive.reader.recognition import FileKind
from archive.reader.runtime.recorded import RecordedRuns
from archive.reader.runtime.runs import read_etdump

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from archive.formats.etdump import ProfileEvent
    from archive.io.mapped import Source
    from archive.reader.runtime.runs import Call, Ran, Run

RUNTIME = "ExecuTorch"
UNKNOWN_BACKEND = "(unknown backend)"


class Operations:
    """The operations of consecutive runs, and the place of each.

    Args:
        recorded: the methods of the ETRecord; None without one.
        tick_ns: ns of a tick.

    Attributes:
        tick_ns: as given.
        recording: the operations; their debug handles are the numbers of their places.
        places: by number.
        left_out: what backends noted, and was left out.
        inferred: what XNNPACK noted, and has the place of a node of the same kind and order.
    """

    def __init__(self, recorded: RecordedRuns | None, tick_ns: float) -> None:
        self._recorded, self.tick_ns = recorded, tick_ns
        self._numbers: dict[tuple[str, Ran, str, int | None], int] = {}
        self._call_places: dict[tuple[str, Ran], CallPlace] = {}
        self._kernels = defaultdict[str, set[str]](set)
        self._start: int | None = None
        self._end = 0
        self.recording = Recording(RUNTIME)
        self.places: list[OperationPlace] = []
        self.left_out = self.inferred = 0

    def add(self, run: Run, method: str) -> None:
        """Add the operations of a run after those of earlier runs, whatever the clock says."""
        spans = [call.event for call in run.calls] + ([run.whole] if run.whole else [])
        first = min(event.start for event in spans)
        self._start = first if self._start is None else self._start
        shift = max(-self._start, self._end - first)
        self._end = shift + max(event.end for event in spans)
        self._kernels[method] |= self._of_kernels(run, method)
        for call in run.calls:
            outer = call.kernel or call.event
            inner = call.inner if _is_nested(outer, call.inner) else ()
            self.left_out += len(call.inner) - len(inner)
            handles = {} if self._recorded is None else self._recorded.handles_of_notes(method, call)
            self.inferred += sum(event.delegate in handles for event in inner)
            for event, name in ((outer, call.name), *((event, event.delegate) for event in inner)):
                number = self._number(method, call, event.delegate, handles.get(event.delegate))
                start, end = (round((tick + shift) * self.tick_ns) for tick in (event.start, event.end))
                self.recording.operations.append((start, end, number, name))

    def _of_kernels(self, run: Run, method: str) -> set[str]:
        """The nodes that kernels ran, by their keys."""
        ran = {call.ran for call in run.calls if call.operator and call.event.name != DELEGATE_CALL}
        found = ((one, self._recorded and self._recorded.instruction(method, one)) for one in ran)
        return {
            node.site.key for one, known in found if known for node in known.nodes if runs(one.operator, node)
        }

    def _number(self, method: str, call: Call, note: str, handle: int | None) -> int:
        """The number of the place of a call, or of what a backend noted inside of it.

        Args:
            handle: of the node that the note is of; None where it is not known.
        """
        key = method, call.ran, note, handle
        if key not in self._numbers:
            if key[:2] not in self._call_places:
                self._call_places[key[:2]] = CallPlace(self._recorded, method, call, self._kernels[method])
            self._numbers[key] = len(self.places)
            self.places.append(self._call_places[key[:2]].of(note, handle))
        return self._numbers[key]


class CallPlace:
    """The place of a call of an instruction, and of what a backend noted inside of it.

    Args:
        recorded: the methods of the ETRecord; None without one.
        of_kernels: the keys of nodes that kernels ran, which no backend did: some nodes share their handles.
    """

    def __init__(
        self, recorded: RecordedRuns | None, method: str, call: Call, of_kernels: Collection[str] = ()
    ) -> None:
        self._label = "" if recorded is None else f"{one_line(method)}/{call.ran.label}"
        instruction = None if recorded is None else recorded.instruction(method, call.ran)
        self._delegate = None if instruction is None else instruction.instruction.delegate
        nodes = () if instruction is None else instruction.nodes
        if call.operator:
            nodes = tuple(node for node in nodes if runs(call.operator, node))
        places = [place_of_node(node) for node in nodes]
        of_backend = self._delegate is not None
        own = [
            place
            for node, place in zip(nodes, places, strict=True)
            if not (of_backend and node.site.key in of_kernels)
        ]
        self._backend = UNKNOWN_BACKEND if call.event.name == DELEGATE_CALL else ""
        self._by_handle = defaultdict[int, list[OperationPlace]](list)
        if self._delegate is not None:
            self._backend = one_line(self._delegate.backend)
            for node, place in zip(nodes, places, strict=True):
                for handle in node_handles(node.site.metadata):
                    self._by_handle[handle].append(place)
        self._whole = joint_place(_deciding(own or places))

    def of(self, note: str, handle: int | None = None) -> OperationPlace:
        """The place of a note; of one whose nodes are not known, and of "", that of the call.

        Args:
            handle: of the node that it is of, as the program shows it; None for none.
        """
        place = self._whole
        events = {} if self._delegate is None else self._delegate.events
        handles = events.get(note, () if handle is None or handle not in self._by_handle else (handle,))
        if handles:
            found = [place for handle in handles for place in self._by_handle.get(handle, ())]
            place = joint_place(_deciding(found))
        return replace(place, instruction=self._label, delegate=self._backend)


def _deciding(places: Sequence[OperationPlace]) -> Sequence[OperationPlace]:
    """The places that show where an operation comes from.

    What was made outside of the model's modules says nothing of that while others do: quantisation puts nodes
    around those of the model, without a trace, or with that of a neighbour.
    """
    return [place for place in places if place.levels[0].path != NO_MODULES] or places


def _is_nested(outer: ProfileEvent, inner: Sequence[ProfileEvent]) -> bool:
    """Whether events lie inside of another one, each after the one before it, or inside of one of them."""
    ends = [outer.end]
    for event in sorted(inner, key=lambda event: (event.start, -event.end)):
        while len(ends) > 1 and ends[-1] <= event.start:
            ends.pop()
        if not outer.start <= event.start <= event.end <= ends[-1]:
            return False
        ends.append(event.end)
    return True


class RuntimeProfile(Profile):
    """A profile of ExecuTorch's runs.

    Args:
        operations: of the runs.
        runs: how many there are of each method; by "" without an ETRecord.
        whole_ns: the times of all runs, as the runtime has them; None where one did not end.
        has_record: whether the operations have places in the model.

    Attributes:
        runs: as given.
        whole_ns: as given.
        tick_ns: ns of a tick, as it was given.
        left_out: what backends noted outside of the times of their calls.
        inferred: notes of XNNPACK that have the place of a node of the same kind and order in the program.
    """

    def __init__(
        self, operations: Operations, runs: Counter[str], whole_ns: int | None, *, has_record: bool
    ) -> None:
        self.views = (*VIEWS, *RUNTIME_VIEWS) if has_record else ("operator", "delegate")
        super().__init__(operations.recording, operations.places.__getitem__)
        self.runs, self.whole_ns = runs, whole_ns
        self.tick_ns, self.left_out = operations.tick_ns, operations.left_out
        self.inferred = operations.inferred

    def facts(self) -> dict[str, Any]:
        """The sums for JSON: as of other profiles, with the runs and how long these took as a whole."""
        return super().facts() | {
            "runs": self.runs.total(),
            "methods": {method: count for method, count in self.runs.items() if method},
            "whole_ns": self.whole_ns,
            "left_out": self.left_out,
            "inferred": self.inferred,
        }


@bounded
def profile_etdump(
    dump: Source,
    record: Source | None = None,
    *,
    program: Source | None = None,
    method: str | None = None,
    warmup: int = 0,
    tick_ns: float = 1,
    limits: Limits = DEFAULT_LIMITS,
) -> RuntimeProfile:
    """The times that an ETDump of ExecuTorch's runtime has, at the model's source. Nothing runs.

    Args:
        dump: the ETDump: a path or URL, a bytes-like object, or a binary file.
        record: the ETRecord of the program that ran, likewise. Without it, modules and lines are not known.
        program: the ``.pte`` that ran, likewise. An ETRecord that was made with another one is refused.
        method: of the record, that ran; by default what each run fits.
        warmup: runs of each method that come first and are not counted.
        tick_ns: ns of a tick of the device's clock, which an ETDump does not say: 1 on Linux, Android and
            macOS.
        limits: what hostile files may cost.

    Returns:
        The profile, whose times are those of all runs that are counted.

    Raises:
        ArchiveError: a file is of another kind or broken, the ETRecord was not made with the program, the
            runs contradict it or fit several of its methods, or there are no runs to count.
        ValueError: there is a program, and no ETRecord.
        OSError: a file cannot be read.
    """
    if program is not None and record is None:
        raise ValueError("a program is compared with its ETRecord, which is missing")
    read = read_etdump(dump, limits)
    found = [run for run in read.runs if run.calls]
    if record is None:
        with in_file(read.file):
            return _profile([(run, "") for run in found], None, warmup, tick_ns)
    with (
        open_archive(record, limits=limits, kinds={FileKind.ETRECORD}) as archive,
        memory.charged(archive.allowance),
        in_file(read.file),
    ):
        own = None
        if program is not None:
            with open_archive(program, limits=limits, kinds={FileKind.EXECUTORCH}) as opened:
                own = check_own(archive, opened)
        recorded = RecordedRuns(archive, method, own)
        return _profile([(run, recorded.method_of(run)) for run in found], recorded, warmup, tick_ns)


def _profile(
    found: Sequence[tuple[Run, str]], recorded: RecordedRuns | None, warmup: int, tick_ns: float
) -> RuntimeProfile:
    """The profile of runs, each with its method."""
    operations, whole = Operations(recorded, tick_ns), list[int]()
    seen, counted = Counter[str](), Counter[str]()
    for run, method in found:
        seen[method] += 1
        if seen[method] <= warmup:
            continue
        counted[method] += 1
        operations.add(run, method)
        if run.whole is not None:
            whole.append(run.whole.end - run.whole.start)
    if not counted:
        which = f"after the first {warmup:,} of each method" if found else "of which an instruction is noted"
        raise ArchiveError(f"there are no runs {which}")
    whole_ns = round(sum(whole) * tick_ns) if len(whole) == counted.total() else None
    return RuntimeProfile(operations, counted, whole_ns, has_record=recorded is not None)
