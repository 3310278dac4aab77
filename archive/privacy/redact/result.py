"""The result of a redaction, as facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from archive.base.errors import one_line
from archive.base.strings import decoded

if TYPE_CHECKING:
    from archive.companion.contents import Contents
    from archive.privacy.redact.promises import Found
    from archive.privacy.redact.proof import Proof
    from archive.privacy.redact.rules import Removed
    from archive.privacy.redact.writing import Changes
    from archive.reader.archive import Archive


@dataclass(frozen=True, slots=True)
class Redaction:
    """The result of a redaction; sizes in bytes.

    Attributes:
        asked: the choices that were made, as options of the command.
        size: of the archive.
        out_size: of the redacted archive.
        companion_size: of the companion.
        sought: how many removed texts the result was searched for, by what they are: ``path``, ``folder``,
            ``line``, ``name``, ``root``, ``file``, ``user name``, ``host name``, ``address``, ``URL``,
            ``key``.
        unsought: removed texts that the result was not searched for, each with what it is: too short, or part
            of what stays.
        left: what is still there and was to go, each with its first place: removed texts, what
            :func:`archive.leaks` finds in the result, and what could not be searched.
        in_code: lines that stand in generated code or bytecode, too, which PyTorch runs.
        unread: records of the result that could not be searched, and why.
        read: bytes that were searched: those of the file, and what is inflated from them.
        kept: what :func:`archive.leaks` finds in the result and counts, and these choices keep.
        carriers: names of classes, files and records that carry the name of a user or host.
        remedies: how each kind of what is left gets out.
        stays: what these options would take out and cannot, and why.
        rewritten: records that the result has with other bytes.
        gone: records that it does not have, or without content.
        exact: whether a join gives the whole original back to the byte, or its records alone.
        archive_id: of the archive, in hex.
        redacted_id: of the redacted archive, in hex; the same unless records of the model were rewritten.
        refused: why PyTorch 2.13 refuses to load the result: the loader and its message. Of exported
            programs, this is not known.
    """

    asked: str
    size: int
    out_size: int
    companion_size: int
    sought: dict[str, int]
    unsought: tuple[str, ...]
    left: tuple[str, ...]
    in_code: int
    unread: tuple[str, ...]
    read: int
    kept: tuple[str, ...]
    carriers: tuple[str, ...]
    remedies: tuple[str, ...]
    stays: tuple[str, ...]
    rewritten: tuple[str, ...]
    gone: tuple[str, ...]
    exact: bool
    archive_id: str
    redacted_id: str
    refused: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        """Whether all was searched, and nothing found that was to go."""
        return not self.left


def redaction(
    before: Archive,
    changes: Changes,
    removed: Removed,
    after: tuple[Archive, Contents, bytes],
    proof: Proof,
    *,
    found: Found,
    refused: tuple[str, ...],
) -> Redaction:
    """The facts about a redaction.

    Args:
        before: the archive.
        changes: what was done to it.
        removed: what is gone.
        after: the redacted archive, and the companion's contents and bytes.
        proof: what the search for all that is gone found.
        found: what `leaks` finds in the result.
        refused: why PyTorch refuses the result.
    """
    redacted, contents, companion = after
    left = left_in(proof, found)
    records = before.container.records
    rewritten = [name for name, data in changes.records.items() if data and data != records[name].view()]
    without = changes.gone
    gone = [name for name in records if name in without or changes.records.get(name) == b""]
    return Redaction(
        asked=changes.asked,
        size=before.size,
        out_size=redacted.size,
        companion_size=len(companion),
        sought={str(what): count for what, count in proof.sought.items()},
        unsought=proof.unsought_texts,
        left=tuple(sorted(left + removed.bundled)),
        in_code=len(proof.in_code),
        unread=tuple(proof.unread),
        read=proof.read,
        kept=found.kept,
        carriers=tuple(proof.carriers),
        remedies=found.remedies,
        stays=tuple(dict.fromkeys(removed.stays)),
        rewritten=tuple(rewritten),
        gone=tuple(gone),
        exact="file.digest" in contents.columns,
        archive_id=contents.archive_id.hex(),
        redacted_id=(contents.redacted_id or contents.archive_id).hex(),
        refused=refused,
    )


def left_in(proof: Proof, found: Found) -> list[str]:
    """What is left in a result, and what of it could not be searched."""
    texts = {text for _, text in proof.left}
    left = [f"{what} {one_line(decoded(text))} in {place}" for (what, text), place in proof.left.items()]
    left += [told for text, told in found.left.items() if text not in texts]
    return left + [f"not searched: {one}" for one in proof.unread]
