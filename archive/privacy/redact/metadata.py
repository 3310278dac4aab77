"""``redact_metadata`` takes texts out of the metadata of safetensors; tensors and their names stay.

Each value of ``__metadata__`` is treated in this order:

1. texts that are to be replaced are, also in its key;
2. paths become what rules say;
3. if it still has something that has to go (a path, a name of a user or host, an address, a URL, a key), or
   has become such a name (after ``author``, the last part of a path), the member goes as a whole.

The header is rewritten, padded with blanks to a multiple of 8 bytes as the package does it. The data after it
are the same to the byte, and so is what the header says of tensors; both are read back. Then all of the
result is searched like that of an archive (``proof``): what is in tensors, or in their names, cannot be taken
out, and then nothing is written.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.errors import ArchiveError, shown
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.formats.tensor_files.safetensors import build_header, header_of, metadata_of
from archive.io.mapped import Mapped, same_bytes
from archive.io.output import write_all
from archive.privacy.leaks.entries import TELLING, entries
from archive.privacy.leaks.paths import paths as paths_in
from archive.privacy.leaks.vocabulary import PATHS
from archive.privacy.pieces.joined import Joined
from archive.privacy.pieces.tensors_read import TensorsRead
from archive.privacy.redact.promises import goes, targets, to_remove
from archive.privacy.redact.proof import prove
from archive.privacy.redact.result import MetadataRedaction, check_clean, proven
from archive.privacy.redact.reviewing import ReviewChoice, unaccepted
from archive.privacy.redact.rules import Rules, absent_in, replaced, replacements
from archive.reader.recognition import FileKind
from archive.reader.rewriting import rewriting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from archive.io.mapped import Source
    from archive.io.output import Sink
    from archive.privacy.redact.removed import Removed
    from archive.privacy.redact.rules import PathChoice, Preset

__all__ = ["MetadataRedaction", "redact_metadata"]

OPTIONS = "--for, --map, --paths or --replace"
"""Options that take something out."""
IN_PYTHON = "preset=, maps=, paths= or replace="
"""The same as arguments."""


@bounded
def redact_metadata(
    source: Source,
    out: Sink,
    *,
    preset: Preset | None = None,
    maps: Sequence[str] = (),
    paths: PathChoice | None = None,
    replace: Sequence[str] = (),
    review: str | PathLike[str] | None = None,
    accept_names: bool = False,
    reviewer: str | None = None,
    partial: bool = False,
    force: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> MetadataRedaction:
    """Take texts out of the metadata of safetensors, and search the result for all that went.

    Args:
        source: the file.
        out: where to write the redacted one: a path, or a binary file.
        preset: as :func:`archive.redact` has it; its choices of paths and of what reveals people count.
        maps: prefixes of paths to replace, ``OLD=NEW``.
        paths: what becomes of other paths: ``keep``, ``relative``, ``basename``, ``none``.
        replace: texts to replace wherever they stand in metadata, ``VALUE=TEXT``, the longest first.
        review: the review file: texts of the result that are not vocabulary and not accepted in it are added
            to it, and are left. See :func:`archive.review`.
        accept_names: accept all names there.
        reviewer: who accepts, for its header.
        partial: write the result even if something is left in it, or cannot be searched.
        force: replace an existing file.
        limits: what hostile input may take.

    Raises:
        ImpossibleError: something is left, and ``partial`` is not given.
        ArchiveError: an option is wrong, the source isn't a file of safetensors, is broken or changed
            meanwhile, or the target exists or isn't a regular file.
        OSError: a file cannot be read or written; then the target has not been touched.
    """
    values = replacements(replace)
    choice = ReviewChoice(review, accept_names, reviewer)
    choice.check(source, out)
    if not (preset or maps or paths not in {None, "keep"} or values):
        raise ArchiveError(f"nothing to redact: give {OPTIONS}", in_python=IN_PYTHON)
    asks_rules = preset or maps or paths not in {None, "keep"}
    rules = Rules.of(maps, preset, paths=paths) if asks_rules else Rules()
    with rewriting(source, out, force=force, limits=limits, kinds={FileKind.SAFETENSORS}) as work:
        opened, (draft,) = work.archive, work.drafts
        data = opened._source.data  # noqa: SLF001 (the whole file)
        start, header = header_of(data)
        tensors = TensorsRead()
        removed = to_remove(Mapped(data, opened.file), rules, limits, tensors=tensors)
        removed.texts |= {value.encode() for value in values}
        before = metadata_of(header)
        metadata = _redacted(before, values, rules, removed)
        write_all(memoryview(build_header(header, metadata)), draft)
        write_all(data[start:], draft)
        with work.reopened("the result", embedded=True) as after:
            made = after._source.data  # noqa: SLF001 (the same)
            begin, again = header_of(made)
            is_same = metadata_of(again) == metadata and again == header
            if not is_same or not same_bytes(data[start:], made[begin:]):
                raise ArchiveError("tensors would not be the same", file=opened.file)
            listing = choice.listing(rules, after)
            proof = prove(after, removed, FileKind.SAFETENSORS, listing=listing, tensors=tensors)
            result = MetadataRedaction(
                size=opened.size,
                out_size=after.size,
                gone=tuple(key for key in before if key not in metadata),
                changed=tuple(key for key, value in metadata.items() if before.get(key) != value),
                absent=absent_in(chain(*before.items()), values),
                unaccepted=unaccepted(listing, made, choice, removed, FileKind.SAFETENSORS),
                **proven(proof, rules, removed),
            )
        if not partial:
            check_clean(opened.file, result)
        return result


def _redacted(
    metadata: Mapping[str, str], values: Mapping[str, str], rules: Rules, removed: Removed
) -> dict[str, str]:
    made: dict[str, str] = {}
    for key, value in metadata.items():
        pair = [replaced(text, values) for text in (key, value)]
        if pair[0] in made:
            raise ArchiveError(f"two members of metadata would both be {shown(pair[0])}")
        made[pair[0]] = _with_other_paths(pair[1], rules, removed)
    lines = [json.dumps({key: value}, ensure_ascii=False).encode() for key, value in made.items()]
    going = removed.revealing.lines(lines) | _naming(lines, rules)
    return {key: value for at, (key, value) in enumerate(made.items()) if at not in going}


def _naming(lines: Sequence[bytes], rules: Rules) -> set[int]:
    """The numbers of lines, each a member, that have become an entry with a name that must go."""
    joined, meant = Joined(lines, b"\n"), targets(rules)
    return {
        joined.number(at)
        for kind, at, text in entries(joined.data, TELLING.among(joined.data))
        if goes(kind, text, rules) and text not in meant
    }


def _with_other_paths(value: str, rules: Rules, removed: Removed) -> str:
    data = value.encode()
    going = [
        (detection.at, detection.text)
        for detection in paths_in(data)
        if detection.kind in PATHS and goes(detection.kind, detection.text, rules)
    ]
    became = rules.renamed(text for _, text in going)
    removed.renamed(became)
    pieces, end = [], 0
    for at, text in sorted(going):
        if at >= end:
            pieces += [data[end:at], became[text]]
            end = at + len(text)
    return b"".join([*pieces, data[end:]]).decode()
