"""``split`` moves the debug information of an archive into a companion file; ``join`` puts it back.

The archive without it is the same model: stock PyTorch, TorchScript and the lite interpreter alike, loads
and runs it, and its archive id is the same. It is written slim: tensors are aligned to 64 bytes, everything
else is deflated and unpadded. The record of debug handles may stay, so that a failure on a device still
names its handles, and by them its archive. In exported programs the stacks of modules stay, unless they are
dropped: ``torch.export.unflatten`` reads them. The companion has what stays, too.

A join gives every record back to the byte, stored or deflated as it was. If the archive was laid out and
deflated as PyTorch does it, the whole file is the same to the byte, too. A split tries that; if so, it keeps
the file's digest in the companion, and a join checks it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.quick_dataclass import dataclass
from archive.companion.build import build_companion
from archive.companion.layout import CompanionLayout
from archive.container.write import write_archive
from archive.formats.record_kinds import METHOD_HANDLES
from archive.formats.release_label import checked_label
from archive.reader.collect import check_debug_info
from archive.reader.halves.companions import companion_contents
from archive.reader.halves.joined import check_gives
from archive.reader.halves.kept import Remains, kept_handles, kept_kinds
from archive.reader.halves.slim import with_new_id
from archive.reader.lacking import why_no_handles
from archive.reader.loading import refusals_as_before
from archive.reader.recognition import SPLIT_KINDS, FileKind
from archive.reader.rewriting import check_archive, rewriting

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from archive.io.mapped import Source
    from archive.io.output import Sink
    from archive.reader.halves.kept import HandleChoice


@dataclass(frozen=True, slots=True)
class Split:
    """The result of a split; sizes in bytes.

    Attributes:
        size: of the archive.
        out_size: of the archive without debug information.
        companion_size: of the companion.
        debug_size: stored bytes of the debug records in the archive, without zip overhead.
        kept: names of the debug records that stayed.
        kept_kinds: kinds of debug info that stayed in exported programs.
        whole: records of exported programs that stayed as they are: their JSON is not as PyTorch writes it.
        whole_objects: why shared objects stayed as they are, by name: a loader may need all of them.
        prefix: of the unique handles in them; 0 where handles are as PyTorch numbered them.
        largest: a handle with more than 8 digits, for which none became unique; else 0.
        no_handles: why failures of a lite archive name no debug handles on a device; "" where they do, and of
            other archives.
        exact: whether a join gives the whole file back to the byte, or only its records.
        archive_id: the id that archive and companion have in common, in hex.
        refused: why PyTorch 2.13 refuses to load the archive as it is left: the loader and its message. Of
            exported programs, this is not known.
    """

    size: int
    out_size: int
    companion_size: int
    debug_size: int
    kept: tuple[str, ...]
    kept_kinds: tuple[str, ...]
    whole: tuple[str, ...]
    whole_objects: Mapping[str, str]
    prefix: int
    largest: int
    no_handles: str
    exact: bool
    archive_id: str
    refused: tuple[str, ...]


@bounded
def split(
    source: Source,
    out: Sink,
    companion: Sink,
    *,
    handles: HandleChoice | None = None,
    salt: str = "",
    keep: Collection[str] = (),
    drop: Collection[str] = (),
    layout: CompanionLayout | str = CompanionLayout.PACKED,
    level: int = 9,
    fingerprints: bool = False,
    label: str = "",
    force: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Split:
    """Take the debug information out of an archive.

    Args:
        source: the archive.
        out: where to write the archive without it: a path, or a binary file.
        companion: where to write the debug information: the same.
        handles: whether ``mobile_debug_handles.pkl`` stays in the archive: a failure on a device needs it to
            name its handles. By default it stays where there is one, and its handles become ``unique``: they
            name the archive, too. See :mod:`archive.debuginfo.unique_handles`.
        salt: any text; another one gives unique handles another prefix.
        keep: kinds of debug info that stay in exported programs, beside ``modules``, and in compiled models:
            see :data:`archive.reader.halves.kept.KIND_BY_WORD`. The companion has all of them.
        drop: kinds that do not stay: ``modules``.
        layout: of the companion: ``packed`` is small, ``mapped`` opens in no time at any size.
        level: of zstd, 1 to 22.
        fingerprints: let the companion have digests of the lines of generated code, 3 bytes each, which show
            whether a log has this model's code: see :mod:`archive.reader.line_digests`.
        label: what the release is called, ``1.4.2``; the companion has it, and stores show it.
        force: replace existing files.
        limits: what hostile input may cost.

    Raises:
        ArchiveError: the archive has no debug information or cannot be read, ``handles`` is given and there
            are none, kinds are and it has no exported programs or compiled models, or it changed meanwhile;
            ``label`` isn't a label; a target exists or isn't a regular file.
        OSError: a file cannot be read or written; then no target has been touched.
    """
    label = label and checked_label(label)
    with rewriting(source, companion, out, force=force, limits=limits, kinds=SPLIT_KINDS) as work:
        opened = work.archive
        check_archive(opened)
        kinds = kept_kinds(opened, keep, drop)
        kept = kept_handles(opened, handles, salt, by_default="unique")
        check_debug_info(opened, kinds, kept_records=kept.as_they_are)
        opened.digests.begin()
        opened.container.streams.begin(by_pytorch=True)
        contents = companion_contents(opened, kept, fingerprints=fingerprints, label=label)
        remains = Remains.of(opened, kinds, kept)
        members = with_new_id(remains.members(opened), opened.container.records)
        data = build_companion(contents, CompanionLayout.named(layout), level)
        companion_draft, draft = work.drafts
        companion_draft.write(data)
        size = write_archive(draft, opened.root, members, slim=True)
        with work.reopened("what is left") as after:
            check_gives(contents, memoryview(data), after.archive_id)
            refused = tuple(refusal.text for refusal in refusals_as_before(after, opened))
        lite = opened.recognised.kind is FileKind.LITE
        return Split(
            opened.size,
            size,
            len(data),
            remains.lost(opened),
            kept.records,
            tuple(sorted(kinds & (opened.programs.kinds | opened.spare.kinds))),
            opened.programs.whole,
            {} if "object" in kinds else opened.spare.whole,
            kept.prefix,
            kept.largest,
            why_no_handles(opened) if lite and METHOD_HANDLES not in opened.records else "",
            "file.digest" in contents.columns,
            contents.archive_id.hex(),
            refused,
        )
