"""Findings of a file, each text once: how often, where, whether it may be there, and how it gets out.

Patterns of texts that may be there are given, or kept by a project in a TOML file:

[tool.debug-archive.leaks]
allow = ["/opt/*", "URL=https://example.com/*"]
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, shown
from archive.base.notebooks import shown_by
from archive.base.quick_dataclass import dataclass
from archive.formats.record_kinds import RecordKind
from archive.io import settings
from archive.io.globs import check_amount, wild
from archive.privacy.leaks.vocabulary import NAMES, OTHERWISE, PATHS, LeakKind
from archive.privacy.pieces.piece import MAPPED
from archive.reader.recognition import (
    HASHED_KINDS,
    PACKAGE_KINDS,
    PROGRAM_KINDS,
    REDACTED_KINDS,
    SAVED_KINDS,
    TENSOR_KINDS,
    FileKind,
    kind_in,
)

if TYPE_CHECKING:
    import re
    from collections.abc import Container, Iterable, Sequence

MOST_TEXTS = 10_000
"""Texts of a kind that are kept apart; others are counted."""
MOST_PLACES = 3
"""Places of a text that are kept."""
MOST_CHARACTERS = 500
"""Characters of a text that are kept."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text stands.

    Attributes:
        record: its record; of a zip in a record both names, with ``!`` between; "" for none.
        byte: in the record's inflated bytes, or in a file that isn't a zip; None for the record as a whole.
        within: the part of the record: a path in JSON, a section of a shared object and whether that is
            mapped; "" where no parts are known.
        kind: of the record.
    """

    record: str
    byte: int | None = None
    within: str = ""
    kind: RecordKind = RecordKind.OTHER

    _json_ = ("record", "byte", "within?")

    def __str__(self) -> str:
        at = "" if self.byte is None else f"byte {self.byte:,}"
        return ", ".join(part for part in (self.record, at, self.within) if part)


@dataclass(slots=True)
class Finding:
    """A text that gives something away.

    Attributes:
        kind: what it gives away.
        text: the text; a long one is cut.
        data: its bytes.
        count: how often it was found.
        places: the first places, one a record.
        counted: whether it makes the exit status 1.
        allowed: whether a pattern of the user allows it.
        remedy: how it gets out of the file, in words.
    """

    kind: LeakKind
    text: str
    data: bytes = b""
    count: int = 0
    places: list[Place] = field(default_factory=list)
    counted: bool = False
    allowed: bool = False
    remedy: str = ""

    _json_ = ("kind", "text=data", "count", "places", "counted", "allowed", "remedy")


@dataclass(frozen=True, slots=True)
class Leaks:
    """What a file gives away.

    Attributes:
        file: its name.
        kind: of the file.
        findings: by kind, the most frequent first.
        more: for each kind with more texts than are kept, how many finds the others are.
        read: inflated bytes that were read.
        passed_over: bytes of tensors that were not.
        problems: what could not be read as it should, or not be distinguished.
    """

    file: str
    kind: FileKind
    findings: Sequence[Finding]
    more: dict[LeakKind, int]
    read: int
    passed_over: int
    problems: Sequence[str]

    _repr_html_ = shown_by("of_leaks")

    def of_kinds(self, kinds: Container[LeakKind]) -> Leaks:
        """The findings of these kinds alone, all of which count if they are not allowed."""
        findings = [finding for finding in self.findings if finding.kind in kinds]
        for finding in findings:
            finding.counted = not finding.allowed
        more = {kind: count for kind, count in self.more.items() if kind in kinds}
        return replace(self, findings=findings, more=more)

    def counted(self, kinds: Iterable[LeakKind] = ()) -> list[Finding]:
        """The findings that make the exit status 1: those of some kinds, or of all that count.

        Args:
            kinds: the kinds; empty for all that count.
        """
        wanted = set(kinds)
        if not wanted:
            return [finding for finding in self.findings if finding.counted]
        return [finding for finding in self.findings if not finding.allowed and finding.kind in wanted]


class Collection:
    """Findings as they come.

    Attributes:
        more: as :class:`Leaks` has it.
    """

    def __init__(self) -> None:
        self._findings: dict[tuple[LeakKind, bytes], Finding] = {}
        self._counts: dict[LeakKind, int] = {}
        self.more: dict[LeakKind, int] = {}

    def add(self, kind: LeakKind, text: bytes, record: str, count: int = 1) -> Finding | None:
        """Add a text that was found ``count`` times in a record.

        Returns:
            The finding, if it lacks a place in this record, which takes time to find; None for nearly all.
        """
        key = kind, text[:MOST_CHARACTERS]
        finding = self._findings.get(key)
        if finding is None:
            texts = self._counts.get(kind, 0)
            if texts >= MOST_TEXTS:
                self.more[kind] = self.more.get(kind, 0) + count
                return None
            self._counts[kind] = texts + 1
            finding = self._findings[key] = Finding(kind, key[1].decode(errors="backslashreplace"), key[1])
        finding.count += count
        places = finding.places
        is_lacking = len(places) < MOST_PLACES and record not in [place.record for place in places]
        return finding if is_lacking else None

    def findings(self) -> list[Finding]:
        """All, by kind, the most frequent first."""
        order = {kind: number for number, kind in enumerate(LeakKind)}
        return sorted(
            self._findings.values(), key=lambda known: (order[known.kind], -known.count, known.text)
        )


# --- texts that may be there

KEY = "allow"


def project_patterns(config: str | None = None) -> list[str]:
    """The patterns of a TOML file; by default, of the nearest ``pyproject.toml`` that has some."""
    table = settings.read(config, "leaks") if config else settings.nearest("leaks")
    if table is None:
        return []
    place = f"{table.path}: {settings.header('leaks')}"
    if set(table.values) != {KEY}:
        raise ArchiveError(file=place, expected=KEY, found=shown(list(table.values)))
    patterns = table.values[KEY]
    if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
        raise ArchiveError(file=f"{place}, {KEY}", expected="a list of texts", found=shown(patterns))
    return patterns


class Allowed:
    """Patterns of texts that may be in a file, each read once.

    Args:
        patterns: of texts; with a kind and ``=`` before it, only findings of that kind.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        check_amount(patterns, "allowed texts")
        self._patterns: list[tuple[str | None, re.Pattern[str]]] = []
        for pattern in dict.fromkeys(patterns):
            kind, equals, text = pattern.partition("=")
            of_kind = bool(equals) and kind in set(LeakKind)
            self._patterns.append((kind, wild(text)) if of_kind else (None, wild(pattern)))

    def allows(self, finding: Finding) -> bool:
        """Whether a pattern fits a finding."""
        return any(
            kind in (None, finding.kind) and wanted.match(finding.text) for kind, wanted in self._patterns
        )


