"""Functions that differ in names of variables alone, which PyTorch numbers, and the rows about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.compare.changes import Change, changed, several
from archive.compare.sameness import Level
from archive.compare.variables import is_allowed
from archive.debuginfo.model import Inert
from archive.formats.inert_values import DATA
from archive.formats.local_names import canonical
from archive.formats.record_kinds import RecordKind, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.base.limits import Allowance
    from archive.reader.archive import Archive


def rows_of_names(
    numbered: Sequence[str], renamed: Mapping[tuple[tuple[str, str], ...], Sequence[str]]
) -> Iterator[Change]:
    """Rows about functions that differ in names alone: of variables, and of arguments that callers use."""
    if numbered:
        yield changed(Level.IDS, "names of variables", several(numbered))
    for pairs, functions in renamed.items():
        was, now = (", ".join(each) for each in zip(*pairs, strict=True))
        yield changed(Level.MODEL, "names of arguments", several(functions), was, now)


def roots_of(archive: Archive) -> set[str]:
    """The classes of the models themselves, whose methods callers use; none of PyTorch 1.0 to 1.2."""
    trees = [name for name in archive.records if kind_of(name) is RecordKind.MODULES and name.endswith(DATA)]
    return {str(value.what) for value in map(archive.value, trees) if isinstance(value, Inert)}


def differ_in_numbers(old: str, new: str, allowance: Allowance, *, keeps_arguments: bool) -> bool:
    """Whether a function differs in the names of variables alone; of arguments, too, unless they are kept."""
    if old == new or not is_allowed(len(old) + len(new), allowance):
        return False
    was, now = (canonical(each, keeps_arguments=keeps_arguments) for each in (old, new))
    return was == now
