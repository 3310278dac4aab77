"""``diff`` tells what differs between two files, from the model down to the line.

Rows (:class:`~archive.compare.changes.Change`) have six levels
(:class:`~archive.compare.changes.Level`).
Each part of a file is compared as what it stands for, so that numbers and places that a process or a save
chooses do not count:

- tensors by name (``tensors``): elements in logical order, whatever the record that holds them (``numbers``);
- attributes, constants and other values part by part (``values``);
- code by class, method and function (``code``), with mangled names paired (``pairing``); lines are those of
  the model's source where source ranges lead to one;
- instructions of the lite interpreter by method (``instructions``);
- exported programs by node (``programs``);
- side effects of methods (``effects``);
- source ranges, handles (``debug``);
- all other records by their bytes (``records``).

No record is left out: what is not understood, or could not be compared, keeps ``diff`` from calling two
models the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.compare.changes import Change, Diff, Status, TensorChange, TextChange
from archive.compare.comparison import compare
from archive.compare.sameness import Level
from archive.reader.archive import Archive
from archive.reader.opening import open as open_archive

if TYPE_CHECKING:
    from collections.abc import Collection

    from archive.base.mapped import Source

__all__ = ["Change", "Diff", "Level", "Status", "TensorChange", "TextChange", "diff"]


@bounded
def diff(
    old: Archive | Source,
    new: Archive | Source,
    *,
    ignore: Collection[Level | str] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> Diff:
    """Compare two archives, saved objects, exported programs or companions, of the same kind or not.

    >>> found = diff("fixtures/releases/torch-1.10.0/nested.pt", "fixtures/releases/torch-2.13.0/nested.pt")
    >>> found.identical, found.same_model
    (False, True)

    Args:
        old: an open archive, which stays open, or its file: a path, a bytes-like object, a binary file.
        new: the same.
        ignore: levels of differences that are left out: ``extras``, ``debug``, ``layout``, ``ids``,
            ``format``.
        limits: what hostile input may cost; an open archive has its own.

    Raises:
        ArchiveError: a file is of a kind that is not read (the message says what it is), or contradicts
            itself.
        OSError: a file cannot be read.
        ValueError: there is no such level.
    """
    levels = {Level(level) for level in ignore}
    if not isinstance(old, Archive):
        with open_archive(old, limits=limits) as opened:
            return diff(opened, new, ignore=levels, limits=limits)
    if not isinstance(new, Archive):
        with open_archive(new, limits=limits) as opened:
            return diff(old, opened, ignore=levels, limits=limits)
    return compare(old, new).without(levels)
