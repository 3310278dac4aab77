"""The target of a migration, and the steps to it."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from archive.base.quick_dataclass import dataclass
from archive.formats.releases import LATEST, shown

if TYPE_CHECKING:
    from archive.debuginfo.model import RangeLayout
    from archive.formats.releases import Number


TO_ORIGINAL = "original"


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a migration: a release, a layout of source ranges, or the archive's original.

    Attributes:
        number: the release; None for the other targets.
        layout: the layout; None for the other targets.
    """

    number: Number | None
    layout: RangeLayout | None = None

    def __str__(self) -> str:
        if self.number is not None:
            return f"PyTorch {shown(self.number)}"
        return TO_ORIGINAL if self.layout is None else str(self.layout)

    @property
    def is_original(self) -> bool:
        """Whether it is the archive as it was before it was migrated."""
        return self.number is None and self.layout is None

    @property
    def is_latest(self) -> bool:
        """Whether it is the newest release."""
        return self.number == LATEST


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A step of a migration: something that is rewritten, mended or lost.

    Attributes:
        what: the step in words.
        count: the number of rows, bytes or facts; None for a step that has none.
    """

    what: str
    count: int | None = None

    def __str__(self) -> str:
        return self.what if self.count is None else f"{self.what}: {self.count:,}"


@dataclass(slots=True)
class MigrationPlan:
    """The steps of a migration.

    Attributes:
        target: of the migration.
        changes: steps that rewrite something.
        rescues: steps that mend what the target would refuse.
        losses: facts that the target has no place for; they need the user's consent.
        remarks: facts that cannot be made up, and contents that the target refuses all the same.
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