# --- remedies

TEXTS = {LeakKind.SOURCE, LeakKind.COMMENT, LeakKind.EMAIL, LeakKind.URL, *NAMES}
"""Kinds that are part of source text where debug information is."""
PATHS_AND_TEXTS = PATHS | TEXTS
MODEL_NAMES = {LeakKind.CLASS, LeakKind.ATTRIBUTE}
ALL_SAVED = SAVED_KINDS - {FileKind.MODULE}
REWRITTEN = {
    *(RecordKind.RANGES, RecordKind.DELEGATED, RecordKind.CALLSTACKS, RecordKind.EFFECTS),
    *(RecordKind.PROGRAM, RecordKind.KERNELS, RecordKind.CPP, RecordKind.SHARED_OBJECT),
}
"""Records of debug information, in which ``redact`` changes paths and source text."""
NO_PATHS, NO_SOURCE = "`redact --paths basename` takes folders out", "`redact --source none` takes it out"
NO_TEXT = f"it is in source text: {NO_SOURCE}"
NO_PATHS_MAPPED = (
    "`redact --paths basename` overwrites paths of source files in mapped data; others are of the model"
)
METADATA = ".metadata"
"""Part of the place of each text that PyTorch does not need to run a program."""
NO_INPUTS, NO_EXTRA = "`redact --no-inputs` takes them out", "`redact --no-extra` takes it out"
OF_MODEL = "it is a part of the model: change it in the model's source"
FLAGS = "PyTorch asks for the compilers' flags; `redact --map OLD=NEW` changes paths in it"
IN_CODE = "no option changes paths in such code: compile it with others (-ffile-prefix-map=OLD=NEW)"
MACHINE_CODE = (".o", ".cubin", ".hsaco", ".spv", ".fatbin")
"""Files of a compiled model with code for processors and GPUs."""
SAVED = "it is a part of what was saved: change it there, and save again"
REPLACED = f"`redact --replace VALUE=TEXT` changes it, unless loading needs it; else {SAVED}"
PACKAGED = "it is in a file of the package: change that, and package the model again"
ZIPPED = "it is in a zip of no known kind: change what was zipped, and zip it again"
HEADER = "it is in the header: save the tensors again, with other names"
METADATA_OF_TENSORS = "`redact --replace VALUE=TEXT` changes it, `redact --for publish` takes the member out"
VALUES = "it is in the keys and values: `gguf-new-metadata`, of the package gguf, removes or changes them"
GRAPH = "it is in the graph: take it out of what `onnx.load` gives, and `onnx.save` that"
LOWERED_AGAIN = "make the program again; without `emit_stacktrace=True` it has no frames"
INDEX = "it is in the index, a JSON text: change it there"
CLASS_SOURCE = "`torch.save` keeps the source of a whole module's classes: save its `state_dict()`"
PADDING = "it stands where the format has nothing: write the file again"
IN_TENSOR = "it stands in a tensor: save the model with other values"
EXPLAINS = "failures are explained by it; a name of your own is renamed in the model's source"
COMPILED_ANEW = "PyTorch compiles it and runs that"
NEW_ROOT = "`redact --paths basename` calls the folder `archive`"
NO_TIMES = "`redact` writes no times"
NEW_IDS = "`redact --ids anew` renumbers ids of exported programs"
CHECKSUM = "PyTorch computes it of the other records; any change of these changes it"
HASHED = "`redact --names hash` hashes names that loading does not need"


