"""Splits the digits of ``debug_handles:{24188}``: PyTorch prints handles without a separator.

A *reading* splits the digits into handles. ``24188`` may be the handle 24188, or 24 inside of 188, or 241
inside of 88. The handles of one failure, innermost first, are

- the operations of delegated modules, if any: they are in the call-stack map, but in no method's
  instructions;
- then one instruction of each method that was running. The innermost instruction failed or, after delegated
  operations, called the backend's ``execute``. Each further instruction called a method through an
  interface, and that method has the name of the one before it::

      24188  =  24                 188
                in m.inner         in top.forward: INTERFACE_CALL "inner"

An archive with unique handles prints its instructions' handles with 18 digits: they are split by their width,
and only delegated operations in front of them are sought: see :mod:`archive.debuginfo.unique_handles`.

Each handle is in the call-stack map and occurs in a reading once, no two instructions are of the same method,
and decimal numbers have no leading zeros. Where several readings are left, a reading is likelier

1. if it ends in a method of the top module;
2. if its delegated operations fit: the blob of the lowered module that is called here names them all, as far
   as it can be read, and each operation around another one is a call.

Failures of real models need every rule. Whenever the rules preferred a single reading, it was the true one:
see ``tests/failures/ambiguous_models.py``. Where several readings are equally likely, none is taken.
"""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from archive.base.spending import Recent
from archive.base.strings import decoded
from archive.debuginfo.unique_handles import DIGITS, HANDLE_DIGITS, may_be_plain, prefix_at_end
from archive.formats.bytecode import INTERFACE_CALL, MAX_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from archive.base.limits import Steps
    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.debuginfo.unique_handles import HandleForm
    from archive.formats.bytecode import LiteInstruction
    from archive.reader.archive import Archive

MAX_HANDLES = 16
"""Handles of one failure: modules inside one another, each called through an interface or a backend."""
MAX_READINGS = 1_000
"""Readings that are looked at, those with the fewest handles first."""
STEPS_A_HANDLE = 4
"""Steps to compare each handle of a reading with the rules."""
EXECUTE_METHOD = b"execute"
"""The method of a backend that runs a lowered module."""


RUNNING_OPCODES = {b"OP", b"OPN", b"CALL", INTERFACE_CALL, b"RAISE_EXCEPTION"}
"""Instructions of the lite interpreter that call an operator or a method, or raise."""
CALLS = b"prim::Call"
"""The start of the names of operators that call a method."""
FACTS_KEPT = 1 << 16
"""Handles whose facts are kept."""


class ReadingState(NamedTuple):
    """The state of a reading after some handles.

    Attributes:
        at: the number of digits read.
        callee: the name of the method that the next instruction must call.
        in_methods: whether an instruction of a method was read; no delegated operation follows one.
    """

    at: int
    callee: bytes
    in_methods: bool


class Digits(NamedTuple):
    """The digits of a failure.

    Attributes:
        plain: how many there are in front of the unique handles.
    """

    text: str
    plain: int
    form: HandleForm

    @property
    def has_unique(self) -> bool:
        """Whether they end with unique handles; then all instructions have this form."""
        return self.plain < len(self.text)


