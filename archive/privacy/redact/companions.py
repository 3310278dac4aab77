"""``redact_companion`` writes a companion that can be given away, as its archive was redacted.

It explains failures of the archive, original or redacted, with the paths and lines that rules leave. Source
ranges and programs' metadata are rewritten; the raw records of compiled models that lead to source stay. All
else that a join needs is left out, so nothing that was taken out comes back.
"""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.bounded import bounded
from archive.base.errors import ImpossibleError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.companion.build import build_companion
from archive.companion.contents import Contents, raw_columns
from archive.companion.layout import CompanionLayout
from archive.container.container import Container
from archive.container.write import new_member, write_archive
from archive.formats.exported.program import Program
from archive.formats.record_kinds import RecordKind, kind_in_exported
from archive.io.mapped import Mapped
from archive.normalform.builder import FormBuilder
from archive.normalform.programs import ProgramPacker
from archive.privacy.redact.compiled import redacted_compiled
from archive.privacy.redact.programs import RewrittenMetadata
from archive.privacy.redact.promises import to_remove
from archive.privacy.redact.proof import prove
from archive.privacy.redact.ranges import check_lines, redacted
from archive.privacy.redact.result import CompanionRedaction, check_clean, proven
from archive.privacy.redact.rules import Rules
from archive.reader.archive import Archive
from archive.reader.companion import Companion
from archive.reader.rewriting import rewriting_companion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.io.mapped import Source
    from archive.io.output import Sink
    from archive.privacy.redact.proof import Proof
    from archive.privacy.redact.removed import Removed
    from archive.privacy.redact.rules import PathChoice, Preset, SourceChoice

__all__ = ["CompanionRedaction", "redact_companion"]

KEPT: tuple[str, ...] = ("row.line", "row.column", "module.known", "file.prefix")
"""Columns that neither paths nor lines change."""
NAMED: tuple[str, ...] = ("file.top", "file.qualified_top", "file.redacted")
"""Facts that are strings."""
LEADING = {RecordKind.KERNELS, RecordKind.CPP}
"""Raw records that lead from a compiled model to its source."""


@bounded
def redact_companion(
    source: Source,
    out: Sink,
    *,
    preset: Preset | None = None,
    maps: Sequence[str] = (),
    paths: PathChoice | None = None,
    text: SourceChoice | None = None,
    partial: bool = False,
    force: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> CompanionRedaction:
    """Take paths and source text out of a companion, and search the result for all that went.

    The result explains failures as :func:`redact` leaves them in an archive. No join restores the archive.

    Args:
        source: the companion.
        out: where to write the redacted one: a path, or a binary file.
        preset: as :func:`redact` has it; its choices of paths and source text count.
        maps: prefixes of paths to replace, ``OLD=NEW``.
        paths: what becomes of other paths: ``keep``, ``relative``, ``basename``, ``none``.
        text: which lines of source text stay: ``keep``, ``lines``, ``none``.
        partial: write the result even if something is left in it, or cannot be searched.
        force: replace an existing file.
        limits: what hostile input may take.

    Raises:
        ImpossibleError: something is left, and ``partial`` is not given; or names of the archive are hashes.
        ArchiveError: an option is wrong, the source isn't a companion, is broken or changed meanwhile, or the
            target exists or isn't a regular file.
        OSError: a file cannot be read or written; then the target has not been touched.
    """
    rules = Rules.of(maps, preset, paths=paths, source=text)
    with rewriting_companion(source, out, force=force, limits=limits) as (companion, draft):
        if companion.salt:
            why = "its archive has hashes for names, and code that goes leads from these to source"
            raise ImpossibleError(why, file=companion.file)
        removed = to_remove(Mapped(companion.data, companion.file), rules, limits)
        opened = Archive(None, companion=companion)
        contents = _contents(opened, companion, rules, removed)
        data = build_companion(contents, CompanionLayout.named(companion.layout))
        with memory.charged(limits.allowance(len(data))), Companion(Mapped(data, "the result")) as after:
            check_lines(opened.range_table, after.range_table)
        proof = _proof(data, removed, limits)
        gone = companion.contents.records.raw.keys() - contents.records.raw.keys()
        result = CompanionRedaction(
            size=companion.size,
            out_size=len(data),
            gone=tuple(sorted(gone)),
            archive_id=companion.archive_id.hex(),
            unaccepted={},
            **proven(proof, rules, removed),
        )
        if not partial:
            check_clean(companion.file, result)
        draft.write(data)
        return result


def _contents(opened: Archive, companion: Companion, rules: Rules, removed: Removed) -> Contents:
    """What the redacted companion holds."""
    before = companion.contents
    with memory.part():
        table = redacted(opened.range_table, rules, removed)
        others = opened.handle_table, opened.method_table, opened.path_table
        with memory.charged(opened.allowance):
            form = FormBuilder.of(table, *others)
    form.columns |= {name: before.columns[name] for name in KEPT if name in before.columns}
    for name in NAMED:
        if name in before.columns:
            form.columns[name] = form.pool.numbers([bytes(before.strings.data(int(before.columns[name][0])))])
    if opened.programs:
        packer = ProgramPacker(form.pool)
        for program in _programs(opened, rules, removed):
            packer.add(program)
        form.columns |= packer.columns()
    raw = {}
    for record, data in redacted_compiled(opened, rules, removed).items():
        kind = kind_in_exported(record)
        if data is not None and kind in LEADING and not (kind is RecordKind.CPP and rules.source == "none"):
            raw[record] = data
    form.columns |= raw_columns(raw, form.pool)
    return Contents(before.archive_id, form.form(), b"".join(raw.values()))


def _programs(opened: Archive, rules: Rules, removed: Removed) -> list[Program]:
    """The programs, whose nodes have other metadata."""
    sites = [site.metadata for program in opened.programs.values() for site in program.sites.values()]
    rewritten = RewrittenMetadata(sites, rules, removed)
    programs = []
    for program in opened.programs.values():
        changed = {
            key: replace(site, metadata=rewritten.of(site.metadata)) for key, site in program.sites.items()
        }
        programs.append(Program(program.name, program.release, changed.copy))
    return programs


def _proof(data: bytes, removed: Removed, limits: Limits) -> Proof:
    """What a search of the companion finds: that of a zip with nothing else in it."""
    file = BytesIO()
    write_archive(file, "companion", [new_member("companion", data, compress=False)])
    mapped = Mapped(file.getvalue(), "the result")
    with memory.charged(limits.allowance(mapped.weight)), Container(mapped) as container:
        return prove(container, removed)