CARRIERS = PATHS | {LeakKind.URL, LeakKind.EMAIL}
"""Kinds with names of people and machines in them."""


def remedy(finding: Finding, file: FileKind, findings: Sequence[Finding], spare: Container[str] = ()) -> str:
    """A sentence that says how a finding gets out of a file.

    A name goes with the paths and addresses that have it. One that also stands by itself, or only so, is a
    text like others.

    Args:
        finding: with its places.
        file: the kind of the file.
        findings: all of the file.
        spare: the records of compiled models that no loader needs.
    """
    place = finding.places[0]
    if finding.kind not in NAMES:
        return _remedy(finding.kind, file, place, spare)
    name = finding.data.lower()
    carried = [one.count for one in findings if one.kind in CARRIERS and name in one.data.lower()]
    if carried and sum(carried) >= finding.count:
        return finding.kind.remedy
    other = _remedy(finding.kind, file, place, spare)
    return f"{finding.kind.remedy}; by itself: {other}" if carried else other


def remedy_at(kind: LeakKind, file: FileKind, record: str) -> str:
    """A sentence that says how a text gets out of a record where it stands by itself; "" if none is known."""
    known = _remedy(kind, file, Place(record, kind=kind_in(file, record)), ())
    return "" if known == kind.remedy else known


BY_KIND = {
    LeakKind.INPUTS: OF_MODEL,
    LeakKind.EXTRA: NO_EXTRA,
    LeakKind.ROOT: NEW_ROOT,
    LeakKind.TIME: NO_TIMES,
}
"""How findings of these kinds get out of any file that is redacted."""


