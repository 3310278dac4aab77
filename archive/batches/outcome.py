"""What came of one file: one of a few outcomes, the reason, sizes and digests of what was read and made."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archive.batches.jobs import Job
    from archive.batches.places import Fingerprint


class OutcomeKind(StrEnum):
    """What came of a file.

    Attributes:
        DONE: its targets are written.
        TO_DO: of a dry run: they would be written.
        SAME: its targets are there already, made of this very file with these options, as the manifest tells.
        NOTHING_TO_DO: the file is already what was to become of it, and was copied.
        IMPOSSIBLE: what was asked does not go with this file, in which nothing is wrong; nothing is written.
        FAILED: the file is broken, cannot be read, or a target cannot be written; nothing is written.
    """

    DONE = "done"
    TO_DO = "to do"
    SAME = "same"
    NOTHING_TO_DO = "nothing to do"
    IMPOSSIBLE = "impossible"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one file.

    Attributes:
        job: its paths.
        kind: which of a few things it was.
        reason: why, on one line; "" where the file was done as usual.
        facts: the result of the library's function, like :class:`archive.Split`; None where there is none.
        sources: the files that were read: size, and of several files the digest.
        outputs: the files that were written: the same; of a dry run those that would be.
        is_internal: whether it failed by a fault of this program.
    """

    job: Job
    kind: OutcomeKind
    reason: str = ""
    facts: Any = None
    sources: tuple[Fingerprint, ...] = ()
    outputs: tuple[Fingerprint, ...] = ()
    is_internal: bool = False

    @property
    def is_clean(self) -> bool:
        """Whether what was made holds nothing that it should not hold."""
        return bool(getattr(self.facts, "is_clean", True))

    @property
    def file(self) -> str:
        """The path of the input."""
        return self.job.file

    @property
    def written(self) -> tuple[str, ...]:
        """The paths of the targets that are there now, or would be: the output first, then a companion."""
        return tuple(self.job.targets[: len(self.outputs)])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of the input, of the output, and of a companion; () where nothing was made."""
        if not self.outputs:
            return ()
        (file, *read), (out, *made) = self.sources, self.outputs
        return (file.size, out.size, *(one.size for one in (*read, *made)))
