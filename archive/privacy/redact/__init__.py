"""``redact`` takes out of an archive what reveals its builders, and proves that it is gone.

``rules`` says what is to go, and collects what went. A *rewriter* is a function ``(opened, rules, removed)``
that gives records by name: replacements of the archive's records, or None where one goes. ``ranges`` rewrites
TorchScript's source ranges, each on the lines that it was on, ``programs`` the metadata of exported programs,
``compiled`` the files of compiled models. Those here take out records that a model runs without, sample
inputs and extra files, and paths in the effects of models that log or warn. No two rewrite the same record.
``names`` replaces names by hashes, which moves source ranges, too.

``writing`` makes the redacted archive and the companion from that. The companion keeps what the archive was:
with it, logs of the redacted archive are explained as before, and a join gives the original. Where records of
the model itself were changed, the redacted archive has another archive id; the companion then has both.

``promises`` says which findings of ``leaks`` in the original have to be gone. ``proof`` searches the result
for every text of these and for all that was removed, and lets ``leaks`` read it. Where one is left, or where
something cannot be searched, nothing is written, unless that is asked for.

Companions have their own redaction (``companions``), and so do the metadata of safetensors (``metadata``) and
texts of what ``torch.save`` wrote (``checkpoints``).
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from archive.base import memory
from archive.base.bounded import bounded
from archive.base.errors import ArchiveError, LimitError, counted
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.container.container import Container
from archive.formats.effects import EFFECTS
from archive.formats.record_kinds import BUNDLED_INPUTS, BYTECODE, DATA_FOLDER, RecordKind
from archive.io.mapped import Mapped
from archive.privacy.leaks.sources import lines_of
from archive.privacy.pieces.tensors_read import TensorsRead
from archive.privacy.redact.compiled import redacted_compiled
from archive.privacy.redact.names import with_hashes
from archive.privacy.redact.programs import redacted_programs
from archive.privacy.redact.promises import to_remove
from archive.privacy.redact.proof import prove
from archive.privacy.redact.ranges import check_lines, redacted_ranges
from archive.privacy.redact.result import Redaction, check_clean, redaction
from archive.privacy.redact.reviewing import ReviewChoice, unaccepted
from archive.privacy.redact.rules import Rules
from archive.privacy.redact.writing import Changes, companion_contents, write_redacted
from archive.reader.loading import refusals, refusals_as_before
from archive.reader.recognition import REDACTED_KINDS, kind_in
from archive.reader.rewriting import rewriting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

    from archive.formats.effects.model import Literal
    from archive.formats.tensors.tensor import Tensor
    from archive.io.mapped import Source
    from archive.io.output import Sink
    from archive.privacy.redact.names import Renamed
    from archive.privacy.redact.removed import Removed
    from archive.privacy.redact.rules import (
        IdChoice,
        NameChoice,
        PathChoice,
        Preset,
        SourceChoice,
        TimeChoice,
    )
    from archive.reader.archive import Archive

# --- records

NO_INPUTS = b""
"""What PyTorch writes for a program without sample inputs; its loaders ask for the record."""
BUNDLED = re.compile(rb"X(.{4})(" + BUNDLED_INPUTS + rb"\w+)", re.DOTALL)
"""The name of an attribute with sample inputs as pickles have it, after its length. Methods of the model
return these inputs, so they cannot go."""
OPTIONAL = {"reference_outputs", "representative_inputs"}
"""Records of ETRecords that may be missing, but not empty."""
LONGEST = 1 << 12
"""Bytes of a file that a search for it uses."""
LEAST_DISTINCT = 8
"""Different bytes in a tensor that is searched for: zeros and ones stand anywhere."""


def without_inputs(opened: Archive, rules: Rules, removed: Removed) -> dict[str, bytes | None]:
    """The records of sample inputs, as programs without any have them; None where they may be missing."""
    made: dict[str, bytes | None] = {}
    for name in () if rules.inputs else _of_kind(opened, RecordKind.INPUTS):
        record = opened.records[name]
        if record.size:
            made[name] = None if name in OPTIONAL else NO_INPUTS
            # the bytes of the tensors in this file of torch.save
            with Container(Mapped(record.view(), opened.file)) as container:
                for inner, tensor in container.records.items():
                    content = bytes(tensor.view()[:LONGEST]) if inner.startswith(DATA_FOLDER) else b""
                    if len(set(content)) >= LEAST_DISTINCT:
                        removed.files.add(content)
    for name in () if rules.inputs else _of_kind(opened, RecordKind.MODULES):
        for match in BUNDLED.finditer(opened.records[name].view()):
            attribute = match[2][: int.from_bytes(match[1], "little")].decode()
            removed.problems.append(f"sample inputs {attribute} in {name}")
    return made


def without_extra(opened: Archive, rules: Rules, removed: Removed) -> dict[str, bytes | None]:
    """None for each extra file."""
    made: dict[str, bytes | None] = {}
    for name in () if rules.extra else _of_kind(opened, RecordKind.EXTRA):
        made[name] = None
        removed.files.add(bytes(opened.records[name].view()[:LONGEST]).strip())
    return made


def _of_kind(opened: Archive, kind: RecordKind) -> list[str]:
    file = opened.recognised.kind
    return [name for name in opened.container.records if kind_in(file, name) is kind]


# --- hidden

MOST_WORK = 4
"""Elements of tensors that are marked, per byte of a storage; views of more count from end to end."""


def hidden_bytes(opened: Archive) -> Iterator[str]:
    """A sentence for each storage with bytes that no tensor shows and that are not all 0.

    A slice is saved with all of the tensor that it was cut from.
    """
    try:
        tensors = opened.tensors
        for record, names in tensors.storages.items():
            data = tensors.storage(record)
            if any(_shows_all(tensors[name], len(data)) for name in names):
                continue
            with memory.lent(2 * len(data), "bytes that tensors show", record=record):
                shown = _shown([tensors[name] for name in names], len(data))
                hidden = int(np.count_nonzero(np.frombuffer(data, np.uint8)[~shown]))
            if hidden:
                yield f"{counted(hidden, 'byte')} of {record} that no tensor shows, and that are not 0"
    except LimitError:
        raise
    except ArchiveError as problem:
        yield f"perhaps bytes that no tensor shows: {problem.what}"


def _shows_all(tensor: Tensor, size: int) -> bool:
    """Whether a tensor shows each byte of its storage, as nearly all do."""
    return tensor.is_contiguous and tensor.count > 0 and tensor.span(size) == (0, size)


def _shown(tensors: list[Tensor], size: int) -> np.ndarray:
    """Which bytes of a storage tensors show, as flags."""
    shown = np.zeros(size, np.bool_)
    left = MOST_WORK * size
    for tensor in tensors:
        low, high = tensor.span(size)
        dense = [pair for pair in zip(tensor.shape, tensor.strides, strict=True) if pair[1]]
        count = int(np.prod([length for length, _ in dense], dtype=object)) * (tensor.width or 1)
        left -= count
        if tensor.is_contiguous or left < 0 or not tensor.count:
            shown[low:high] = True
            continue
        width = tensor.width or 1
        view = np.lib.stride_tricks.as_strided(
            shown[low:high],
            (*(length for length, _ in dense), width),
            (*(stride * width for _, stride in dense), 1),
        )
        view[...] = True
    return shown


# --- effects

T = TypeVar("T")


def redacted_effects(opened: Archive, removed: Removed) -> dict[str, bytes]:
    """The record of effects with other paths, as source ranges have them; none where that changes nothing.

    Guards and state stay: the model computes with their values.

    Args:
        removed: the paths of source ranges, and their replacements.
    """
    table = opened.effects
    if table is None:
        return {}
    from archive.formats.effects.record import build_effects  # noqa: PLC0415 (few archives have some)

    became = {
        old.decode(errors="replace"): new.decode(errors="replace") for old, new in removed.became.items()
    }
    methods = tuple(replace(method, effects=_renamed(method.effects, became)) for method in table.methods)
    if methods == table.methods:
        return {}
    data = build_effects(replace(table, methods=methods))
    memory.take(len(data), "bytes of a record", record=EFFECTS)
    return {EFFECTS: data}


def _renamed(value: T, became: dict[str, str]) -> T:
    """A part of the table; constants, and items of constants, that are a path have the other one."""
    from archive.formats.effects.model import Constant  # noqa: PLC0415 (the same)

    if isinstance(value, Constant):
        return replace(value, value=_literal(value.value, became))
    if isinstance(value, tuple):
        return type(value)(_renamed(part, became) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {part.name: _renamed(getattr(value, part.name), became) for part in fields(value)}
        return replace(value, **parts)
    return value


def _literal(value: Literal, became: dict[str, str]) -> Literal:
    if isinstance(value, tuple):
        return tuple(_literal(part, became) for part in value)
    return became.get(value, value) if isinstance(value, str) else value


# --- redact

__all__ = ["Redaction", "redact"]


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
    review: str | PathLike[str] | None = None,
    accept_names: bool = False,
    reviewer: str | None = None,
    partial: bool = False,
    force: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Redaction:
    """Take out of an archive what reveals its builders, and search the result for all that went.

    Args:
        source: the archive.
        out: where to write the redacted one: a path, or a binary file.
        companion: where to write what the archive was: the same.
        preset: choices to begin with, each of which those below may change: ``publish``, for
            everybody; ``vendor``, for somebody who is to explain failures of the model. See
            :data:`archive.privacy.redact.rules.PRESETS`.
        maps: prefixes of paths to replace, ``OLD=NEW``; if several fit, the longest counts.
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
        review: the review file: texts of the result that are not vocabulary and not accepted in it are added
            to it, and are left. See :func:`archive.review`.
        accept_names: accept all names there.
        reviewer: who accepts, for its header.
        partial: write the result even if something is left in it, or cannot be searched.
        force: replace existing files.
        limits: what hostile input may take.

    Raises:
        ImpossibleError: something is left, and ``partial`` is not given; or the archive is of a kind that is
            not redacted.
        ArchiveError: an option is wrong, the archive cannot be read or changed meanwhile, or a target exists
            or isn't a regular file.
        OSError: a file cannot be read or written; then no target has been touched.
    """
    choices = {"paths": paths, "source": text, "names": names, "ids": ids, "times": times}
    rules = Rules.of(maps, preset, inputs=inputs, extra=extra, **choices)
    choice = ReviewChoice(review, accept_names, reviewer)
    choice.check(source, companion, out)
    with rewriting(source, companion, out, force=force, limits=limits, kinds=REDACTED_KINDS) as work:
        opened, (companion_file, out_file) = work.archive, work.drafts
        opened.digests.begin(busy=True)
        tensors = TensorsRead()
        changes, removed, renamed = _changes(opened, rules, tensors)
        write_redacted(out_file, opened, changes)
        with work.reopened("the result") as after:
            kind = opened.recognised.kind
            listing = choice.listing(rules, after)
            known = lines_of(after, kind)
            proof = prove(after.container, removed, kind, known, listing, tensors)
            contents, data = companion_contents(opened, after, changes)  # it waits for digests
            companion_file.write(data)
            unseen = unaccepted(listing, after.container.data, choice, removed, kind)
            refused = _refused(after, opened, changes)
            if not opened.is_embedded:
                check_lines(opened.range_table, after.range_table, renamed)
            made = after, contents, data
            result = redaction(
                opened, changes, removed, made, proof, rules=rules, refused=refused, unaccepted=unseen
            )
        if not partial:
            check_clean(opened.file, result)
        return result


def _changes(opened: Archive, rules: Rules, tensors: TensorsRead) -> tuple[Changes, Removed, Renamed | None]:
    """What all rewriters make of an archive, what is gone then, and what became of its names.

    Records that an embedded companion stands for are not in the archive, and are not replaced.

    Args:
        tensors: takes what is found in tensors.
    """
    original, kind = opened.container.again, opened.recognised.kind
    removed = to_remove(original, rules, opened.limits, lambda: lines_of(opened, kind), tensors)
    records: dict[str, bytes | None] = {}
    renamed = with_hashes(opened, removed) if rules.names == "hash" else None
    records |= {} if renamed is None else renamed.records
    records |= redacted_ranges(opened, rules, removed, renamed)
    records |= redacted_programs(opened, rules, removed, renamed)
    records |= redacted_effects(opened, removed)
    records |= redacted_compiled(opened, rules, removed)
    records |= without_inputs(opened, rules, removed)
    records |= without_extra(opened, rules, removed)
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
    refused = refusals_as_before(after, opened, same_bytecode=BYTECODE not in changes.records)
    before = {refusal.text for refusal in refusals(opened)} if refused else set()
    return tuple(
        f"{refusal.text}; the original is refused likewise" if refusal.text in before else refusal.text
        for refusal in refused
    )
