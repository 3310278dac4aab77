"""What a migration will do, before it does it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from archive.formats.releases import LATEST, shown

if TYPE_CHECKING:
    from archive.debuginfo.model import Layout
    from archive.formats.releases import Number


TO_ORIGINAL = "original"


@dataclass(frozen=True, slots=True)
class Target:
    """What to migrate to.

    Attributes:
        number: a release; None where something else is asked for.
        layout: the layout of source ranges, where one is asked for by name; None for what the archive was
            before it was migrated.
    """

    number: Number | None
    layout: Layout | None = None

    def __str__(self) -> str:
        if self.number is not None:
            return f"PyTorch {shown(self.number)}"
        return TO_ORIGINAL if self.layout is None else str(self.layout)

    @property
    def is_original(self) -> bool:
        """Whether it is what the archive was before it was migrated."""
        return self.number is None and self.layout is None

    @property
    def is_latest(self) -> bool:
        """Whether it is the newest release."""
        return self.number == LATEST


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One thing that is done, or that goes.

    Attributes:
        what: in words.
        count: how many rows, bytes or facts; None where that says nothing.
    """

    what: str
    count: int | None = None

    def __str__(self) -> str:
        return self.what if self.count is None else f"{self.what}: {self.count:,}"


@dataclass(slots=True)
class MigrationPlan:
    """What a migration will do.

    Attributes:
        target: where to.
        changes: what is rewritten.
        rescues: what is mended, because the target refuses it otherwise.
        losses: what the target has no place for; it needs consent.
        remarks: what cannot be made up, and what the target refuses all the same.
    """

    target: Target
    changes: list[PlanStep] = field(default_factory=list)
    rescues: list[PlanStep] = field(default_factory=list)
    losses: list[PlanStep] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def is_needed(self) -> bool:
        """Whether anything has to be done at all."""
        return bool(self.changes or self.rescues or self.losses)
