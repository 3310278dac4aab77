"""The results of redactions, as facts: of an archive, and of a companion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.base.errors import ImpossibleError, one_line, several
from archive.base.quick_dataclass import dataclass
from archive.base.strings import decoded

if TYPE_CHECKING:
    from collections.abc import Collection

    from archive.companion.contents import Contents
    from archive.privacy.redact.proof import Proof
    from archive.privacy.redact.removed import Removed
    from archive.privacy.redact.rules import Rules
    from archive.privacy.redact.writing import Changes
    from archive.reader.archive import Archive

NEVER_SOUGHT = {"name", "root", "file"}
"""What only archives have."""


class Searched:
    """A result that was searched for what was to go."""

    __slots__ = ()
    left: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        """Whether all was searched, and nothing found that was to go."""
        return not self.left


@dataclass(frozen=True, slots=True)
class Redaction(Searched):
    """The result of a redaction; sizes in bytes.

    Attributes:
        asked: the choices that were made, as options of the command.
        size: of the archive.
        out_size: of the redacted archive.
        companion_size: of the companion.
        sought: how many removed texts the result was searched for, by what they are: ``path``, ``folder``,
            ``line``, ``name``, ``root``, ``file``, ``user name``, ``host name``, ``address``, ``URL``,
            ``key``.
        unsought: removed texts that the result was not searched for, each with what it is: too short, a
            common word, or part of what stays.
        left: what is still there and was to go, each with its first place: removed texts, what
            :func:`archive.leaks` finds in the result, and what could not be searched.
        in_code: lines that stand in generated code or bytecode, too, which PyTorch runs.
        unread: records of the result that could not be searched, and why.
        read: bytes that were searched: those of the file, and what is inflated from them.
        unaccepted: how many names, keys and values are neither vocabulary nor accepted, by role; empty where
            they were not listed.
        kept: what :func:`archive.leaks` finds in the result and counts, and these choices keep.
        carriers: names of classes, files and records that carry the name of a user or host.
        remedies: how each kind of what is left gets out.
        stays: what these options would take out and cannot, and why.
        rewritten: records that the result has with other bytes.
        gone: records that it does not have, or only without content.
        exact: whether a join gives the whole original back to the byte, or only its records.
        archive_id: of the archive, in hex.
        redacted_id: of the redacted archive, in hex; the same unless records of the model were rewritten.
        refused: why PyTorch 2.13 refuses to load the result: the loader and its message. For exported
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
    unaccepted: dict[str, int]
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


@dataclass(frozen=True, slots=True)
class CompanionRedaction(Searched):
    """The result of the redaction of a companion; sizes in bytes.

    Attributes:
        size: of the companion.
        out_size: of the redacted one.
        sought: how many removed texts it was searched for, by what they are: ``path``, ``folder``, ``line``.
        unsought: removed texts that it was not searched for, each with what it is: too short, a common word,
            or part of what stays.
        left: what is still there and was to go, as :class:`archive.Redaction` has it.
        kept: what ``leaks`` finds in it, and these choices keep.
        carriers: names that carry the name of a user or host.
        remedies: how each kind of what is left gets out.
        unread: what could not be searched, and why.
        read: bytes that were searched: those of the file, and what is inflated from them.
        gone: raw records that it does not have.
        archive_id: of the archive, in hex.
    """

    size: int
    out_size: int
    sought: dict[str, int]
    unsought: tuple[str, ...]
    left: tuple[str, ...]
    kept: tuple[str, ...]
    carriers: tuple[str, ...]
    remedies: tuple[str, ...]
    unread: tuple[str, ...]
    read: int
    gone: tuple[str, ...]
    archive_id: str


@dataclass(frozen=True, slots=True)
class MetadataRedaction(Searched):
    """The result of a redaction of the metadata of safetensors; sizes in bytes.

    Attributes:
        size: of the file.
        out_size: of the redacted one.
        gone: keys of metadata that it does not have.
        changed: keys of metadata with other values.
        absent: what was to be replaced, and is in no text of metadata.
        sought: how many removed texts it was searched for, by what they are, as :class:`archive.Redaction`
            has it; ``text`` is what was replaced.
        unsought: removed texts that it was not searched for: too short, a common word, or part of what stays.
        left: what is still there and was to go, as :class:`archive.Redaction` has it.
        kept: what ``leaks`` finds in it, and these choices keep.
        carriers: names that carry the name of a user or host.
        remedies: how each kind of what is left gets out.
        unread: what could not be searched, and why.
        read: bytes that were searched.
        unaccepted: how many names, keys and values nobody has accepted that are not vocabulary, by role;
            empty where they were not listed.
    """

    size: int
    out_size: int
    gone: tuple[str, ...]
    changed: tuple[str, ...]
    absent: tuple[str, ...]
    sought: dict[str, int]
    unsought: tuple[str, ...]
    left: tuple[str, ...]
    kept: tuple[str, ...]
    carriers: tuple[str, ...]
    remedies: tuple[str, ...]
    unread: tuple[str, ...]
    read: int
    unaccepted: dict[str, int]


