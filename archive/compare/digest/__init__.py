"""An archive → digests of what its model computes, of its weights, its debug info, or of its file.

The digest of a model is the sha256 of a list: a line that names the list's version, then one line for each
part, which is the part's own sha256, two blanks, and the part's name, as ``sha256sum`` writes it. The lines
are sorted. So two models can be compared part by part, and anybody can compute the digest from the parts.

``parts`` says which parts a model has and how modules are made of tensors, ``names`` how classes are called
in them, ``values`` how values and elements of tensors become bytes. ``weights`` says all of the digest of
weights, which files of tensors have, too.

The parts of an archive's debug info, each with its digest: what it says, in whichever layout it is kept.

============================  ===============================================================================
part                          what it is of
============================  ===============================================================================
``ranges/RECORD``             the source of each place of a record of code: file, lines and text
``handles``                   the operator, place and calls of each debug handle
``methods/NAME``              the handle of each instruction
``paths/NAME``                the module path of each instruction, of PyTorch 1.7 and 1.8
``nodes/PROGRAM``             the metadata of each node of an exported program, its ids numbered
``record/NAME``               a map of an ETRecord's instructions, by its bytes
============================  ===============================================================================

The parts of an ExecuTorch program are what its FlatBuffer says, without frames, and the bytes of its data.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal

from archive.base import memory
from archive.base.bounded import bounded
from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.quick_dataclass import dataclass
from archive.compare.digest.parts import model_parts
from archive.compare.digest.weights import weights
from archive.debuginfo.model import NO_TAG
from archive.formats.exported.canonical import IdNumbering
from archive.formats.record_kinds import RecordKind
from archive.io.mapped import Mapped
from archive.reader.opening import open as open_archive
from archive.reader.opening import opened
from archive.reader.recognition import OPENED_KINDS, TENSOR_KINDS, ZIP_KINDS, FileKind, kind_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from archive.debuginfo.model import InlinedCall
    from archive.debuginfo.tables import RangeTable
    from archive.io.mapped import Source
    from archive.reader.archive import Archive

# --- debug

LONGEST_NAME = 1 << 16
"""Characters of a file's name that are written; a longer one, which no file has, is written as its digest."""


def debug_parts(archive: Archive) -> Mapping[str, str]:
    """The parts of an archive's debug info, sorted, with their digests as hexadecimal digits."""
    return dict(sorted(_parts(archive)))


def _parts(archive: Archive) -> Iterator[tuple[str, str]]:
    places: dict[int, tuple[object, ...]] = {}
    ranges = _Ranges(archive.range_table)
    for name, number in archive.range_table.numbers.items():
        rows = ranges.of(number)
        places |= {tag: place for _, tag, place in rows if tag != NO_TAG}
        yield f"ranges/{name}", _digest((offset, place) for offset, _, place in rows)
    if archive.handles:
        entries = sorted(archive.handles.items())
        calls = ((at, entry, [_call(call, places) for call in entry.stack]) for at, entry in entries)
        yield (
            "handles",
            _digest((at, str(entry.op), places.get(entry.tag), stack) for at, entry, stack in calls),
        )
    for name, numbers in archive.methods.items():
        yield f"methods/{name}", _digest(map(int, numbers))
    for name, paths in archive.module_paths.items():
        yield f"paths/{name}", _digest(map(str, paths))
    for name, program in archive.programs.items():
        numbering = IdNumbering()
        sites = (
            (key, sorted(numbering.numbered(site.metadata).items())) for key, site in program.sites.items()
        )
        yield f"nodes/{name}", _digest(sites)
    for name, record in archive.records.items():
        if kind_in(archive.recognised.kind, name) is RecordKind.INSTRUCTIONS:
            yield f"record/{name}", hashlib.sha256(record.view()).hexdigest()


class _Ranges:
    """What source ranges say, without the numbers that a process gave them. Each text is read once."""

    def __init__(self, table: RangeTable) -> None:
        self._table = table
        self._files: dict[int, str] = {}
        self._sources: dict[int, tuple[object, ...]] = {}

    def of(self, record: int) -> list[tuple[int, int, tuple[object, ...]]]:
        """Offset, tag and place of each range of a record."""
        table, rows = self._table, self._table.rows(record)
        columns = (table.offset, table.tag, table.start, table.end, table.source)
        lists = [column[rows.start : rows.stop].tolist() for column in columns]
        return [
            (offset, tag, (start, end, *self._source(source)))
            for offset, tag, start, end, source in zip(*lists, strict=True)
        ]

    def _source(self, number: int) -> tuple[object, ...]:
        if number not in self._sources:
            source, name = self._table.sources[number], int(self._table.sources.filename[number])
            if name not in self._files:
                file = str(source.filename)
                is_long = len(file) > LONGEST_NAME
                self._files[name] = hashlib.sha256(file.encode()).hexdigest() if is_long else file
            text = hashlib.sha256(bytes(source.text)).hexdigest()
            self._sources[number] = self._files[name], source.starting_line, text
        return self._sources[number]


