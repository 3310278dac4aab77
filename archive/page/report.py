"""A file → its report page, another file; of a folder's pages, the page that lists them."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.quick_dataclass import dataclass
from archive.describe.sizes import sizes
from archive.io.mapped import Mapped
from archive.io.output import is_path, replacing, write_all
from archive.page.bounding import fitted
from archive.page.document import document
from archive.page.facts import page_facts, sources_facts
from archive.page.review import review_facts
from archive.page.shown import Shown
from archive.page.summary import summary_of
from archive.page.values import MOST_LINES, read_values, values_facts
from archive.privacy.review.reviewed import check_apart
from archive.reader.opening import open as open_archive
from archive.reader.recognition import REPORTED_KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from archive.io.mapped import Source
    from archive.io.output import Sink


@dataclass(frozen=True, slots=True)
class Report:
    """A report page that was written.

    Attributes:
        file: the file that it is about.
        out: the page; "" where it isn't a path.
        kind: of that file, in words.
        size: of that file, in bytes.
        debug_bytes: those of its debug info.
        release: the PyTorch releases that may have written it, in words; "" where that is not known.
        label: of the release that its companion is of; "" for none.
        errors: how many errors the page lists.
        findings: how many errors and warnings the page lists.
        page_size: bytes of the page.
        source: how much of the model's source it shows: ``full``, ``basename`` or ``none``.
        left_out: what it has no room for, each a sentence.
    """

    file: str
    out: str
    kind: str
    size: int
    debug_bytes: int
    release: str
    label: str
    errors: int
    findings: int
    page_size: int
    source: Shown
    left_out: Sequence[str]

    _json_ = (
        *("file", "out", "kind", "size", "debug_bytes", "label", "errors", "findings", "page_size"),
        *("source", "left_out"),
    )


@bounded
def report(
    source: Source,
    out: Sink,
    *,
    companion: Source | None = None,
    base: Source | None = None,
    review: str | PathLike[str] | None = None,
    values: Source | None = None,
    show: Shown | str = Shown.FULL,
    force: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Report:
    """Write a page about an archive: one HTML file that needs no network, the same bytes for the same file.

    Args:
        source: an archive, an exported program, a compiled model, a checkpoint or other tensors in one file,
            or a companion: a path, a bytes-like object, or a binary file.
        out: where to write the page: a path, or a binary file.
        companion: the archive's debug info, if that was split off.
        base: an older file, likewise; the page then shows by how much each part of the new one grew, and
            which lines of source and code differ.
        review: a review file, which need not exist: the page then lists the texts of the archive that aren't
            PyTorch's own, to be accepted there, and saves the file again. Only with all of the source.
        values: what ``debug-archive run --json`` has printed of a run of the model, or of two: the page then
            shows it by line.
        show: what the page shows of the model's source: ``full``, all text, and files with their folders;
            ``basename``, files without them, and no text that ``leaks`` finds; ``none``, no text either.
        force: replace an existing file.
        limits: what hostile input may cost.

    Raises:
        ArchiveError: a file is of another kind (the message says which), or contradicts itself, or the target
            exists.
        OSError: a file can't be read or written; the target is then untouched.
        ValueError: ``show`` has no such value, or a review is asked for with less than all of the source.
    """
    shown = Shown(show)
    if review is not None and shown is not Shown.FULL:
        raise ValueError("a review shows all texts, whatever else of the source is left out")
    if review is not None:
        check_apart(review, source, out, companion, base)
    with replacing(out, force=force) as file, closing(Mapped(source)) as mapped:
        account, older = None, None
        if base is not None:
            with closing(Mapped(base)) as before:
                account = sizes(before, limits=limits)
                older = sources_facts(before, account, shown, limits=limits)
        name = Path(mapped.name).name
        kinds = REPORTED_KINDS
        with open_archive(mapped, companion=companion, limits=limits, kinds=kinds):
            pass  # what isn't an archive is refused by its whole path
        made = page_facts(mapped, name, shown, companion=companion, base=account, older=older, limits=limits)
        if review is not None:
            made["review"], not_reviewed = review_facts(mapped, review, limits)
            made["left_out"] += not_reviewed
        if values is not None:
            saved = read_values(values)
            made["values"] = values_facts(saved, made.get("sources"), shown)
            if len(saved.rows) > MOST_LINES:
                made["left_out"].append(f"values: {len(saved.rows) - MOST_LINES:,} lines")
        facts, packed_facts = fitted(made)
        page = document(packed_facts, summary_of(facts))
        write_all(memoryview(page), file)
        head = facts["head"]
        severities = facts["findings"]["severity"]
        return Report(
            mapped.name,
            os.fsdecode(out) if is_path(out) else "",
            head["kind"],
            head["size"],
            head["debug_bytes"],
            head["release"],
            head["label"],
            severities.count("error"),
            sum(severity in {"error", "warning"} for severity in severities),
            len(page),
            shown,
            tuple(facts["left_out"]),
        )