class HandleSplits:
    """Splits the joined handles of an archive, by the rules of this module.

    Args:
        logged: gives the form of unique handles in a log; by default the archive's own.
    """

    def __init__(self, archive: Archive, logged: Callable[[], HandleForm] | None = None) -> None:
        self._archive = archive
        self._logged = logged or (lambda: archive.handle_form)
        self.operations = HandleOperations(archive)

    def likeliest(self, readings: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """The readings that rank first; several if the rules rank them equally."""
        if len(readings) == 1:
            return [*readings]
        ranks = {reading: self._rank(reading) for reading in readings}
        best = min(ranks.values(), default=None)
        return [reading for reading, rank in ranks.items() if rank == best]

    def form(self, digits: str) -> HandleForm:
        """The form of the handles in some digits: an archive may have been split, and print unique ones."""
        return self._logged_form if prefix_at_end(digits) else self._archive.handle_form

    @cached_property
    def _logged_form(self) -> HandleForm:
        return self._logged()

    def names_archive(self, digits: str) -> bool:
        """Whether digits end with a unique handle of the archive."""
        return bool(self.form(digits).split(digits)[1])

    def fitting(self, digits: str, steps: Steps) -> list[tuple[int, ...]]:
        """Split the handles that PyTorch printed without a separator.

        Args:
            digits: the text between the braces.

        Returns:
            Every reading that fits the archive, the likeliest first; each as ``Archive.symbolicate`` takes
            it, inner handles first. At most 1,000 readings are looked at, of no more than 16 handles each.
        """
        form = self.form(digits)
        printed = Digits(digits, len(form.split(digits)[0]), form)
        longest = MAX_HANDLES * (DIGITS if printed.has_unique else self.operations.most_digits)
        if len(digits) > longest or not (digits.isascii() and digits.isdecimal()):
            return []
        if not printed.has_unique and not may_be_plain(digits, self._archive.handle_form.prefix):
            return []  # they end with a unique handle, and it is another archive's
        fitting = []
        for reading in islice(self._readings(printed, steps), MAX_READINGS):
            steps.take(STEPS_A_HANDLE * len(reading))
            # No handle stands twice, and no method has two instructions: it runs one at a time.
            methods = [method for handle in reading if (method := self.operations[handle].method) >= 0]
            if len(set(methods)) == len(methods) and len(set(reading)) == len(reading):
                fitting.append(reading)
        return (
            sorted(fitting, key=lambda reading: (self._rank(reading), reading))
            if len(fitting) > 1
            else fitting
        )

    def _readings(self, digits: Digits, steps: Steps) -> Iterator[tuple[int, ...]]:
        """All readings, those with few handles first.

        Readings of n handles form a tree that grows with every digit, and most of its branches end before the
        last digit. So the states are found first, of which there are few, and how many handles may follow on
        each; only branches that reach the end are followed.
        """
        start = ReadingState(0, b"", in_methods=False)
        ahead = {start: self._steps(digits, start, steps)}
        states = [start]
        for state in states:  # it grows meanwhile
            for _, step in ahead[state]:
                if step not in ahead:
                    ahead[step] = self._steps(digits, step, steps)
                    states.append(step)
        # The numbers of handles that may follow on a state, each a bit.
        left = dict[ReadingState, int]()
        for state in sorted(states, reverse=True):
            is_end = state.at == len(digits.text) and state.in_methods
            left[state] = int(is_end)
            for _, step in ahead[state]:
                left[state] |= left[step] << 1

        def readings(state: ReadingState, handles: tuple[int, ...], count: int) -> Iterator[tuple[int, ...]]:
            if not count:
                yield handles
                return
            steps.take(len(ahead[state]))
            for handle, step in ahead[state]:
                if left[step] >> (count - 1) & 1:
                    yield from readings(step, (*handles, handle), count - 1)

        for count in range(1, MAX_HANDLES + 1):
            if left[start] >> count & 1:
                yield from readings(start, (), count)

    def _steps(self, digits: Digits, state: ReadingState, steps: Steps) -> list[tuple[int, ReadingState]]:
        """The handles that may come next, each with the state after it."""
        known, at = self.operations, state.at
        if at == len(digits.text):
            return []
        if at >= digits.plain:
            ends = range(at + DIGITS, at + DIGITS + 1)
        else:
            longest = 1 if digits.text[at] == "0" else known.most_digits
            ends = range(at + 1, min(at + longest, digits.plain) + 1)
        steps.take(len(ends))
        continuations = []
        for end in ends:
            handle = digits.form.known_as(int(digits.text[at:end]))
            if handle not in known:
                continue
            operation = known[handle]
            if known.has_methods and operation.method < 0:
                # No instruction's handle: a delegated operation, if no method's instruction came before.
                if not state.in_methods and end <= digits.plain:
                    continuations.append((handle, ReadingState(end, EXECUTE_METHOD, in_methods=False)))
            # The innermost handle may be any instruction's; a further one must call what is inside of it.
            elif end <= digits.plain and digits.has_unique:
                continue  # an instruction's handle is unique here
            elif not at or (
                operation.may_call and operation.instruction in (None, (INTERFACE_CALL, state.callee))
            ):
                continuations.append((handle, ReadingState(end, operation.callee, in_methods=True)))
        return continuations

    def _rank(self, handles: tuple[int, ...]) -> tuple[bool, bool]:
        """The rank of a reading by the module's two rules; the likeliest has the smallest."""
        owner = decoded(self.operations[handles[-1]].method_name).rpartition(".")[0]
        return owner != self._archive.qualified_top, not self._fits(handles)

    def _fits(self, handles: tuple[int, ...]) -> bool:
        """Whether the delegated operations, if any, fit the instruction that called the backend."""
        known = self.operations
        delegated = [handle for handle in handles if known[handle].method < 0]
        if not delegated or not known.has_methods:
            return True
        if not all(known[handle].may_call for handle in delegated[1:]):
            return False
        # Inlined calls may lie between the method and the backend: the innermost module is the lowered one.
        caller = handles[len(delegated)]
        owner = known.module_type(caller) or decoded(known[caller].method_name).rpartition(".")[0]
        blob = known.blobs.get(owner)
        return not blob or blob.issuperset(delegated)


# --- what a handle is


class HandleOperation(NamedTuple):
    """The operation that a handle stands for.

    Attributes:
        method: the number of the method whose instruction has it; -1 where none is known.
        method_name: the method's qualified name; b"" where none is known.
        callee: its last part, by which an instruction calls it.
        may_call: whether it may be a call's: its row names no operator, or a call.
        instruction: its instruction; None where the bytecode doesn't show it.
    """

    method: int
    method_name: bytes
    callee: bytes
    may_call: bool
    instruction: LiteInstruction | None


class HandleOperations:
    """The operations of an archive by their debug handles, looked up in columns without making entries."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._table = archive.handle_table
        self._methods = archive.method_table
        self._facts = Recent[int, HandleOperation](FACTS_KEPT)
        self._names = Recent[int, tuple[bytes, bytes]](FACTS_KEPT)
        self._operators = Recent[int, tuple[str, bool]](FACTS_KEPT)
        self._modules: dict[int, int] = {}

    def __contains__(self, handle: int) -> bool:
        return self._table is not None and handle in self._table.rows

    @cached_property
    def most_digits(self) -> int:
        """The digits of the longest handle, without a prefix; 0 where there are no handles."""
        if self._table is None or not len(self._table):
            return 0
        if self._archive.handle_form.prefix:
            return HANDLE_DIGITS
        return max(len(str(int(self._table.handle.min()))), len(str(int(self._table.handle.max()))))

    @cached_property
    def has_methods(self) -> bool:
        """Whether it is known which handles are instructions of methods."""
        return self._methods is not None and len(self._methods.value) > 0

    @cached_property
    def blobs(self) -> Mapping[str, frozenset[int]]:
        """Class of a lowered module → the handles in the blobs of its instances, if all can be read."""
        blobs: dict[str, frozenset[int]] = {}
        for state in self._archive.lowered.values():
            blobs[state.type_name] = blobs.get(state.type_name, frozenset()) | set(state.handles)
        unread = {state.type_name for state in self._archive.lowered.values() if state.unread}
        return {name: handles for name, handles in blobs.items() if name not in unread}

    def __getitem__(self, handle: int) -> HandleOperation:
        """The facts about a known handle; those of handles asked for lately are kept."""
        known = self._facts.get(handle)
        if known is not None:
            return known
        methods = self._methods
        place = None if methods is None else methods.place_of(handle)
        if methods is None or place is None:
            operation = HandleOperation(-1, b"", b"", self._operator(handle)[1], None)
            return self._facts.keep(handle, operation, 1)
        method, number = place
        name, callee = self._method_names(methods, method)
        table = self._archive.instruction_table
        instruction = None if table is None else table.at(name, number)
        operation = HandleOperation(method, name, callee, self._operator(handle)[1], instruction)
        return self._facts.keep(handle, operation, 1)

    def runs_nothing(self, handle: int) -> bool:
        """Whether a handle is known to be an instruction's that calls neither an operator nor a method."""
        instruction = self[handle].instruction
        return instruction is not None and instruction.opcode not in RUNNING_OPCODES

    def operator(self, handle: int) -> str:
        """The name of a known handle's operator; "" where none is recorded, or too long a name."""
        return self._operator(handle)[0]

    def module_type(self, handle: int) -> str:
        """The class of the innermost module in a known handle's call stack; "" where there is none."""
        table = self._known
        frame, visited = int(table.stack[table.rows[handle]]), list[int]()
        while frame >= 0 and frame not in self._modules:  # each frame is visited once
            visited.append(frame)
            frame = int(table.next[frame])
        module = self._modules.get(frame, -1)
        for inner in reversed(visited):
            module = int(table.module[inner]) if module < 0 else module
            self._modules[inner] = module
        name = memoryview(b"") if module < 0 else table.strings.data(int(table.module_type[module]))
        return decoded(name) if len(name) <= MAX_NAME else ""

    def _operator(self, handle: int) -> tuple[str, bool]:
        """The name of a known handle's operator, as :meth:`operator` gives it, and whether it may call."""
        op = int(self._known.op[self._known.rows[handle]])
        if op < 0:
            return "", True
        known = self._operators.get(op)
        if known is None:
            name = self._known.strings.data(op)
            shown = decoded(name) if len(name) <= MAX_NAME else ""
            known = self._operators.keep(op, (shown, name[: len(CALLS)] == CALLS), 1)
        return known

    def _method_names(self, methods: MethodTable, method: int) -> tuple[bytes, bytes]:
        """The qualified name of a method, b"" if it is too long, and its last part."""
        known = self._names.get(method)
        if known is None:
            text = methods.strings.data(int(methods.name[method]))
            name = bytes(text) if len(text) <= MAX_NAME else b""
            known = self._names.keep(method, (name, name.rpartition(b".")[2]), 1)
        return known

    @property
    def _known(self) -> HandleTable:
        assert self._table is not None  # noqa: S101 (else no handle is known)
        return self._table
