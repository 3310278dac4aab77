"""Saved profiles as text: what changed between two, and the rows of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.debuginfo.profiles.saved import ProfileChange, SavedProfile

HEADINGS = {"module": "module", "line": "line", "operator": "operator"}
NAME_WIDTH, TEXT_WIDTH = 28, 32
NEW, GONE, SAME = "new", "gone", "same"


def comparison_text(
    before: SavedProfile, after: SavedProfile, changes: Sequence[ProfileChange], view: str, most: int
) -> str:
    """The changes of one view, those of most time first; times are per run.

    Args:
        view: what a row stands for.
        most: rows to show; 0 for all.
    """
    lines = [f"{before.backend} {micros(before.total_ns)} -> {after.backend} {micros(after.total_ns)}"]
    lines[0] += f" a run ({_share(before.total_ns, after.total_ns)})"
    if before.peak_bytes is not None and after.peak_bytes is not None:
        lines[0] += f", memory {before.peak_bytes:,} B -> {after.peak_bytes:,} B"
    lines += ["", f"{'before':>12} {'after':>12} {'change':>12} {'':>7}  {HEADINGS[view]}"]
    shown = changes[:most] if most else changes
    lines += map(_change_line, shown)
    if len(changes) > len(shown):
        rest = sum(change.difference for change in changes[len(shown) :])
        lines.append(f"{'':>12} {'':>12} {_signed(rest):>12} {'':>7}  [{len(changes) - len(shown):,} others]")
    return "\n".join(lines)


def rows_text(profile: SavedProfile, view: str, most: int) -> str:
    """The rows of one view, longest self time first; times are per run."""
    rows = profile.rows[view]
    lines = [f"{profile.backend}: {micros(profile.total_ns)} a run", ""]
    lines.append(f"{'self':>12} {'share':>6} {'calls':>8} {'allocated':>13}  {HEADINGS[view]}")
    whole = profile.total_ns or 1
    lines += (
        f"{micros(row.self_ns):>12} {row.self_ns / whole:>6.1%} {row.calls:>8,.6g} {row.allocated:>13,.0f}  "
        f"{row.name:<{NAME_WIDTH}} {row.text[:TEXT_WIDTH]}".rstrip()
        for row in (rows[:most] if most else rows)
    )
    return "\n".join(lines)


def _change_line(change: ProfileChange) -> str:
    before, after = (row.self_ns if row else None for row in (change.before, change.after))
    times = " ".join(f"{'' if time is None else micros(time):>12}" for time in (before, after))
    share = NEW if before is None else GONE if after is None else _share(before, after)
    name = f"{change.name:<{NAME_WIDTH}} {change.text[:TEXT_WIDTH]}".rstrip()
    return f"{times} {_signed(change.difference):>12} {share:>7}  {name}"


def _share(before: float, after: float) -> str:
    """The change in percent of what was before."""
    return SAME if before == after else f"{after / before - 1:+.0%}" if before else NEW


def micros(nanoseconds: float) -> str:
    """A time in µs."""
    return f"{nanoseconds / 1000:,.1f} µs"


def _signed(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:+,.1f} µs"
