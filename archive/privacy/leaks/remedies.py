"""How a finding gets out of a file: the option of ``redact`` that takes it out, where one does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.formats.record_kinds import RecordKind
from archive.privacy.leaks.kinds import OTHERWISE, LeakKind
from archive.privacy.pieces.parts import MAPPED
from archive.reader.recognition import PROGRAM_KINDS, REDACTED_KINDS, FileKind

if TYPE_CHECKING:
    from archive.privacy.leaks.findings import Place

PATHS = {
    *(LeakKind.HOME, LeakKind.TEMPORARY, LeakKind.PACKAGES),
    *(LeakKind.DRIVE, LeakKind.UNC, LeakKind.PATH),
}
TEXTS = {LeakKind.SOURCE, LeakKind.COMMENT, LeakKind.EMAIL, LeakKind.URL}
"""Kinds that are part of source text where debug information is."""
REWRITTEN = {
    *(RecordKind.RANGES, RecordKind.DELEGATED, RecordKind.CALLSTACKS, RecordKind.EFFECTS),
    *(RecordKind.PROGRAM, RecordKind.KERNELS, RecordKind.CPP, RecordKind.SHARED_OBJECT),
}
"""Records of debug information, in which ``redact`` changes paths and source text."""
NO_PATHS, NO_SOURCE = "`redact --paths basename` takes folders out", "`redact --source none` takes it out"
NO_PATHS_MAPPED = (
    "`redact --paths basename` overwrites paths of source files in mapped data; others are of the model"
)
METADATA = ".metadata"
"""Part of the place of each text in a program that PyTorch runs the program without."""
NO_INPUTS, NO_EXTRA = "`redact --no-inputs` takes them out", "`redact --no-extra` takes it out"
OF_MODEL = "it is a part of the model: change it in the model's source"
FLAGS = "PyTorch asks for what compilers were told; `redact --map OLD=NEW` changes paths in it"
IN_CODE = "no option changes paths in such code: compile it with others (-ffile-prefix-map=OLD=NEW)"
MACHINE_CODE = (".o", ".cubin", ".hsaco", ".spv", ".fatbin")
"""Files of a compiled model with code for processors and GPUs."""
NEW_ROOT = "`redact --paths basename` calls the folder `archive`"
NO_TIMES = "`redact` writes no times"
NEW_IDS = "`redact --ids anew` numbers ids of exported programs anew"
CHECKSUM = "PyTorch computes it of the other records; any change of these changes it"
HASHED_KINDS = {FileKind.TORCHSCRIPT, FileKind.LITE}
"""Files whose names ``redact --names hash`` changes."""
HASHED = "`redact --names hash` hashes names that loading does not need"


def remedy(kind: LeakKind, file: FileKind, place: Place) -> str:
    """A sentence that tells how a finding gets out of a file.

    Args:
        kind: of the finding.
        file: the kind of the file.
        place: where it stands.
    """
    record = place.kind
    if file is FileKind.COMPANION and kind in PATHS | TEXTS:
        return NO_PATHS if kind in PATHS else NO_SOURCE
    if file not in REDACTED_KINDS:
        return kind.remedy
    whole = _of_kind(kind, file, record)
    if whole:
        return whole
    if record is RecordKind.INPUTS and file in PROGRAM_KINDS:
        return NO_INPUTS
    if record is RecordKind.EXTRA:
        return NO_EXTRA
    return _of_text(kind, place) or kind.remedy


def _of_kind(kind: LeakKind, file: FileKind, record: RecordKind) -> str:
    """The remedy of kinds that are no part of a text; "" for others."""
    ways = {
        LeakKind.INPUTS: NO_INPUTS if file in PROGRAM_KINDS else OF_MODEL,
        LeakKind.EXTRA: NO_EXTRA,
        LeakKind.ROOT: NEW_ROOT,
        LeakKind.TIME: NO_TIMES,
    }
    if record is RecordKind.PROGRAM and file in PROGRAM_KINDS:
        ways[LeakKind.ID] = NEW_IDS
    if record is RecordKind.FORMAT:
        ways[LeakKind.ID] = CHECKSUM
    if file in HASHED_KINDS:
        ways |= dict.fromkeys((LeakKind.CLASS, LeakKind.ATTRIBUTE), HASHED)
    return ways.get(kind, "")


def _of_text(kind: LeakKind, place: Place) -> str:
    """The remedy of a text by its place; "" where the kind alone tells."""
    record = place.kind
    if kind not in PATHS | TEXTS:
        return ""
    if record is RecordKind.PROGRAM and place.within and METADATA not in place.within:
        return OF_MODEL
    if kind in PATHS and (way := _of_compiled(place)):
        return way
    if record in REWRITTEN:
        return NO_PATHS if kind in PATHS else NO_SOURCE
    return OTHERWISE if record is RecordKind.OTHER else OF_MODEL


def _of_compiled(place: Place) -> str:
    """The remedy of a path in a file of a compiled model; "" where the kind of the record tells."""
    if place.kind is RecordKind.COMPILED:
        return IN_CODE if place.record.endswith(MACHINE_CODE) else FLAGS
    if place.kind is RecordKind.SHARED_OBJECT and not place.within:
        return IN_CODE  # of another format than ELF
    is_mapped = place.kind is RecordKind.SHARED_OBJECT and place.within.endswith(MAPPED)
    return NO_PATHS_MAPPED if is_mapped else ""
