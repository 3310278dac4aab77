"""What PyTorch 2.13 checks of records when it loads an archive: one list, with its own messages.

``CHECKS`` is read by :mod:`archive.verify`, and before any command says that PyTorch loads what it wrote.
Each was tried with PyTorch 2.13, and ``fixtures/releases/oracle-2.13.0.json`` says of each archive of the
fixtures what PyTorch made of it. Two kinds:

- *contradictions* between records, which every release refuses that reads these records;
- what *another release* wrote, and 2.13 does not read: nothing is wrong with such an archive, and a migration
  mends what can be mended.

Beyond the list: PyTorch compiles the generated code and makes objects of the module tree, which takes its
operators, its custom classes, and the backends that modules were lowered to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.errors import shown
from archive.formats import callstack_map, methods
from archive.formats.bytecode import NAME as BYTECODE
from archive.formats.kinds import VERSIONS
from archive.formats.releases import LOADED_BYTECODE
from archive.formats.values import DATA
from archive.mending import calls_without_range, mended, rows_without_range, tags_of
from archive.migration.rescue import may_be_stale, stale_methods
from archive.model import Generation
from archive.numbering import numbered

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from archive.formats.bytecode import Bytecode
    from archive.numbering import Ints
    from archive.reader import Archive
    from archive.tables import HandleTable, MethodTable

MAP = callstack_map.NAME
LEGACY, CONSTANTS = "model.json", "constants.pkl"
LOADED_VERSIONS = range(1, 11)
"""The versions of the archive's format that 2.13 reads."""
INTEGER = re.compile(rb"\s*([+-]?\d{1,40})")
MISSING = "PytorchStreamReader failed locating file {}: file not found"
TAG = "Source range tag must exist in deserialized source range map."


class Loader(StrEnum):
    """What loads an archive."""

    TORCHSCRIPT = "PyTorch 2.13's torch.jit.load"
    LITE = "PyTorch 2.13's lite interpreter"
    BOTH = "PyTorch 2.13"


class Facts(NamedTuple):
    """What the checks look at; None where there is none, or none that can be read.

    Attributes:
        archive: the archive.
        readable: the records that can be read.
        tags: those of all source ranges, sorted.
        handles: the call-stack map.
        methods: the handles of the methods' instructions.
        bytecode: the methods of the lite interpreter.
    """

    archive: Archive
    readable: Collection[str]
    tags: Ints | None
    handles: HandleTable | None
    methods: MethodTable | None
    bytecode: Bytecode | None


