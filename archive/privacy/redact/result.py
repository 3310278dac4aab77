"""The results of redactions, as facts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from archive.base.errors import ImpossibleError, several
from archive.base.quick_dataclass import dataclass
from archive.base.strings import decoded
from archive.privacy.redact.named_text import RedactionText

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


@dataclass(frozen=True, slots=True)
class AnyRedaction:
    """A result that was searched for what was to go; sizes in bytes.

    Attributes:
        size: of the file.
        out_size: of the redacted one.
        sought: how many removed texts the result was searched for, by what they are: ``path``, ``folder``,
            ``line``, ``name``, ``root``, ``file``, ``user name``, ``host name``, ``address``, ``URL``,
            ``key``; ``text`` is what was replaced.
        found: how many of these are left, by what they are.
        not_searched_for: removed texts that the result was not searched for: too short, a common word, or
            part of what stays.
        remaining: texts that are still there and were to go: removed ones, and what :func:`archive.leaks`
            finds in the result.
        problems: what else keeps the result from being clean, in words: what could not be searched, what
            loading needs, and what nobody has accepted.
        kept_by_choice: what :func:`archive.leaks` finds in the result and counts, and these choices keep.
        carriers: names of classes, files and records that carry the name of a user or host.
        remedies: how to remove each kind of what remains.
        unread: records of the result that could not be searched, and why.
        read: bytes that were searched: those of the file, and what is inflated from them.
        unaccepted: how many names, keys and values are neither vocabulary nor accepted, by role; empty where
            they were not listed.
    """

    size: int
    out_size: int
    sought: dict[str, int]
    found: dict[str, int]
    not_searched_for: tuple[RedactionText, ...]
    remaining: tuple[RedactionText, ...]
    problems: tuple[str, ...]
    kept_by_choice: tuple[RedactionText, ...]
    carriers: tuple[str, ...]
    remedies: tuple[str, ...]
    unread: tuple[str, ...]
    read: int
    unaccepted: dict[str, int]

    @property
    def is_clean(self) -> bool:
        """Whether all was searched, and nothing found that was to go."""
        return not self.remaining and not self.problems


@dataclass(frozen=True, slots=True)
class Redaction(AnyRedaction):
    """The result of a redaction; sizes in bytes.

    Attributes:
        asked: the choices that were made, as options of the command.
        companion_size: of the companion.
        in_code: lines that stand in generated code or bytecode, too, which PyTorch runs.
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
    companion_size: int
    in_code: int
    stays: tuple[str, ...]
    rewritten: tuple[str, ...]
    gone: tuple[str, ...]
    exact: bool
    archive_id: str
    redacted_id: str
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompanionRedaction(AnyRedaction):
    """The result of the redaction of a companion; sizes in bytes.

    Attributes:
        gone: raw records that it does not have.
        archive_id: of the archive, in hex.
    """

    gone: tuple[str, ...]
    archive_id: str


@dataclass(frozen=True, slots=True)
class MetadataRedaction(AnyRedaction):
    """The result of a redaction of the metadata of safetensors; sizes in bytes.

    Attributes:
        gone: keys of metadata that it does not have.
        changed: keys of metadata with other values.
        absent: what was to be replaced, and is in no text of metadata.
    """

    gone: tuple[str, ...]
    changed: tuple[str, ...]
    absent: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckpointRedaction(AnyRedaction):
    """The result of a replacement of texts in what ``torch.save`` wrote; sizes in bytes.

    Attributes:
        changed: the places of the texts of its pickle, ``data.pkl``, that have changed.
        absent: what was to be replaced, and is in no text of the pickle.
    """

    changed: tuple[str, ...]
    absent: tuple[str, ...]


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
    proof: Proof,
    rules: Rules,
    removed: Removed,
    *,
    never_sought: Collection[str] = NEVER_SOUGHT,
) -> dict[str, Any]:
    """What all results say of the search, and of what `leaks` finds in the result, as their attributes."""
    from archive.privacy.redact.promises import judged, ways_at  # noqa: PLC0415 (showing results does without)
    from archive.privacy.review.ways import way_of_carriers  # noqa: PLC0415 (the same)

    judgement = judged(proof.finder, rules)
    stays = {(one.what, one.text.encode()) for one in removed.remaining}
    found = {each: place for each, place in proof.left.items() if each not in stays}
    texts = {text for _, text in found}
    remaining = [RedactionText(what, decoded(text), place) for (what, text), place in found.items()]
    remaining += removed.remaining
    remaining += [finding for text, finding in judgement.left.items() if text not in texts]
    for text in sorted(removed.texts - texts - {text for _, text in stays}):
        for finding in judgement.kept:
            if decoded(text) in finding.text:  # put together, of parts that no search finds as one text
                found["text", text] = finding.place
                remaining.append(RedactionText("text", decoded(text), f"{finding.place}, in parts"))
                break
    only_found = {each: place for each, place in proof.left.items() if each[1] not in judgement.left}
    problems = [
        *judgement.unlisted,
        *(f"not searched: {record}" for record in proof.unread),
        *removed.problems,
    ]
    carried = [way_of_carriers(proof.finder.kind)] if proof.carriers else []
    return {
        "sought": {what: count for what, count in proof.sought.items() if what not in never_sought},
        "found": dict(Counter(what for what, _ in {*found, *stays}.difference(proof.not_sought))),
        "not_searched_for": tuple(RedactionText(what, decoded(text)) for what, text in proof.not_sought),
        "remaining": tuple(sorted(remaining, key=str)),
        "problems": tuple(sorted(problems)),
        "unread": tuple(proof.unread),
        "read": proof.read,
        "kept_by_choice": judgement.kept,
        "carriers": tuple(proof.carriers),
        "remedies": tuple(
            dict.fromkeys(
                (*judgement.remedies, *ways_at(only_found, proof.finder.kind), *carried, *removed.ways)
            )
        ),
    }


def check_clean(file: str, result: AnyRedaction) -> None:
    """Refuse a result that isn't clean.

    Raises:
        ImpossibleError: something is left; its facts are the result.
    """
    if not result.is_clean:
        why = f"would be left: {several([*map(str, result.remaining), *result.problems])}"
        advice = "pass --partial to write it anyway"
        refusal = ImpossibleError(f"{why}; {advice}", file=file, in_python="partial=True")
        refusal.facts = result
        raise refusal
