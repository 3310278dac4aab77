"""A migration, planned or done → text for a terminal, and facts for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from archive.base.errors import one_line
from archive.formats.record_kinds import MIGRATED
from archive.render.making import SAME_FILE, SAME_RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.render.fitted_table import Printed
    from archive.render.making import Sized
    from archive.rewrite.migrate.migrate import Migration
    from archive.rewrite.migrate.plan import MigrationPlan


def plan_text(facts: Migration, file: str) -> Printed:
    """A planned migration of a single file."""
    lines = [_head(facts, file), *_against(facts), *_steps(facts)]
    if facts.plan.losses:
        lines += ["", "pass --lossy to go on without what is lost"]
    return lines


def migration_text(facts: Migration, file: Sized, out: Sized) -> Printed:
    """A migration of a single file that was done."""
    lines = [_head(facts, file.name), *_against(facts), *_steps(facts), ""]
    lines.append(f"{out}: {file.size:,} -> {out.size:,} bytes")
    lines += facts.refused
    if facts.aside_size:
        back = f"is {SAME_FILE}" if facts.exact else f"has {SAME_RECORDS}"
        lines.append(f"{facts.aside_size:,} of them keep what it was: migrated back, it {back}")
    return lines


def plan_line(facts: Migration, file: str) -> str:
    """A planned migration in one line."""
    plan = facts.plan
    what = "given back as it was" if facts.restored and plan.target.is_original else _summary(plan)
    return one_line(f"{file}: {facts.origin} -> {plan.target}: {what}")


def migration_line(facts: Migration, file: Sized, out: Sized) -> str:
    """A migration that was done, in one line."""
    return f"{plan_line(facts, file.name)}; {file.size:,} -> {out.size:,} bytes"


def migration_facts(facts: Migration) -> dict[str, Any]:
    """A migration, planned or done, for JSON: without the bytes of the result."""
    return {name: value for name, value in asdict(facts).items() if name != "data"}


def _head(facts: Migration, file: str) -> str:
    origin = f"which was of {facts.origin} before its migration" if facts.restored else f"of {facts.origin}"
    return f"{file}, {origin}" + ("" if facts.plan.target.is_original else f", for {facts.plan.target}")


def _against(facts: Migration) -> list[str]:
    return [f"  but {sign}" for sign in facts.origin.against]


def _steps(facts: Migration) -> Iterator[str]:
    plan = facts.plan
    if not plan.is_needed:
        yield from ("", _nothing(facts))
    for title, steps in _titled(plan):
        yield from ("", title, *(f"  {step}" for step in steps))
    if plan.remarks:
        yield from ("", "to know", *(f"  {remark}" for remark in plan.remarks))


def _nothing(facts: Migration) -> str:
    """The reason that nothing is rewritten."""
    if not facts.plan.target.is_original:
        return "nothing to rewrite: it is as that release may have written it"
    if facts.restored:
        return "given back as it was"
    return f"given as it is: without {MIGRATED}, nothing in it shows a migration"


def _summary(plan: MigrationPlan) -> str:
    if not plan.is_needed:
        return "nothing to do"
    return ", ".join(f"{len(steps)} {title}" for title, steps in _titled(plan))


def _titled(plan: MigrationPlan) -> list[tuple[str, Sequence[object]]]:
    titles = ("mended", plan.rescues), ("rewritten", plan.changes), ("lost", plan.losses)
    return [(title, steps) for title, steps in titles if steps]
