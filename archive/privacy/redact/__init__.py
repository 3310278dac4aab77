"""``redact`` takes out of an archive what tells of its builders, and proves that.

``rules`` says what is to go, and collects what went. A *rewriter* is a function ``(opened, rules, removed)``,
which gives records by name: others in the place of those that the archive has, or None where one goes.
``ranges`` rewrites TorchScript's source ranges, each on the lines that it was on, ``programs`` the metadata
of exported programs, ``compiled`` the files of compiled models, ``effects`` paths in calls that log,
``records`` sample inputs and extra files. No two rewrite the same record. ``names`` puts hashes in the place
of names, which moves source ranges, too.

``writing`` makes the redacted archive of that, and the companion. The companion keeps what the archive was:
with it, logs of the redacted archive are explained as before, and a join gives the original. Where records of
the model itself were changed, the redacted archive has another archive id; the companion then has both.

``promises`` says which findings of ``leaks`` in the original have to be gone. ``proof`` searches the result
for every text of these and for all that was removed, and lets ``leaks`` read it. Where one is left, or where
something cannot be searched, nothing is written, unless that is asked for.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.errors import ArchiveError, ImpossibleError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.mapped import Mapped, unchanged
from archive.base.output import is_path, replacing_all
from archive.check.loading import loaded_like, refusals
from archive.formats.bytecode import BYTECODE
from archive.privacy.redact.compiled import redacted_compiled
from archive.privacy.redact.effects import redacted_effects
from archive.privacy.redact.hidden import hidden_bytes
from archive.privacy.redact.names import with_hashes
from archive.privacy.redact.programs import redacted_programs
from archive.privacy.redact.promises import allowed, judged, telling
from archive.privacy.redact.proof import prove
from archive.privacy.redact.ranges import check_lines, redacted_ranges
from archive.privacy.redact.records import without_extra, without_inputs
from archive.privacy.redact.result import Redaction, redaction
from archive.privacy.redact.rules import Removed, Rules
from archive.privacy.redact.writing import Changes, companion_contents, opened_again, write_redacted
from archive.reader import opening
from archive.reader.recognition import ARCHIVE_KINDS, REDACTED_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from archive.base.mapped import Source
    from archive.base.output import Sink
    from archive.privacy.redact.names import Renamed
    from archive.privacy.redact.rules import (
        IdChoice,
        NameChoice,
        PathChoice,
        Preset,
        SourceChoice,
        TimeChoice,
    )
    from archive.reader.archive import Archive

__all__ = ["Redaction", "redact"]

REWRITERS: tuple[Callable[[Archive, Rules, Removed], Mapping[str, bytes | None]], ...] = (
    redacted_effects,
    redacted_compiled,
    without_inputs,
    without_extra,
)
"""What makes records in the place of others."""
SHOWN = 3
"""Texts that a message names."""


@bounded
def redact(
    source: Source,
    out: Sink,
    companion: Sink,
    *,
    preset: Preset | None = None,
    maps: Sequence[str] = (),
    paths: PathChoice | None = None,
    text: SourceChoice | None = None,
    names: NameChoice | None = None,
    ids: IdChoice | None = None,
    inputs: bool | None = None,
    extra: bool | None = None,
    times: TimeChoice | None = None,
    partial: bool = False,
    force: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Redaction:
    """Take out of an archive what tells of its builders, and search the result for all that went.

    Args:
        source: the archive.
        out: where to write the redacted one: a path, or a binary file.
        companion: where to write what the archive was: the same.
        preset: choices to begin with, of which those below may change single ones: ``publish``, for
            everybody; ``vendor``, for somebody who is to explain failures of the model. See
            :data:`archive.privacy.redact.rules.PRESETS`.
        maps: prefixes of paths to replace, ``OLD=NEW``; of several that fit the longest one counts.
        paths: what becomes of other paths: ``keep``; ``relative`` to site-packages, to Python's library, or
            to the folder that all others are in; ``basename``; ``none``. Unless they are kept, the folder
            inside the zip, whose name is that of the file when it was saved, becomes ``archive``.
        text: which lines of source text stay: ``keep`` all; ``lines``, those that a range is on, without
            comments; ``none``. Python stacks of traced operations stay.
        names: what becomes of names of classes, functions, attributes and variables of TorchScript, and of
            classes and functions in the metadata of exported programs: ``keep``, or ``hash`` for those that
            neither callers nor PyTorch need; then no source text stays.
        ids: what becomes of the numbers by which exported programs name modules and graphs: ``keep``, or
            ``anew``, counted instead of those in the process that exported.
        inputs: whether sample inputs of exported programs stay, by default.
        extra: whether extra files stay, by default.
        times: what becomes of the dates of records: ``none``, by default, or ``keep``.
        partial: write the result even if something is left in it, or cannot be searched.
        force: replace existing files.
        limits: what hostile input may cost.

    Raises:
        ImpossibleError: something is left, and ``partial`` is not given; or the archive is of a kind that is
            not redacted.
        ArchiveError: an option is wrong, the archive cannot be read or changed meanwhile, or a target exists
            or is no regular file.
        OSError: a file cannot be read or written; then no target has been touched.
    """
    choices = {"paths": paths, "source": text, "names": names, "ids": ids, "times": times}
    rules = Rules.of(maps, preset, inputs=inputs, extra=extra, **choices)
    if is_path(out) and is_path(companion) and os.path.abspath(out) == os.path.abspath(companion):  # noqa: PTH100 (links are no matter)
        raise ArchiveError("archive and companion need two names", file=os.fspath(out))
    with (
        replacing_all(companion, out, force=force) as (companion_file, out_file),
        unchanged(source),
        opening.open_whole(source, limits=limits, kinds=REDACTED_KINDS) as opened,
    ):
        changes, removed, renamed = _changes(opened, rules)
        write_redacted(out_file, opened, changes)
        with opened_again(out_file, opened) as after:
            contents, data = companion_contents(opened, after, changes)
            companion_file.write(data)
            proof = prove(after.container, removed, after.allowance, opened.recognised.kind)
            refused = _refused(after, opened, changes)
            if not opened.is_embedded:
                check_lines(opened.range_table, after.range_table, after.allowance, renamed)
            made = after, contents, data
            found = judged(proof.finder.found(allowed(rules)), rules)
            result = redaction(opened, changes, removed, made, proof, found=found, refused=refused)
        if not (result.is_clean or partial):
            raise _refusal(opened.file, result)
        return result


def _changes(opened: Archive, rules: Rules) -> tuple[Changes, Removed, Renamed | None]:
    """What all rewriters make of an archive, and what is gone then; and what became of its names.

    Records that an embedded companion stands for are not in the archive, and nothing takes their places.
    """
    texts, more = telling(Mapped(opened.container.data, opened.file), rules, opened.limits)
    removed = Removed(telling=texts, bundled=[f"{one}, not looked for" for one in more])
    records: dict[str, bytes | None] = {}
    renamed = with_hashes(opened, removed) if rules.names == "hash" else None
    records |= {} if renamed is None else renamed.records
    records |= redacted_ranges(opened, rules, removed, renamed)
    records |= redacted_programs(opened, rules, removed, renamed)
    for rewriter in REWRITERS:
        records |= rewriter(opened, rules, removed)
    if rules.people:
        removed.stays += hidden_bytes(opened)
    root = rules.root(opened.root)
    if root != opened.root:
        removed.roots.add(opened.root.encode(errors="surrogateescape"))
    records = {name: data for name, data in records.items() if name in opened.container.records}
    changes = Changes(records, root=root, times=rules.times == "keep", asked=rules.asked)
    if renamed is not None:
        changes = replace(changes, renamed=renamed.names, salt=renamed.words.salt)
    return changes, removed, renamed


def _refused(after: Archive, opened: Archive, changes: Changes) -> tuple[str, ...]:
    """Why PyTorch refuses the redacted archive, and whether it refuses the original, too."""
    if opened.recognised.kind not in ARCHIVE_KINDS:
        return ()
    found = loaded_like(after, opened, same_bytecode=BYTECODE not in changes.records)
    before = {one.told for one in refusals(opened)} if found else set()
    return tuple(
        f"{one.told}; the original is refused likewise" if one.told in before else one.told for one in found
    )


def _refusal(file: str, result: Redaction) -> ImpossibleError:
    """The error for a result that is not clean."""
    left = result.left
    more = f" and {len(left) - SHOWN:,} more" if len(left) > SHOWN else ""
    why = f"would be left: {', '.join(left[:SHOWN])}{more}"
    refusal = ImpossibleError(f"{why}; pass --partial (partial=True) to write it all the same", file=file)
    refusal.facts = result
    return refusal
