"""Profiles as tables: columns, units, and names that no terminal obeys."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", exc_type=ImportError)


from archive.backend.profile.profile import duration, size, table
from tests.support.profiles import ADD_0, FC_0, HEAD, one_run, profiled, recording

pytestmark = pytest.mark.torch


def test_table() -> None:
    assert table(one_run(), most=2) == (
        "backend demo: 5 operations in 8.000 µs, results of up to 5.0 KiB at a time\n"
        "\n"
        "      self  share      total    calls     results    at peak  module                     class\n"
        "  4.000 µs  50.0%   4.000 µs        1     4.0 KiB    4.0 KiB  blocks.0.fc                Linear\n"
        "  2.000 µs  25.0%   2.000 µs        1         0 B        0 B  head                       Linear\n"
        "  2.000 µs  25.0%                   3     1.0 KiB    1.0 KiB  [5 others]"
    )
    heading, first = table(one_run(), by="line").splitlines()[2:4]
    assert heading == "      self  share    calls     results    at peak  line                       source"
    assert first.startswith("  4.000 µs  50.0%        1     4.0 KiB    4.0 KiB  models/plain.py:25  ")
    assert first.endswith("  return self.act(self.…")
    _, _, lines = table(one_run(), by="line").partition("\n\n")
    assert str(one_run()) == f"{table(one_run())}\n\n{lines}", "with one head"
    with pytest.raises(ValueError, match=r"^by 'file': expected one of module, line, operator$"):
        table(one_run(), by="file")  # type: ignore[arg-type]


def test_without_memory_there_is_no_column_of_it() -> None:
    made = recording((0, 4000, FC_0, "aten::linear"), (4500, 5500, ADD_0, "aten::add"))
    assert table(profiled(made)).splitlines()[:4] == [
        "backend demo: 2 operations in 5.000 µs",
        "",
        "      self  share      total    calls  module                     class",
        "  4.000 µs  80.0%   4.000 µs        1  blocks.0.fc                Linear",
    ]
    assert table(profiled(made), by="operator").splitlines()[2] == "      self  share    calls  operator"


def test_names_cannot_move_the_cursor_or_break_the_table() -> None:
    text = table(profiled(recording((0, 2, HEAD, "\x1b[2J\n"), (2, 3, HEAD, "x" * 200))), by="operator")
    assert text.splitlines()[-2].endswith(r"  \x1b[2J\n")
    assert [len(line) for line in text.splitlines()][-1] == 100


def test_units() -> None:
    nanoseconds = (0, 999, 1000, 999_999, 999_999_999)
    assert [*map(duration, nanoseconds)] == ["0 ns", "999 ns", "1.000 µs", "999.999 µs", "1.000 s"]
    counts = (0, 1023, 1024, (1 << 20) - 1, -2048, 1 << 42)
    assert [*map(size, counts)] == ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "-2.0 KiB", "4.0 TiB"]
