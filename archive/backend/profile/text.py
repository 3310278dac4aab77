"""The sums of a profile as a table for a terminal: 100 columns, plain, numbers first as in ``perf report``.

A name that is too long loses its beginning, a text its end. The last line has what the rows above it leave.
Only modules have a total besides their self time: with the modules inside them. Memory is shown where it was
recorded. It is that of results: what operators take and give back inside is not seen, and may be several
times as much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.backend.profile.profile import Profile, Row

    By = Literal["module", "line", "operator"]

WIDTH = 100
NAME = 26
WIDTHS = (10, 6, 10, 8, 11)
"""Of the numbers: self time, share, total, calls, bytes."""
BYTES = 1024
HEADINGS = {"module": ("module", "class"), "line": ("line", "source"), "operator": ("operator", "")}


def table(profile: Profile, *, by: By = "module", most: int = 20) -> str:
    """The rows with the longest self times.

    Args:
        profile: whose.
        by: what a row stands for.
        most: rows to show; the others are summed up in one.

    Raises:
        ValueError: ``by`` is none of the three.
    """
    if by not in HEADINGS:
        raise ValueError(f"by {by!r}: expected one of {', '.join(HEADINGS)}")
    rows = {"module": profile.by_module, "line": profile.by_line, "operator": profile.by_operator}[by]()
    totals = by == "module"
    lines = [
        _head(profile),
        "",
    ]
    shown = [True, True, totals, True, bool(profile.memory)]
    lines.append(_line(("self", "share", "total", "calls", "results"), *HEADINGS[by], shown))
    lines += [
        _line(_numbers([row], duration(row.total_ns)), row.name, row.text, shown) for row in rows[:most]
    ]
    if rest := rows[most:]:
        lines.append(_line(_numbers(rest, ""), f"[{len(rest):,} others]", "", shown))
    return "\n".join(lines)


def duration(ns: int) -> str:
    """A time in the unit that suits it: ``17 ns``, ``1.234 µs``, ``1.234 ms``, ``1.234 s``."""
    if ns < 1000:  # noqa: PLR2004 (ns in a µs)
        return f"{ns} ns"
    for unit, size in (("µs", 1e3), ("ms", 1e6)):
        if round(ns / size, 3) < 1000:  # noqa: PLR2004
            return f"{ns / size:.3f} {unit}"
    return f"{ns / 1e9:.3f} s"


def size(count: int) -> str:
    """Bytes in the unit that suits them: ``17 B``, and so on."""
    value = float(count)
    if abs(value) < BYTES:
        return f"{count} B"
    for unit in ("KiB", "MiB", "GiB"):
        value /= BYTES
        if abs(round(value, 1)) < BYTES:
            return f"{value:.1f} {unit}"
    return f"{value / BYTES:.1f} TiB"


def _head(profile: Profile) -> str:
    calls = len(profile.events)
    head = f"backend {profile.backend}: {calls:,} operation{'' if calls == 1 else 's'}"
    head += f" in {duration(profile.total_ns)}"
    if profile.memory:
        head += f", results of up to {size(max(change.total for change in profile.memory))} at a time"
    return head


def _numbers(rows: Sequence[Row], total: str) -> tuple[str, ...]:
    """The numbers of a row, or of several together: their self times add up, their totals overlap."""
    share, calls = sum(row.share for row in rows), sum(row.calls for row in rows)
    own, allocated = sum(row.self_ns for row in rows), sum(row.allocated for row in rows)
    return duration(own), f"{share:.1%}", total, f"{calls:,}", size(allocated)


def _line(numbers: tuple[str, ...], name: str, text: str, shown: list[bool]) -> str:
    columns = zip(numbers, WIDTHS, shown, strict=True)
    line = " ".join(f"{number:>{width}}" for number, width, is_shown in columns if is_shown) + "  "
    if not text:
        return line + _end(name, WIDTH - len(line))
    line += f"{_end(name, NAME):<{NAME}} "
    return line + _start(text, WIDTH - len(line))


def _end(text: str, width: int) -> str:
    return text if len(text) <= width else f"…{text[1 - width :]}"


def _start(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
