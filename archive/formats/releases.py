"""The layouts that each PyTorch release writes and reads, in one table.

==========  ============  ==============  ==================  =========  ========  =======================
releases    ranges        call stacks     of instructions     delegated  bytecode  container
==========  ============  ==============  ==================  =========  ========  =======================
1.0, 1.1    none          none            none                no         none      ``model.json``
1.2         pair rows     none            none                no         none      ``model.json``
1.3, 1.4    pair rows     none            none                no         none      ``version`` first
1.5         pair rows     none            none                no         3         ``version`` first
1.6         pair rows     none            none                no         3         ``version`` last
1.7, 1.8    pair rows     none            module paths        no         4         the same
1.9         inline rows   3 elements      handles             no         5         the same
1.10, 1.11  inline rows   4 elements      handles             yes        7         the same
1.12 - 2.0  string table  4 elements      handles             yes        8         the same
2.1 - 2.13  string table  4 elements      handles             yes        8         ``byteorder``, id last
==========  ============  ==============  ==================  =========  ========  =======================

Seen in archives of 1.0.1, 1.2, 1.4 to 1.13, 2.0, 2.1, 2.4 and 2.13; 1.1, 1.3 and the others between are
assumed to be like their neighbours. Since 1.12 PyTorch can be set to write inline rows instead.

PyTorch 2.13 reads every layout of source ranges that a release wrote (not the tag-first rows of builds
between 1.8 and 1.9), call-stack maps of four elements only, bytecode from 4 to 9, and no ``model.json``. 1.9
to 1.11 fail on string tables (tried). Other releases are only assumed to read what they write.

The bytecode's version is ``kProducedBytecodeVersion`` in ``caffe2/serialize/versions.h``.
"""

from __future__ import annotations

import re

from archive.base.errors import ArchiveError
from archive.base.quick_dataclass import dataclass
from archive.debuginfo.model import Generation, RangeLayout

Number = tuple[int, int]
"""Major and minor."""


@dataclass(frozen=True, slots=True)
class Release:
    """The layouts that a range of releases writes.

    Attributes:
        first: its first release.
        last: its last release.
        ranges: layout of source ranges; None where it writes none.
        callstacks: layout of call-stack maps; None where it writes none.
        instructions: layout of the record about bytecode instructions; None where it writes none.
        delegated: whether it writes the source ranges of lowered modules.
        bytecode: version of the lite interpreter's code; None where there was none.
        version_first: whether the archive's version is the first record; else it is one of the last.
        byteorder: whether it writes ``byteorder`` and ``.data/serialization_id`` after the version.
        legacy: whether the module tree is ``model.json``.
    """

    first: Number
    last: Number
    ranges: RangeLayout | None
    callstacks: Generation | None = None
    instructions: Generation | None = None
    delegated: bool = False
    bytecode: int | None = None
    version_first: bool = False
    byteorder: bool = False
    legacy: bool = False


_C3, _C4 = Generation.CALLSTACK_3, Generation.CALLSTACK_4
_PATHS, _HANDLES = Generation.MODULE_PATHS, Generation.METHOD_HANDLES
RELEASES = (
    Release((1, 0), (1, 1), None, version_first=True, legacy=True),
    Release((1, 2), (1, 2), RangeLayout.PAIR, version_first=True, legacy=True),
    Release((1, 3), (1, 4), RangeLayout.PAIR, version_first=True),
    Release((1, 5), (1, 5), RangeLayout.PAIR, bytecode=3, version_first=True),
    Release((1, 6), (1, 6), RangeLayout.PAIR, bytecode=3),
    Release((1, 7), (1, 8), RangeLayout.PAIR, None, _PATHS, bytecode=4),
    Release((1, 9), (1, 9), RangeLayout.INLINE, _C3, _HANDLES, bytecode=5),
    Release((1, 10), (1, 11), RangeLayout.INLINE, _C4, _HANDLES, delegated=True, bytecode=7),
    Release((1, 12), (2, 0), RangeLayout.STRING_TABLE, _C4, _HANDLES, delegated=True, bytecode=8),
    Release(
        (2, 1), (2, 13), RangeLayout.STRING_TABLE, _C4, _HANDLES, delegated=True, bytecode=8, byteorder=True
    ),
)
RELEASE_NUMBERS: tuple[Number, ...] = (*((1, n) for n in range(14)), *((2, n) for n in range(14)))
"""All releases, oldest first."""
LATEST = RELEASE_NUMBERS[-1]
LOADED_BYTECODE = range(4, 10)
"""The versions of bytecode that 2.13 loads."""


def release(number: Number) -> Release:
    """The row of a release."""
    return next(release for release in RELEASES if release.first <= number <= release.last)


def writers(**facts: object) -> tuple[Number, Number]:
    """The first and the last release whose row has these facts."""
    rows = [row for row in RELEASES if all(getattr(row, name) == fact for name, fact in facts.items())]
    return rows[0].first, rows[-1].last


def writers_of_ranges(layout: RangeLayout) -> tuple[Number, Number]:
    """The first and the last release that writes source ranges in a layout, in archives with ``data.pkl``."""
    if layout is RangeLayout.TAG_FIRST:  # only builds between two releases
        return (1, 8), (1, 9)
    first, last = writers(ranges=layout, legacy=False)
    return first, LATEST if layout is RangeLayout.INLINE else last


def number_of(name: str) -> Number:
    """A release by its name: ``1.9``, ``1.9.0``, ``latest``."""
    if name == "latest":
        return LATEST
    match = re.fullmatch(r"v?(\d{1,3})\.(\d{1,3})(?:\.\d{1,3})?(?:\+\w+)?", name, re.ASCII)
    number = (int(match[1]), int(match[2])) if match else None
    if number not in RELEASE_NUMBERS:
        known = f"a release from {shown(RELEASE_NUMBERS[0])} to {shown(LATEST)}, or latest"
        raise ArchiveError(expected=known, found=name)
    return number


def shown(number: Number) -> str:
    """A release as text: ``1.9``."""
    return f"{number[0]}.{number[1]}"


def spanned(first: Number, last: Number) -> str:
    """A range of releases as text: ``1.9``, ``1.10 to 1.11``, ``2.1 or later``."""
    if first == last:
        return shown(first)
    if last == LATEST:
        return f"{shown(first)} or later"
    return f"{shown(first)} to {shown(last)}"
