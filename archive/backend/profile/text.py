"""The sums of a profile as a table for a terminal: 100 columns, plain, numbers first as in ``perf report``.

A name that is too long loses its beginning, a text its end. The last row sums up the rows that are not shown.
Only modules have a total time besides their self time: it includes the modules inside them. Memory is shown
where it was recorded: that of results, where a backend records these, which may be a small part of what
operators allocate and free inside; or all of PyTorch's allocator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.backend.profile.timeline import Row, Timeline

    By = Literal["module", "line", "operator"]

TABLE_WIDTH = 100
NAME_WIDTH = 26
NUMBER_WIDTHS = (10, 6, 10, 8, 11, 10)
"""Widths of self time, share, total, calls, bytes, and bytes at the peak."""
UNIT = 1024
"""Bytes in a KiB, and so on."""
HEADINGS = {"module": ("module", "class"), "line": ("line", "source"), "operator": ("operator", "")}


def table(timeline: Timeline, *, by: By = "module", most: int = 20) -> str:
    """The rows with the longest self times.

    Args:
        timeline: the recording.
        by: what a row stands for.
        most: rows to show; the others are summed up in one.

    Raises:
        ValueError: ``by`` is none of the three.
    """
    if by not in HEADINGS:
        raise ValueError(f"by {by!r}: expected one of {', '.join(HEADINGS)}")
    rows = {"module": timeline.by_module, "line": timeline.by_line, "operator": timeline.by_operator}[by]()
    shown = [True, True, by == "module", True, *[bool(timeline.memory)] * 2]
    memory = "allocated" if timeline.of_allocator else "results"
    lines = [
        _head(timeline),
        "",
        _line(("self", "share", "total", "calls", memory, "at peak"), *HEADINGS[by], shown),
    ]
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
    """Bytes in the unit that suits them: ``17 B``, ``1.2 KiB``, ``1.2 MiB``, ``1.2 GiB``, ``1.2 TiB``."""
    value = float(count)
    if abs(value) < UNIT:
        return f"{count} B"
    for unit in ("KiB", "MiB", "GiB"):
        value /= UNIT
        if abs(round(value, 1)) < UNIT:
            return f"{value:.1f} {unit}"
    return f"{value / UNIT:.1f} TiB"


def _head(timeline: Timeline) -> str:
    calls = len(timeline.events)
    head = f"backend {timeline.backend}: {calls:,} operation{'' if calls == 1 else 's'}"
    head += f" in {duration(timeline.total_ns)}"
    if timeline.memory:
        what = "memory" if timeline.of_allocator else "results"
        head += f", {what} of up to {size(timeline.peak)} at a time"
    return head


def _numbers(rows: Sequence[Row], total: str) -> tuple[str, ...]:
    """The numbers of one row, or of several together.

    Self times add up. Total times overlap, so the caller gives what to show of them.
    """
    share, calls = sum(row.share for row in rows), sum(row.calls for row in rows)
    own, allocated = sum(row.self_ns for row in rows), sum(row.allocated for row in rows)
    at_peak = sum(row.at_peak for row in rows)
    return duration(own), f"{share:.1%}", total, f"{calls:,}", size(allocated), size(at_peak)


def _line(numbers: tuple[str, ...], name: str, text: str, shown: list[bool]) -> str:
    columns = zip(numbers, NUMBER_WIDTHS, shown, strict=True)
    line = " ".join(f"{number:>{width}}" for number, width, is_shown in columns if is_shown) + "  "
    if not text:
        return line + _end(name, TABLE_WIDTH - len(line))
    line += f"{_end(name, NAME_WIDTH):<{NAME_WIDTH}} "
    return line + _start(text, TABLE_WIDTH - len(line))


def _end(text: str, width: int) -> str:
    return text if len(text) <= width else f"…{text[1 - width :]}"


def _start(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
