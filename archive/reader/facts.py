"""The facts by which a failure names its model: a few bytes that say much when the file isn't at hand."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import STEP, distinct_values
from archive.base.quick_dataclass import dataclass
from archive.base.strings import decoded
from archive.container.serialization_id import RECORD_NAME
from archive.debuginfo.unique_handles import SPAN, HandleForm, may_be_plain
from archive.formats.record_kinds import CODE_FOLDERS, code_of, is_code

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from archive.base.strings import StringTable
    from archive.reader.archive import Archive

OWNERS_KEPT = 1 << 12
"""Handles whose owners are kept, a bit for each model."""
MAX_ID = 64
"""Bytes of a serialization id that are read at most."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about a model that say whether a failure may come from it.

    Attributes:
        archive_id: the archive id, in hexadecimal digits.
        prefix: the prefix of its unique handles; 0 where it has none.
        serialization_id: the serialization id; "" where there is none.
        top: the class of the top module.
        qualified_top: the same with its module.
        handles: the debug handles without a prefix that failures may name, as ascending ranges.
        code: the code records that a traceback may name, those of a redacted archive among them; for a
            companion, those with source ranges.
        redacted_id: the archive id of the redacted archive, in the same digits; "" if that is the same.
    """

    archive_id: str
    prefix: int
    serialization_id: str
    top: str
    qualified_top: str
    handles: tuple[range, ...]
    code: frozenset[str]
    redacted_id: str = ""

    @property
    def ids(self) -> frozenset[str]:
        """The ids that stand for this model only."""
        prefix = str(self.prefix) if self.prefix else ""
        return frozenset({self.archive_id, self.redacted_id, prefix, self.serialization_id}) - {""}

    def names(self, file: str) -> frozenset[str]:
        """What a log may call the model: its file, with and without ending; its top class."""
        path = PurePath(file)
        classes = (self.top, self.qualified_top)
        return frozenset({path.name, path.stem, path.name.partition(".")[0], *classes}) - {""}

    def may_have_handles(self, digits: str) -> bool:
        """Whether digits can be split into handles of the model; nothing else is checked.

        Args:
            digits: handles as they are printed, concatenated.
        """
        whole, (digits, unique) = digits, HandleForm(self.prefix).split(digits)
        if not unique and not may_be_plain(whole, self.prefix):
            return False
        return bool(self.handles and having_all(digits, len(str(self.handles[-1][-1])), self._has))

    def _has(self, handle: int) -> int:
        run = bisect_right(self.handles, handle, key=lambda handles: handles.start)
        return run > 0 and handle in self.handles[run - 1]

    def may_have_code(self, names: Collection[str]) -> bool:
        """Whether the model has code records of all these names."""
        return self.code.issuperset(names)


def having_all(digits: str, most: int, having: Callable[[int], int]) -> int:
    """The members that have all handles of some digits, split in any way.

    Args:
        digits: plain handles, concatenated.
        most: the digits of the longest handle.
        having: handle → the members that have it: a set, a bit for each.

    Returns:
        The set of members that have every handle of one of the ways to split; everyone, if there are no
        digits.
    """
    if not (digits + "0").isdecimal():
        return 0
    ends = {0: -1}
    for at in range(len(digits)):
        if so_far := ends.pop(at, 0):
            longest = 1 if digits[at] == "0" else most
            for end in range(at + 1, min(at + longest, len(digits)) + 1):
                if owners := so_far & having(int(digits[at:end])):
                    ends[end] = ends.get(end, 0) | owners
    return ends.get(len(digits), 0)


class HandleOwners:
    """Which of many models may have printed some digits, by the facts of all of them at once.

    Args:
        facts: of each model; None where they are not known.
    """

    def __init__(self, facts: Sequence[Facts | None]) -> None:
        runs = [() if known is None else known.handles for known in facts]
        self._owner = np.repeat(np.arange(len(facts)), [*map(len, runs)])
        self._first = np.array([run[0] for handles in runs for run in handles], np.int64)
        self._last = np.array([run[-1] for handles in runs for run in handles], np.int64)
        self._largest = int(self._last.max(initial=-1))
        self._count = len(facts)
        self._prefixes = [0 if known is None else known.prefix for known in facts]
        self._having = lru_cache(maxsize=OWNERS_KEPT)(self._owners_of)

    def of(self, digits: str) -> list[int]:
        """The numbers of the models that may have printed plain handles, in order.

        Args:
            digits: the handles, concatenated; no unique ones of these models are among them.
        """
        if not may_be_plain(digits, 0):
            return []
        owners = having_all(digits, len(str(self._largest)), self._having)
        numbers = [number for number, bit in enumerate(reversed(f"{owners:b}")) if bit == "1"]
        return [number for number in numbers if may_be_plain(digits, self._prefixes[number])]

    def _owners_of(self, handle: int) -> int:
        if handle > self._largest:
            return 0
        has = np.zeros(self._count, bool)
        has[self._owner[(self._first <= handle) & (handle <= self._last)]] = True
        return int.from_bytes(np.packbits(has, bitorder="little").tobytes(), "little")


def facts_of(opened: Archive) -> Facts:
    """The facts about an archive or a companion."""
    serialization_id = ""
    if opened.has_code and RECORD_NAME in opened.container.records:
        serialization_id = decoded(opened.container.records[RECORD_NAME].view()[:MAX_ID]).strip()
    companion = opened.companion
    redacted = None if companion is None else companion.redacted_id
    others = [] if companion is None else [name for name in companion.replaced if is_code(name)]
    if opened.has_code:
        code = frozenset(name for name in [*opened.records, *others] if name.startswith(CODE_FOLDERS))
    else:
        code = frozenset([*map(code_of, opened.range_records), *others])
    return Facts(
        archive_id=opened.archive_id.hex(),
        prefix=opened.handle_form.prefix,
        serialization_id=serialization_id,
        top=opened.top,
        qualified_top=opened.qualified_top,
        handles=_handles(opened),
        code=code,
        redacted_id="" if redacted is None else redacted.hex(),
    )


def _handles(opened: Archive) -> tuple[range, ...]:
    table, form = opened.handle_table, opened.handle_form
    if table is not None:
        has_prefix = form.tabled and form.prefix
        handles = distinct_values(table.handle % SPAN if has_prefix else table.handle)
    elif opened.programs:
        from archive.reader.lookups.lowered import possible_handles  # noqa: PLC0415 (few have programs)

        handles = distinct_values(np.fromiter(possible_handles(opened), np.int64))
    else:
        return ()
    runs = np.split(handles, np.flatnonzero(np.diff(handles) != 1) + 1)
    return tuple(range(int(run[0]), int(run[-1]) + 1) for run in runs if len(run))


OF_ONE_FILE = {"file.prefix", "file.digest", "member.kind", "member.modified"}
"""Columns of a companion that don't affect what it says of its handles."""