@dataclass(frozen=True, slots=True)
class CheckpointRedaction(Searched):
    """The result of a replacement of texts in what ``torch.save`` wrote; sizes in bytes.

    Attributes:
        size: of the file.
        out_size: of the redacted one.
        changed: the places of the texts of its pickle, ``data.pkl``, that have changed.
        absent: what was to be replaced, and is in no text of the pickle.
        sought: how many removed texts it was searched for, by what they are: ``text`` is what was replaced.
        unsought: removed texts that it was not searched for: too short.
        left: what is still there and was to go, as :class:`archive.Redaction` has it, and why.
        kept: what ``leaks`` finds in it.
        carriers: names that carry the name of a user or host.
        remedies: how each kind of what is left gets out.
        unread: what could not be searched, and why.
        read: bytes that were searched: those of the file, and what is inflated from them.
        unaccepted: how many names, keys and values nobody has accepted that are not vocabulary, by role;
            empty where they were not listed.
    """

    size: int
    out_size: int
    changed: tuple[str, ...]
    absent: tuple[str, ...]
    sought: dict[str, int]
    unsought: tuple[str, ...]
    left: tuple[str, ...]
    kept: tuple[str, ...]
    carriers: tuple[str, ...]
    remedies: tuple[str, ...]
    unread: tuple[str, ...]
    read: int
    unaccepted: dict[str, int]


AnyRedaction = Redaction | CompanionRedaction | MetadataRedaction | CheckpointRedaction


def redaction(
    before: Archive,
    changes: Changes,
    removed: Removed,
    after: tuple[Archive, Contents, bytes],
    proof: Proof,
    *,
    rules: Rules,
    refused: tuple[str, ...],
    unaccepted: dict[str, int],
) -> Redaction:
    """The facts about the redaction of an archive.

    Args:
        before: the archive.
        changes: what was done to it.
        removed: what is gone.
        after: the redacted archive, and the companion's contents and bytes.
        proof: what the search for all that is gone found.
        rules: what was promised.
        refused: why PyTorch refuses the result.
        unaccepted: texts that nobody has accepted, by role.
    """
    redacted, contents, companion = after
    records = before.container.records
    rewritten = [name for name, data in changes.records.items() if data and data != records[name].view()]
    without = changes.gone
    gone = [name for name in records if name in without or changes.records.get(name) == b""]
    return Redaction(
        asked=changes.asked,
        size=before.size,
        out_size=redacted.size,
        companion_size=len(companion),
        in_code=len(proof.in_code),
        stays=tuple(dict.fromkeys(removed.stays)),
        rewritten=tuple(rewritten),
        gone=tuple(gone),
        exact="file.digest" in contents.columns,
        archive_id=contents.archive_id.hex(),
        redacted_id=(contents.redacted_id or contents.archive_id).hex(),
        refused=refused,
        unaccepted=unaccepted,
        **proven(proof, rules, removed, never_sought=()),
    )


def proven(
    proof: Proof, rules: Rules, removed: Removed, never_sought: Collection[str] = NEVER_SOUGHT
) -> dict[str, Any]:
    """What all results say of the search, and of what `leaks` finds in the result, as their attributes."""
    from archive.privacy.redact.promises import judged  # noqa: PLC0415 (showing results does without)

    judgement = judged(proof.finder, rules)
    texts = {text for _, text in proof.left}
    left = [f"{what} {one_line(decoded(text))} in {place}" for (what, text), place in proof.left.items()]
    left += [sentence for text, sentence in judgement.left.items() if text not in texts]
    left += [f"not searched: {record}" for record in proof.unread]
    return {
        "sought": {what: count for what, count in proof.sought.items() if what not in never_sought},
        "unsought": tuple(f"{what} {one_line(decoded(text))}" for what, text in proof.unsought),
        "left": tuple(sorted(left + removed.left)),
        "unread": tuple(proof.unread),
        "read": proof.read,
        "kept": judgement.kept,
        "carriers": tuple(proof.carriers),
        "remedies": (*judgement.remedies, *removed.ways),
    }


def check_clean(file: str, result: AnyRedaction) -> None:
    """Refuse a result that isn't clean.

    Raises:
        ImpossibleError: something is left; its facts are the result.
    """
    left = result.left
    if left:
        why = f"would be left: {several(left)}"
        advice = "pass --partial to write it anyway"
        refusal = ImpossibleError(f"{why}; {advice}", file=file, in_python="partial=True")
        refusal.facts = result
        raise refusal
