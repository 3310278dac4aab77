"""Companions that lie or ask for much, each with every checksum right."""

from __future__ import annotations

import zlib
from functools import partial
from typing import TYPE_CHECKING

from archive.companion.codecs import compressed
from archive.companion.layout import MAPPED_LINE, CompanionLayout, written
from archive.normalform.columns import SOLID
from tests.attacks.attack import MIB, Attack
from tests.support.companion_questions import SMALL
from tests.support.corpus import RELEASES
from tests.support.halves import companion_of, facts_of, halves
from tests.support.hostile_companions import (
    body,
    deep,
    hostile,
    line,
    long_text,
    packed_of,
    repeated,
    replaced,
    rewritten,
    sections,
    set_to,
    solid,
    traced,
)

if TYPE_CHECKING:
    from pathlib import Path


MODEL = RELEASES / "torch-2.13.0" / "nested.ptl"
READ = (
    "inspect {}",
    "verify {}",
    "leaks {}",
    "symbolicate {} 5",
    "join m.ptl -c {} -o j.ptl --force",
    "convert {} -o n.ptdbg --layout mapped --force",
)


def beside_model(companion: bytes, model: Path = MODEL) -> dict[str, bytes]:
    """A companion, and the archive that it was split from."""
    return {"c.ptdbg": companion, "m.ptl": halves(model).out}


def reading(*names: str, commands: tuple[str, ...] = READ) -> tuple[str, ...]:
    """The commands for each companion."""
    return tuple(command.format(name) for name in names for command in commands)


def _inflating() -> dict[str, bytes]:
    """A companion of one section without rows that inflates to 120 MB."""
    size = 120 * MIB
    codec, stored = compressed(bytes(size), 1)
    section = MAPPED_LINE.row(SOLID, 1, codec, 0, 0, size, len(stored), zlib.crc32(stored))
    return beside_model(written(CompanionLayout.PACKED, facts_of(MODEL).archive_id, [(section, stored)]))


COLUMNS: tuple[str, ...] = (
    "row.offset",
    "row.range",
    "range.start",
    "range.tag",
    "source.text",
    "node.parent",
    "node.line",
    "handle.handle",
    "handle.stack",
    "frame.next",
    "module.type",
    "member.kind",
    "record.rows",
    "method.instructions",
)
"""Columns that refer to others, or say how much there is."""
VALUES = {"huge": 1 << 40, "negative": -(1 << 40), "zero": 0}


def with_value(name: str, layout: CompanionLayout, row: int, value: int) -> bytes:
    """The model's companion with another value in one row of a column."""
    return hostile(MODEL, layout, lambda columns: set_to(columns, name, row, value))


def changed(value: int) -> dict[str, bytes]:
    """A companion for each column, whose last row has another value."""
    found = {}
    for name in COLUMNS:
        found[f"{name}.ptdbg"] = with_value(name, CompanionLayout.MAPPED, -1, value)
    return {**found, "m.ptl": halves(MODEL).out}


def _overlapping() -> dict[str, bytes]:
    """A companion for each section, which states more bytes than it has: those of the next ones, too."""
    data = companion_of(MODEL, CompanionLayout.MAPPED)
    listed = sections(data)
    found = {}
    for at in range(0, len(listed), 4):
        lying = replaced(listed, at, stored=len(listed[at][1]) + 4_096)
        found[f"{at}.ptdbg"] = rewritten(data, lying, honest_sizes=False)
    return {**found, "m.ptl": halves(MODEL).out}


CIRCLES: tuple[str, ...] = ("node.parent", "frame.next")


def _cyclic() -> dict[str, bytes]:
    """Companions in which the lines of a text, or the frames of a call stack, lead to themselves."""
    found = {"m.ptl": halves(MODEL).out}
    for name in CIRCLES:
        for layout in CompanionLayout:
            found[f"{name}-{layout.name}.ptdbg"] = with_value(name, layout, 0, 0)
    return found


ATTACKS = {
    "companion of rows": Attack(
        "A companion of 100 bytes whose columns state 2^30 rows.",
        lambda: beside_model(solid(body(line("row.offset", 1 << 30), line("number.value", 0)))),
        reading("c.ptdbg"),
    ),
    "companion that inflates": Attack(
        "A companion of 10 KB that inflates to 120 MB.", _inflating, reading("c.ptdbg")
    ),
    "companion of templates": Attack(
        "A million strings that are one template of 64 KB.",
        lambda: beside_model(repeated(1 << 20, 1 << 16)),
        reading("c.ptdbg"),
    ),
    "companion of lines": Attack(
        "20,000 texts, each a line longer than the one before, that share their lines.",
        lambda: beside_model(packed_of(deep(20_000), compress=True)),
        reading("c.ptdbg"),
    ),
    "companion of rows and sources": Attack(
        "100,000 rows, each of a source of its own, in 500 bytes: as a traced model's companion is.",
        lambda: beside_model(packed_of(traced(100_000), compress=True), SMALL),
        reading("c.ptdbg"),
    ),
    "companion of a long text": Attack(
        "A text of a million lines, in 500 bytes.",
        lambda: beside_model(packed_of(long_text(1_000_000), compress=True), SMALL),
        reading("c.ptdbg"),
    ),
    "companion of cycles": Attack(
        "Lines and frames that lead to themselves, signed again.",
        _cyclic,
        reading(*(f"{n}-{p.name}.ptdbg" for n in CIRCLES for p in CompanionLayout)),
    ),
    "companion that overlaps": Attack(
        "Sections that state more bytes than they have, signed again.",
        _overlapping,
        reading(*(f"{at}.ptdbg" for at in range(0, 40, 4)), commands=READ[1:3]),
    ),
    **{
        f"companion of {name} values": Attack(
            f"{len(COLUMNS)} companions with a value of {value:,} in one column, signed again.",
            partial(changed, value),
            reading(*(f"{name}.ptdbg" for name in COLUMNS), commands=READ[1:4:2]),
        )
        for name, value in VALUES.items()
    },
}
"""All but the two that inflate to much are the bytes of this project's own writer, with other columns."""
