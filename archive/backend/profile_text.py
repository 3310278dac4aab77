"""The sums of a profile as a table for a terminal: 100 columns, plain, numbers first as in ``perf report``.

A name that is too long loses its beginning, a text its end. The last line has what the rows above it leave.
Only modules have a total besides their self time: with the modules inside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.backend.profiling import Profile, Row

    By = Literal["module", "line", "operator"]

WIDTH = 100
NAME = 26
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
        _line(("self", "share", "total", "calls", "allocated"), *HEADINGS[by], totals=totals),
    ]
    for row in rows[:most]:
        numbers = _numbers([row], duration(row.total_ns))
        lines.append(_line(numbers, row.name, row.text, totals=totals))
    if rest := rows[most:]:
        lines.append(_line(_numbers(rest, ""), f"[{len(rest):,} others]", "", totals=totals))
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
        head += f", at most {size(max(change.total for change in profile.memory))} in use"
    return head


def _numbers(rows: Sequence[Row], total: str) -> tuple[str, ...]:
    """The numbers of a row, or of several together: their self times add up, their totals overlap."""
    share, calls = sum(row.share for row in rows), sum(row.calls for row in rows)
    own, allocated = sum(row.self_ns for row in rows), sum(row.allocated for row in rows)
    return duration(own), f"{share:.1%}", total, f"{calls:,}", size(allocated)


def _line(numbers: tuple[str, ...], name: str, text: str, *, totals: bool) -> str:
    own, share, total, calls, allocated = numbers
    line = f"{own:>10} {share:>6} {f'{total:>10} ' if totals else ''}{calls:>8} {allocated:>11}  "
    if not text:
        return line + _end(name, WIDTH - len(line))
    line += f"{_end(name, NAME):<{NAME}} "
    return line + _start(text, WIDTH - len(line))


def _end(text: str, width: int) -> str:
    return text if len(text) <= width else f"…{text[1 - width :]}"


def _start(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
