"""The review file: which texts somebody has seen, and lets pass.

The first line is a header, each other line a row, as ``json.dumps(..., ensure_ascii=False)`` writes JSON
(lines are broken here):

{"format": "debug-archive review", "version": 1, "vocabulary": "torch 2.13.0", "archive": "ab...",
 "reviewer": null, "rows": 1, "digest": "cd..."}
{"role": "name", "text": "SecretNet", "template": false, "count": 3, "first": "data.pkl, byte 3",
 "accepted": false}

``archive`` is the SHA-256 of the file whose texts were listed last. ``digest`` is the SHA-256 of all rows as
lines, each without ``accepted`` and with its newline: whoever accepts rows leaves it as it is, and a row with
another text is refused. A row stays accepted by its role and text. Rows of which the file has nothing any
more have a count of 0 if they were accepted, and go otherwise.

*Nothing that was accepted is lost.* The file is read again right before another takes its name, and what was
accepted until then stays accepted in that, whoever wrote it; processes of this program wait for each other.
It is a file of its own: no other one that the same call reads or writes (:func:`check_apart`).
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from archive.base.errors import ArchiveError, counted, one_line, shown
from archive.base.json_text import parsed_json
from archive.base.quick_dataclass import dataclass
from archive.io.mapped import Mapped, placed, regular_file
from archive.io.output import replacing, replacing_only, write_all
from archive.privacy.review.listing import ReviewRow, template_of
from archive.privacy.review.tables import ReviewTable
from archive.privacy.review.vocabulary import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from os import PathLike

    from archive.io.mapped import Source
    from archive.io.output import Sink

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FORMAT, FORMAT_VERSION = "debug-archive review", 1
MOST_BYTES, MOST_VALUES = 1 << 26, 1 << 16
"""Bytes of a review file, and values in one of its lines, at most."""
ROW_TYPES = {"role": str, "text": str, "template": bool, "count": int, "first": str, "accepted": bool}
TABLE_TYPES = {"entries": int, "digest": str, "odd": list}
ROLES = ("name", "key", "value")
UNACCEPTED = "that nobody has accepted"
KEEP = "what was accepted is only in it: take an older copy of it, or another FILE, which asks for all again"
"""The way out of a review file that cannot be read."""
MERGE_MARKS = (b"<<<<<<< ", b"||||||| ", b"=======", b">>>>>>> ")
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class ReviewFile:
    """What a review file says.

    Attributes:
        vocabulary: the words that were taken as known.
        archive: SHA-256, in hex, of the file whose texts were listed last.
        reviewer: who has looked at the rows, if known.
        rows: the texts.
    """

    vocabulary: str
    archive: str
    reviewer: str | None
    rows: tuple[ReviewRow, ...]


def check_apart(path: str | PathLike[str], *others: Source | Sink | None) -> None:
    """Refuse a review file that the same call reads or writes as something else, by its path or by a link.

    Args:
        path: the review file.
        others: what else is read or written; of files that are open and of bytes nothing is known.
    """
    for other in others:
        given = other.name if isinstance(other, Mapped) else other
        if not isinstance(given, (str, os.PathLike)):
            continue
        place = cast("str | PathLike[str]", placed(given)[0])
        if _is_same(path, place):
            why = "is the review file, and another file of this call, too; nothing is written"
            raise ArchiveError(why, file=os.fspath(place))


def _is_same(one: str | PathLike[str], other: str | PathLike[str]) -> bool:
    """Whether two paths lead to one file, which need not be there."""
    with suppress(OSError):
        if Path(one).samefile(other):
            return True
    return os.path.realpath(one) == os.path.realpath(other)


def read_review(path: str | PathLike[str]) -> ReviewFile | None:
    """A review file; None where there is none, or an empty one.

    Raises:
        ArchiveError: it isn't one, or more than ``accepted`` was changed in it.
        OSError: it cannot be read.
    """
    name = os.fspath(path)
    if not name:
        raise ArchiveError(expected="the path of a review file", found="an empty one")
    try:
        with regular_file(name) as file:  # it is written again
            if os.fstat(file.fileno()).st_size > MOST_BYTES:
                raise ArchiveError(f"a review of more than {MOST_BYTES:,} bytes", file=name)
            data = file.readall()
    except FileNotFoundError:
        return None
    if not data:
        return None
    if data.startswith(UTF_16):
        raise ArchiveError("is UTF-16: save it as UTF-8", file=name)
    head, *lines = all_lines = data.removesuffix(b"\n").split(b"\n")
    marked = next((at for at, line in enumerate(all_lines, 1) if line.startswith(MERGE_MARKS)), None)
    if marked is not None:
        why = "a mark of a merge: take one side whole, and accept again what only the other one had"
        raise ArchiveError(why, file=name, place=f"line {marked}")
    header = _object(head, name, 1)
    if header.get("format") != FORMAT or header.get("version") != FORMAT_VERSION:
        raise ArchiveError(
            file=name,
            place="line 1",
            expected=f'"format": "{FORMAT}", "version": {FORMAT_VERSION}',
            found=shown(head[:80].decode(errors="replace")),
        )
    rows = tuple(_row(line, name, number) for number, line in enumerate(lines, 2) if line.strip())
    if header.get("rows") != len(rows):
        raise ArchiveError(f"has {len(rows):,} rows of {shown(header.get('rows'))}; {KEEP}", file=name)
    if header.get("digest") != digest_of(rows):
        raise ArchiveError(
            f"its rows are not those that were written, and only `accepted` may change; {KEEP}", file=name
        )
    reviewer, words, archive = (header.get(key) for key in ("reviewer", "vocabulary", "archive"))
    return ReviewFile(str(words), str(archive), None if reviewer is None else str(reviewer), rows)


def _object(line: bytes, name: str, number: int) -> dict[str, Any]:
    try:
        value = parsed_json(line, MOST_VALUES)
    except ArchiveError as error:
        raise ArchiveError(f"{error.what}; {KEEP}", file=name, place=f"line {number}") from None
    if not isinstance(value, dict):
        raise ArchiveError(file=name, place=f"line {number}", expected="an object", found=shown(str(value)))
    return value


def _row(line: bytes, name: str, number: int) -> ReviewRow:
    value = _object(line, name, number)
    table = value.pop("table", None)
    _check(value, ROW_TYPES, name, number)
    if value["role"] not in ROLES:
        raise ArchiveError(file=name, place=f"line {number}", expected="a role", found=shown(value["role"]))
    if table is None:
        return ReviewRow(**value)
    _check(table, TABLE_TYPES, name, number)
    return ReviewRow(
        **value, table=ReviewTable(table["entries"], table["digest"], tuple(map(str, table["odd"])))
    )


def _check(value: object, types: dict[str, type], name: str, number: int) -> None:
    if not isinstance(value, dict) or value.keys() != types.keys():
        raise ArchiveError(file=name, place=f"line {number}", expected=", ".join(types), found="other keys")
    for key, kind in types.items():
        if type(value[key]) is not kind:
            found = shown(str(value[key]))
            raise ArchiveError(file=name, place=f"line {number}, {key}", expected=kind.__name__, found=found)


# --- rows that were accepted before


def with_accepted(
    rows: Iterable[ReviewRow], before: Sequence[ReviewRow], *, accept_names: bool = False
) -> tuple[ReviewRow, ...]:
    """Rows of a file, accepted if they were before; then accepted rows that are not in it.

    Args:
        rows: those of the file.
        before: those of a review file.
        accept_names: accept all rows of names.
    """
    accepted = {_key(row) for row in before if row.accepted}
    made = tuple(
        replace(row, accepted=_was_accepted(row, accepted) or (accept_names and row.role == "name"))
        for row in rows
    )
    here = {_key(row) for row in made}
    gone = (replace(row, count=0) for row in before if row.accepted and _key(row) not in here)
    return (*made, *gone)


def _key(row: ReviewRow) -> tuple[str, str, bool, str]:
    return row.role, row.text, row.template, row.table.digest if row.table else ""


def _was_accepted(row: ReviewRow, accepted: set[tuple[str, str, bool, str]]) -> bool:
    """Whether a row was accepted, by itself or by a template that it is one of."""
    role, text, template, table = _key(row)
    if (role, text, template, table) in accepted:
        return True
    return not template and not table and (role, template_of(text), True, "") in accepted


# --- words


def texts_counted(counts: Mapping[str, int]) -> str:
    """Names and other texts, counted by role, in words."""
    names, others = counts.get("name", 0), counts.get("key", 0) + counts.get("value", 0)
    parts = [counted(names, "name")] * bool(names) + [counted(others, "other text")] * bool(others)
    return " and ".join(parts) or "no text"


def how_to_accept(path: str | PathLike[str], counts: Mapping[str, int]) -> str:
    """What to do with rows that nobody has accepted, counted by role."""
    names = "; --accept-names accepts all names" if counts.get("name") else ""
    file = one_line(os.fspath(path))
    return (
        f'look at the new rows of {file}, and set `"accepted": true` in those that may be published{names}; '
        f"`report MODEL --review {file} -o PAGE.html` shows them in a browser"
    )


def gone_from(path: str | PathLike[str], count: int) -> str:
    """What became of rows that the file has not and nobody had accepted."""
    rows, are = counted(count, "row"), "is" if count == 1 else "are"
    return f"{rows} of another file that nobody had accepted {are} gone from {one_line(os.fspath(path))}"


# --- writing


def digest_of(rows: Iterable[ReviewRow]) -> str:
    """SHA-256 of the lines of rows without ``accepted``, in hex."""
    digest = sha256()
    for row in rows:
        value = _value(row)
        del value["accepted"]
        digest.update(_line(value))
    return digest.hexdigest()


def _value(row: ReviewRow) -> dict[str, Any]:
    value: dict[str, Any] = {key: getattr(row, key) for key in ROW_TYPES}
    if row.table is not None:
        value["table"] = {key: getattr(row.table, key) for key in TABLE_TYPES}
    return value


def _line(value: dict[str, Any]) -> bytes:
    return f"{json.dumps(value, ensure_ascii=False)}\n".encode(errors="backslashreplace")


def review_lines(review: ReviewFile) -> bytes:
    """The bytes of a review file."""
    header = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "vocabulary": review.vocabulary,
        "archive": review.archive,
        "reviewer": review.reviewer,
        "rows": len(review.rows),
        "digest": digest_of(review.rows),
    }
    return b"".join([_line(header), *map(_line, map(_value, review.rows))])


class ReviewUpdate(NamedTuple):
    """What a review file has become.

    Attributes:
        file: its content.
        gone: rows that it had, that nobody had accepted, and that the file whose texts are listed has not.
    """

    file: ReviewFile
    gone: int


class _ChangedError(Exception):
    """The review file is not what it was when it was read."""


def update_review(
    path: str | PathLike[str],
    rows: Sequence[ReviewRow],
    archive: str,
    *,
    accept_names: bool = False,
    reviewer: str | None = None,
) -> ReviewUpdate:
    """Bring a review file up to date with the texts of a file, and write it, whole or not at all.

    Args:
        path: the review file, which need not exist.
        rows: the texts.
        archive: SHA-256 of the file that has them, in hex.
        accept_names: accept all rows of names.
        reviewer: who accepts; None keeps the one before.
    """
    with _locked(path):
        while True:
            before = read_review(path)
            known = () if before is None else before.rows
            former = None if before is None else before.reviewer
            kept = with_accepted(rows, known, accept_names=accept_names)
            made = ReviewFile(vocabulary().name, archive, reviewer or former, kept)
            with suppress(_ChangedError):  # by an editor: once more, with what was accepted there
                if made != before:
                    _write(path, made, before)
                here = set(map(_key, kept))
                return ReviewUpdate(made, sum(_key(row) not in here for row in known))


def _write(path: str | PathLike[str], made: ReviewFile, before: ReviewFile | None) -> None:
    """Write a review file in the place of what it was before.

    Raises:
        _ChangedError: it is something else now.
    """

    def check(_: str) -> None:
        if read_review(path) != before:
            raise _ChangedError

    with replacing_only(check), replacing(path, force=True) as file:
        write_all(memoryview(review_lines(made)), file)


@contextmanager
def _locked(path: str | PathLike[str]) -> Iterator[None]:
    """Wait until no other process, and no other thread, writes a review file in this folder.

    The folder is locked, since a file that is replaced takes its lock with it. Where a system has no such
    locks, a file that has changed is still seen.
    """
    handle = None
    try:
        if fcntl is not None:
            with suppress(OSError):  # a folder that cannot be listed, a file system without locks
                handle = os.open(Path(os.path.realpath(path)).parent, os.O_RDONLY)
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        if handle is not None:
            os.close(handle)