class Fault(NamedTuple):
    """What a check finds in one record.

    Attributes:
        record: where; "" for the archive as a whole.
        what: what is wrong, in the plural; "" for something about the record as a whole.
        found: numbers of what is wrong.
        describe: place and problem of one of them.
    """

    record: str
    what: str
    found: Ints | list[int]
    describe: Callable[[int], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that PyTorch checks.

    Attributes:
        loader: what checks it.
        message: what it says then, in its own words; values in it left out.
        find: where an archive fails it.
        of_release: whether archives fail it that another release wrote, and that are well in themselves.
        mended: whether a migration to the latest release mends it, in an archive that fails it.
    """

    loader: Loader
    message: str
    find: Callable[[Facts], Iterator[Fault]]
    of_release: bool = False
    mended: Callable[[Facts], bool] = lambda _: False

    def told(self, facts: Facts) -> str:
        """What PyTorch makes of an archive that fails the check, and the way out where there is one."""
        way_out = "; `debug-archive migrate --to latest` mends it" if self.mended(facts) else ""
        return f'{self.loader} refuses it: "{self.message}"{way_out}'


class Refusal(NamedTuple):
    """A check that an archive fails, and where first.

    Attributes:
        check: the check.
        told: what PyTorch makes of it, and the way out.
        record: the record; "" for the archive as a whole.
        place: where in it.
        problem: what is wrong there.
    """

    check: Check
    told: str
    record: str
    place: str
    problem: str


def refusals(archive: Archive) -> list[Refusal]:
    """The checks that an archive fails.

    Raises:
        ArchiveError: a record is broken.
    """
    tags = tags_of(archive.range_table)
    tables = archive.handle_table, archive.method_table, archive.bytecode
    facts = Facts(archive, archive.records, tags, *tables)
    found = []
    for check in CHECKS:
        fault = next((one for one in check.find(facts) if len(one.found)), None)
        if fault is not None:
            found.append(
                Refusal(check, check.told(facts), fault.record, *fault.describe(int(fault.found[0])))
            )
    return found


def new_contradictions(before: Archive, after: Archive) -> list[Refusal]:
    """The contradictions that an archive has and the one that it was made from has not.

    Raises:
        ArchiveError: a record is broken.
    """
    known = {_about(refusal.check) for refusal in refusals(before)}
    return [one for one in refusals(after) if not one.check.of_release and _about(one.check) not in known]


def _about(check: Check) -> str:
    """What a check is about: tags of rows and of calls are one thing, wrong alike where there are none."""
    return TAG if check.message.startswith(TAG) else check.message


def _whole(record: str, problem: str) -> Fault:
    """Something about a whole record."""
    return Fault(record, "", [0], lambda _: ("", problem))


def _version(facts: Facts) -> Iterator[Fault]:
    """The version is the first number in the first of its records."""
    name = next((name for name in VERSIONS if name in facts.readable), None)
    number = None if name is None else INTEGER.match(bytes(facts.archive.records[name].view()[:64]))
    if name is not None and number is not None and int(number[1]) not in LOADED_VERSIONS:
        known = f"{LOADED_VERSIONS[0]} to {LOADED_VERSIONS[-1]}"
        yield _whole(name, f"expected a version from {known}, found {int(number[1])}")


def _legacy(facts: Facts) -> Iterator[Fault]:
    if LEGACY in facts.archive.records:
        yield _whole(LEGACY, "the module tree as PyTorch 1.0 to 1.2 wrote it")


def _missing(name: str) -> Callable[[Facts], Iterator[Fault]]:
    def find(facts: Facts) -> Iterator[Fault]:
        if name not in facts.archive.records and LEGACY not in facts.archive.records:
            yield _whole("", f"expected a record {name}, found none")

    return find


def _stale(facts: Facts) -> Iterator[Fault]:
    for name in filter(may_be_stale, facts.readable):
        if stale_methods(bytes(facts.archive.records[name].view())):
            yield _whole(name, "a lowered module with the method __preprocess of PyTorch 1.6 to 1.8")


def _bytecode_version(facts: Facts) -> Iterator[Fault]:
    if facts.bytecode is not None and facts.bytecode.version not in LOADED_BYTECODE:
        known = f"{LOADED_BYTECODE[0]} to {LOADED_BYTECODE[-1]}"
        yield _whole(BYTECODE, f"expected a version from {known}, found {facts.bytecode.version}")


def _method_count(facts: Facts) -> Iterator[Fault]:
    if facts.methods is None or facts.bytecode is None:
        return
    expected, found = list(facts.bytecode.instructions), list(facts.methods.names)
    if len(expected) != len(found):
        missing = ", ".join(shown(name) for name in expected if name not in found)
        which = f", without {missing}" if missing else ""
        problem = f"expected the {len(expected)} methods of {BYTECODE}, found {len(found)}{which}"
        yield _whole(methods.HANDLES, problem)


def _method_names(facts: Facts) -> Iterator[Fault]:
    if facts.methods is None or facts.bytecode is None:
        return
    expected, found = list(facts.bytecode.instructions), list(facts.methods.names)
    other = [row for row, pair in enumerate(zip(expected, found, strict=False)) if pair[0] != pair[1]]
    if len(expected) == len(found):
        yield Fault(
            methods.HANDLES,
            "methods of other names",
            other,
            lambda row: (
                f"row {row}, field method",
                f"expected {shown(expected[row])}, as in {BYTECODE}, found {shown(found[row])}",
            ),
        )


def _instructions(facts: Facts) -> Iterator[Fault]:
    if facts.methods is None or facts.bytecode is None:
        return
    table, expected = facts.methods, facts.bytecode.instructions
    counts = (table.first[1:] - table.first[:-1]).tolist()
    rows = list(zip(table.names, counts, strict=True))
    other = [row for row, (name, count) in enumerate(rows) if expected.get(name, count) != count]

    def describe(row: int) -> tuple[str, str]:
        name, count = rows[row]
        problem = f"expected as many handles as instructions, {expected[name]}, found {count}"
        return f"row {row}, method {shown(name)}", problem

    yield Fault(methods.HANDLES, "methods with another number of instructions", other, describe)


def _elements(facts: Facts) -> Iterator[Fault]:
    if facts.handles is not None and callstack_map.generation(facts.handles) is Generation.CALLSTACK_3:
        yield _whole(MAP, "rows of three elements, as PyTorch 1.9 wrote them")


def _row_tags(facts: Facts) -> Iterator[Fault]:
    if facts.handles is None or facts.tags is None:
        return
    tag = facts.handles.tag
    if not len(facts.tags) and len(tag):
        yield _whole(MAP, "no source range has a tag, so nothing tells where the handles lead")
        return
    rows = rows_without_range(facts.handles, facts.tags)
    yield Fault(
        MAP,
        "tags of no source range",
        rows,
        lambda row: (f"row {row}, field tag", f"expected the tag of a source range, found {tag[row]}"),
    )


def _call_tags(facts: Facts) -> Iterator[Fault]:
    if facts.handles is None or facts.tags is None or not len(facts.tags):
        return
    tag, frames = facts.handles.call_tag, _Frames(facts.handles)
    yield Fault(
        MAP,
        "tags of no source range in call stacks",
        calls_without_range(facts.handles, facts.tags),
        lambda frame: (
            f"{frames.place(frame)}, field tag",
            f"expected the tag of a source range or -1, found {tag[frame]}",
        ),
    )


def _can_be_mended(facts: Facts) -> bool:
    return mended(facts.handles, facts.archive.range_table)[1] > 0


def _unique(facts: Facts) -> Iterator[Fault]:
    if facts.handles is None:
        return
    handle = facts.handles.handle
    again = np.ones(len(handle), np.bool_)
    again[numbered(handle)[1]] = False
    yield Fault(
        MAP,
        "handles that are not unique",
        np.flatnonzero(again),
        lambda row: (f"row {row}, field handle", f"expected a new handle, found {handle[row]} again"),
    )


class _Frames:
    """Where frames stand; one that several stacks share, in one of them."""

    def __init__(self, table: HandleTable) -> None:
        self.row = np.full(len(table.next), -1, np.int64)
        rows = np.flatnonzero(table.stack >= 0)[::-1]
        self.row[table.stack[rows]] = rows  # of equal ones the last assignment, the first row, stays
        self.outer = np.full(len(table.next), -1, np.int64)
        frames = np.flatnonzero(table.next >= 0)
        self.outer[table.next[frames]] = frames

    def place(self, frame: int) -> str:
        """The row, and how many calls lie outside of the frame."""
        depth = 0
        while self.row[frame] < 0 and self.outer[frame] >= 0:
            frame, depth = int(self.outer[frame]), depth + 1
        return f"row {self.row[frame]}, frame {depth}"


CHECKS = (
    Check(
        Loader.BOTH,
        "Attempted to read a PyTorch file with version",
        _version,
        of_release=True,
    ),
    Check(Loader.BOTH, "Legacy model format is not supported on mobile.", _legacy, of_release=True),
    Check(Loader.BOTH, MISSING.format(DATA), _missing(DATA)),
    Check(Loader.TORCHSCRIPT, MISSING.format(CONSTANTS), _missing(CONSTANTS)),
    Check(
        Loader.TORCHSCRIPT,
        "object has no attribute or method 'preprocess'",
        _stale,
        of_release=True,
        mended=lambda _: True,
    ),
    Check(
        Loader.LITE,
        f"Lite Interpreter version number does not match. The model version must be between "
        f"{LOADED_BYTECODE[0]} and {LOADED_BYTECODE[-1]}",
        _bytecode_version,
        of_release=True,
    ),
    Check(Loader.LITE, "The numbers of bytecode values and debug info values do not match.", _method_count),
    Check(
        Loader.LITE,
        "The function names in the bytecode table and the debug info table do not match.",
        _method_names,
    ),
    Check(Loader.LITE, "The numbers of instructions and debug handles strings do not match.", _instructions),
    Check(
        Loader.LITE,
        "Pickled map must have four elements: debug_handle, source_range_tag, op name, "
        "IValue(inlined_call_stack)",
        _elements,
        of_release=True,
        mended=lambda _: True,
    ),
    Check(Loader.LITE, TAG, _row_tags, mended=_can_be_mended),
    Check(Loader.LITE, f"{TAG} Not found source range tag", _call_tags, mended=_can_be_mended),
    Check(Loader.LITE, "Debug handles should be unique.", _unique),
)
"""In the order in which PyTorch comes upon them."""