def _remedy(kind: LeakKind, file: FileKind, place: Place, spare: Container[str]) -> str:
    if file is FileKind.COMPANION and kind in PATHS_AND_TEXTS:
        return NO_PATHS if kind in PATHS else NO_SOURCE
    if file is FileKind.COMPANION and kind in MODEL_NAMES:
        return EXPLAINS
    if file is FileKind.ZIP and kind is not LeakKind.KEY:
        return ZIPPED
    if file is FileKind.EXECUTORCH and kind is not LeakKind.KEY:
        return LOWERED_AGAIN
    if file in TENSOR_KINDS:
        return _of_tensor_file(kind, place)
    if file not in REDACTED_KINDS:
        return OTHERWISE if kind in NAMES else kind.remedy
    outer, is_inside, _ = place.record.partition("!")
    record = place.kind
    zipped = kind_in(file, outer) if is_inside else record
    if RecordKind.INPUTS in (record, zipped) and file in PROGRAM_KINDS:
        return NO_INPUTS
    if kind in BY_KIND:
        return BY_KIND[kind]
    if kind is LeakKind.ATTRIBUTE and file in ALL_SAVED:
        return SAVED
    if kind in MODEL_NAMES and file in HASHED_KINDS:
        return HASHED
    if kind is LeakKind.ID and record is RecordKind.FORMAT:
        return CHECKSUM
    if kind is LeakKind.GENERATED and record is RecordKind.CPP:
        return NO_SOURCE if place.record in spare else COMPILED_ANEW
    if record is RecordKind.PROGRAM and file in PROGRAM_KINDS:
        if kind is LeakKind.ID:
            return NEW_IDS
        if kind is LeakKind.CLASS and METADATA in place.within:
            return HASHED
    if RecordKind.EXTRA in (record, zipped):
        return NO_EXTRA
    if kind not in PATHS_AND_TEXTS:
        return kind.remedy
    if record is RecordKind.TENSOR:
        return IN_TENSOR
    if file in SAVED_KINDS:
        return REPLACED if record is RecordKind.OBJECT and file is not FileKind.MODULE else SAVED
    if file in PACKAGE_KINDS and record in {RecordKind.OTHER, RecordKind.PYTHON}:
        return PACKAGED
    return _remedy_of_text(kind, place)


METADATA_MEMBER = "__metadata__"
"""Begins the place of metadata in the header of safetensors."""
OF_RECORDS = {
    RecordKind.HEADER: HEADER,
    RecordKind.VALUES: VALUES,
    RecordKind.GRAPH: GRAPH,
    RecordKind.INDEX: INDEX,
    RecordKind.OBJECT: SAVED,
    RecordKind.MODULES: SAVED,
    RecordKind.TENSOR: IN_TENSOR,
    RecordKind.EXTERNAL: IN_TENSOR,
    RecordKind.NAMED: IN_TENSOR,
}
"""How texts get out of the records of files of tensors."""


def _of_tensor_file(kind: LeakKind, place: Place) -> str:
    """The remedy of a finding in a file of tensors, or in one of its shards."""
    if kind is LeakKind.KEY:
        return kind.remedy
    if place.kind is RecordKind.MODULES and kind in {LeakKind.SOURCE, LeakKind.COMMENT, *PATHS}:
        return CLASS_SOURCE
    if place.within.startswith(METADATA_MEMBER):
        return METADATA_OF_TENSORS
    return OF_RECORDS.get(place.kind, PADDING)


def _remedy_of_text(kind: LeakKind, place: Place) -> str:
    """The remedy of a path or of source text by its place."""
    record = place.kind
    if record is RecordKind.PROGRAM and place.within and METADATA not in place.within:
        return OF_MODEL
    if kind in PATHS and record is RecordKind.COMPILED:
        return IN_CODE if place.record.endswith(MACHINE_CODE) else FLAGS
    if kind in PATHS and record is RecordKind.SHARED_OBJECT:
        if not place.within:  # of another format than ELF
            return IN_CODE
        if place.within.endswith(MAPPED):
            return NO_PATHS_MAPPED
    if record in REWRITTEN:
        return NO_PATHS if kind in PATHS else NO_SOURCE
    return OTHERWISE if record is RecordKind.OTHER else OF_MODEL


def by_kind(findings: Iterable[Finding]) -> dict[LeakKind, list[Finding]]:
    """Findings by their kinds."""
    kinds: dict[LeakKind, list[Finding]] = {}
    for finding in findings:
        kinds.setdefault(finding.kind, []).append(finding)
    return kinds


def unlisted(leaks: Leaks) -> list[str]:
    """A line for each kind with more texts than are kept, and for what could not be read."""
    more = (f"{kind}: {count:,} more, of texts that are not listed" for kind, count in leaks.more.items())
    return [*more, *leaks.problems]