def _call(call: InlinedCall, places: Mapping[int, tuple[object, ...]]) -> tuple[object, ...]:
    module = call.module and (str(call.module.type_name), str(call.module.instance))
    return module, str(call.function), places.get(call.tag)


def _digest(rows: Iterable[object]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        digest.update(repr(row).encode("utf-8", "surrogateescape") + b"\n")
    return digest.hexdigest()


# --- digest

Of = Literal["model", "weights", "debug", "file"]
VERSIONS: Mapping[Of, int] = {"model": 4, "weights": 1, "debug": 2}
"""Versions of the lists of parts: each changes with whatever changes the digest of an unchanged model."""


@dataclass(frozen=True, slots=True)
class Digest:
    """The digest of a file, or of what is in it.

    Attributes:
        of: what it is of: ``model``, ``weights``, ``debug`` or ``file``.
        value: 64 hexadecimal digits.
        parts: the digests of the parts by their names, sorted; none of a file.
        left_out: how many weights lack the prefix that others have.
    """

    of: Of
    value: str
    parts: Mapping[str, str]
    left_out: int = 0

    def __str__(self) -> str:
        """The digest with what it is of: ``model-4:4f53…``. That of a file is as ``sha256sum`` has it."""
        return self.value if self.of == "file" else f"{self.of}-{VERSIONS[self.of]}:{self.value}"


@bounded
def digest(source: Source, *, of: Of = "model", prefix: str = "", limits: Limits = DEFAULT_LIMITS) -> Digest:
    """The digest of a model, of its weights, its debug info, or of a file.

    >>> import archive
    >>> one, other = (archive.digest(f"fixtures/releases/torch-{at}/nested.pt") for at in ("2.1.0", "2.13.0"))
    >>> one.value == other.value, len(one.parts)
    (True, 13)

    Args:
        source: an archive, or a zip that ``torch.save`` wrote; of weights, a file of tensors, too; of a file,
            any file.
        of: ``model`` for what it computes, ``weights`` for its tensors' names, dtypes, shapes and elements,
            ``debug`` for the debug info in it, ``file`` for its bytes.
        prefix: of weights, what is taken from the beginning of names: ``module.``. If some names have
            it, only those tensors count; if none has, all count as they are.
        limits: what hostile input may cost.

    Raises:
        ArchiveError: the source isn't an archive, is broken, or is only a companion, which has no model.
        OSError: it cannot be read.
        ValueError: a prefix is given, and the digest is not of weights.
    """
    if prefix and of != "weights":
        raise ValueError("a prefix is for digests of weights")
    if of == "weights":
        with (
            open_archive(source, limits=limits, kinds=OPENED_KINDS) as archive,
            memory.charged(archive.allowance),
        ):
            _check_model(archive)
            parts, left_out = weights(archive, prefix)
        return Digest(of, value_of(of, parts), parts, left_out)
    if of == "debug":  # only debug info of a remote file is fetched
        with (
            open_archive(source, limits=limits, kinds=ZIP_KINDS) as archive,
            memory.charged(archive.allowance),
        ):
            parts = debug_parts(archive)
        return Digest(of, value_of(of, parts), parts)
    mapped = Mapped(source)
    if of == "file":
        value = hashlib.sha256(mapped.data).hexdigest()
        mapped.close()
        return Digest(of, value, {})
    with memory.charged(limits.allowance(mapped.weight)), opened(mapped, OPENED_KINDS) as archive:
        _check_model(archive)
        if archive.recognised.kind is FileKind.EXECUTORCH:
            from archive.compare.executorch import executorch_parts  # noqa: PLC0415 (few files are some)

            parts = executorch_parts(archive)
            return Digest(of, value_of(of, parts), parts)
        if archive.recognised.kind in TENSOR_KINDS:
            problem = (
                f"{archive.recognised.what}, without a model around them: `digest --of weights` is of these"
            )
            raise ArchiveError(problem, file=archive.file)
        parts = model_parts(archive)
    return Digest(of, value_of(of, parts), parts)


def _check_model(archive: Archive) -> None:
    if not archive.has_code:
        raise ArchiveError("a companion has no model, but the debug info of one", file=archive.file)


def value_of(of: Of, parts: Mapping[str, str]) -> str:
    """The digest of a list of parts."""
    lines = [f"debug-archive {of} {VERSIONS[of]}", *(f"{value}  {name}" for name, value in parts.items())]
    return hashlib.sha256(
        "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    ).hexdigest()
