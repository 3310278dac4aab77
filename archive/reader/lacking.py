"""The debug information that an archive lacks, and why. Each reason follows from the archive's records.

PyTorch 1.3 and later write a ``.debug_pkl`` beside each code record, and ``mobile_debug_handles.pkl`` only
together with ``callstack_debug_map.pkl``. If one of two is missing, it was taken out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.debuginfo.model import Generation
from archive.formats.record_kinds import (
    BYTECODE,
    CALLSTACK_MAP,
    DATA,
    METHOD_HANDLES,
    MODULE_PATHS,
    is_code,
    range_records_of,
)
from archive.formats.releases import release, shown, writers
from archive.reader.recognition import SAVE_WITH_DEBUG_INFO, FileKind, is_slim

if TYPE_CHECKING:
    from archive.reader.archive import Archive


REMEDY = " (-c COMPANION)"
"""How the companion of one archive is given."""
ARCHIVE_TOO = "give the archive that this companion was split from, or what `split` left of it, too"


def why_no_handles(archive: Archive) -> str:
    """The reason why an archive has no debug handles, or why none of its instructions has one."""
    if archive.instructions:
        return "an ETRecord has instructions and nodes; give the number of an instruction, like 0:17"
    if archive.programs:
        from archive.reader.lookups.nodes import DELEGATE  # noqa: PLC0415 (not for TorchScript)

        if archive.programs.may_call(DELEGATE) and (why := why_no_traces(archive)):
            return why
        return "an exported program has nodes; give the name of one, like linear_3"
    if archive.compiled:
        example = next(iter(archive.kernels), "cpp_fused_add_0:1")
        return f"a model that AOTInductor compiled has kernels; give the name of one, like {example}"
    if not archive.has_code:
        return "this companion has no call-stack map: the archive that it was split from had none"
    if CALLSTACK_MAP in archive.records:
        if archive.handles:
            return f"{METHOD_HANDLES} was taken out of this archive; its call-stack map still has handles"
        return "this archive's call-stack map is empty"
    if BYTECODE not in archive.records:
        return "this archive is not for the lite interpreter; only such archives have debug handles"
    if MODULE_PATHS in archive.records:
        return "this archive is of PyTorch 1.7 or 1.8: it has module paths, but no debug handles"
    if METHOD_HANDLES in archive.records:
        return _taken_out(archive)
    if _lost_ranges(archive):  # it may never have had a call-stack map
        return _taken_out(archive, "handles, if there were some, are")
    first = writers(instructions=Generation.METHOD_HANDLES)[0]
    if archive.bytecode and archive.bytecode.version < (release(first).bytecode or 0):
        return f"this archive is of a release before PyTorch {shown(first)}, which has no debug handles"
    was = f"it was taken out, or never saved ({SAVE_WITH_DEBUG_INFO} writes it)"
    return f"this archive has no debug info for the lite interpreter: {was}"


def why_no_ranges(archive: Archive) -> str:
    """The reason why an archive's code has no source ranges; "" if it has some, or nobody knows."""
    return _taken_out(archive) if _lost_ranges(archive) and not archive.range_records else ""


def why_split_off(archive: Archive) -> str:
    """Where the debug info of a split archive is; "" for other archives, and for one with its companion."""
    return "" if archive.recognised.kind is not FileKind.SPLIT else why_no_ranges(archive)


def is_split(archive: Archive) -> bool:
    """Whether its debug info was split off, or may have been, and its companion is not at hand."""
    return bool(why_split_off(archive) or why_no_traces(archive))


def why_no_traces(archive: Archive) -> str:
    """The reason why no node of its programs has a stack trace; "" if some have one, or nobody knows."""
    if archive.companion or archive.recognised.kind not in (FileKind.EXPORTED, FileKind.ETRECORD):
        return ""
    sites = (site for program in archive.programs.values() for site in program.sites.values())
    if any(site.trace is not None for site in sites):
        return ""
    return f"no node has a stack trace; if `split` took them out, they are in {_companion_of(archive)}"


def why_no_inputs(archive: Archive, owner: str = "the program") -> str:
    """The reason why the inputs of a program or method aren't known: a companion by itself lacks them."""
    remedy = "" if archive.has_code else f"; {ARCHIVE_TOO}"
    return f"the inputs of {owner} aren't recorded here{remedy}"


def _lost_ranges(archive: Archive) -> bool:
    """Whether source ranges were taken out: PyTorch 1.3 and later write some for each code record.

    Archives of older releases have no ``data.pkl``, and packages are newer.
    """
    records, kind = archive.records, archive.recognised.kind
    if kind is FileKind.SPLIT:
        return True
    newer = DATA in records or kind is FileKind.PACKAGE
    code = filter(is_code, records)
    return newer and any(not records.keys() & {*range_records_of(name)} for name in code)


def _taken_out(archive: Archive, what: str = "it is") -> str:
    name = _companion_of(archive)
    kind = archive.recognised.kind
    if kind is FileKind.SPLIT or (kind is FileKind.PACKAGE and is_slim(archive.container)):
        return f"debug info was split off this archive: {what} in {name}"
    return f"debug info was taken out of this archive; if `split` did it, {what} in {name}"


def _companion_of(archive: Archive) -> str:
    return f"the companion with the archive id {archive.archive_id.hex()}{REMEDY}"