def handle_digest(opened: Archive) -> bytes:
    """A digest of all that a companion says of its handles: equal digests say the same of each handle.

    Models that were merely trained again have equal ones: only their weights, ids and prefixes differ. A
    unique handle says more: it belongs to one of them.

    Returns:
        16 bytes; none for an archive with code, whose instructions matter, too.
    """
    companion = opened.companion
    if companion is None or opened.has_code:
        return b""
    from archive.base.digests import digest_of  # noqa: PLC0415 (only where several may have failed so)

    contents, form = companion.contents.unlabelled(), opened.handle_form
    columns, strings = contents.columns, contents.strings
    ends = [*range(0, len(strings), STEP), len(strings)]
    return digest_of(
        digest_of(repr((opened.limits, form.tabled, form.prefix > 0)).encode()),
        *(
            digest_of(f"{name}\0".encode(), _bytes(columns[name]))
            for name in sorted(columns.keys() - OF_ONE_FILE)
        ),
        digest_of(_bytes(strings.length)),
        *(digest_of(*strings.copies(slice(low, high))) for low, high in pairwise(ends)),
    )


def splitting_digest(opened: Archive) -> bytes:
    """A digest of all by which a companion's joined handles are split, and contradicted: see ``handles``.

    Versions of a model that differ in their source only have equal ones.

    Returns:
        16 bytes; none for an archive with code, whose instructions matter, too, or without handles.
    """
    table, methods, form = opened.handle_table, opened.method_table, opened.handle_form
    if table is None or opened.companion is None or opened.has_code:
        return b""
    from archive.base.digests import digest_of  # noqa: PLC0415 (only where several may have failed so)

    form_of_all = repr((form.tabled, form.prefix > 0, methods is None)).encode()
    parts: list[bytes | memoryview] = [form_of_all, _bytes(table.handle)]
    parts += _named(table.op, table.strings)
    if methods is not None:
        parts += [_bytes(methods.first), _bytes(methods.value), *_named(methods.name, methods.strings)]
    return digest_of(*(digest_of(part) for part in parts))


def _named(column: np.ndarray, strings: StringTable) -> list[bytes | memoryview]:
    """A column of strings, by what they are rather than by their numbers in a table."""
    numbers, places = np.unique(column, return_inverse=True)
    texts = [bytes(strings.data(number)) if number >= 0 else b"" for number in numbers.tolist()]
    return [_bytes(places), repr((numbers.min(initial=0) < 0, texts)).encode()]


def _bytes(column: np.ndarray) -> memoryview:
    return np.ascontiguousarray(column, "<i8").data.cast("B")
