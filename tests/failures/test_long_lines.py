"""Lines of more than 1 MiB: failures in their strings are explained, others told, in bounded memory."""

from __future__ import annotations

import json
import tracemalloc
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive.failures.explainer import LogExplainer
from archive.failures.log.lines import MAX_LINE, InnerLines, Lines
from tests.support.reports import case, explained
from tests.support.sampling import crossed, examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.reports import Report

JIT, LITE = case("plain_free_functions.jit"), case("plain_unicode")
LONG = 3 * MAX_LINE
AROUND: dict[str, object] = {
    "a string": "x" * LONG,
    "short strings": ["abc"] * (LONG // 7),
    "escapes": '\\"' * LONG,
    "almost a piece": "x" * (MAX_LINE - 3),
}
TOLD = "a failure in a line of more than 1 MiB, in no string of JSON that is shorter"


def record(text: bytes, **around: object) -> bytes:
    return json.dumps({**around, "msg": text.decode()}).encode() + b"\n"


@pytest.mark.parametrize(
    ("report", "around"),
    crossed([JIT, LITE], AROUND, most=4),
)
def test_a_failure_in_a_short_string_of_a_long_line_is_explained(report: Report, around: str) -> None:
    path, stripped, full = report
    text, *counts = explained(b"a\n" + record(stripped, blob=AROUND[around]) + b"b\n", path)
    assert text == b"a\n" + record(full, blob=AROUND[around]) + b"b\n"
    assert counts == [1, 0, []]


UNKNOWN = b"Debug info for handle(s): 1, was not found.\n"


@pytest.mark.parametrize("line", [record(b"x" * LONG + JIT.stripped), b"x" * LONG + b" " + UNKNOWN])
def test_a_failure_in_a_string_that_is_longer_is_told_with_its_line(line: bytes) -> None:
    log = b"a\nb\n" + line + b"c\n" + UNKNOWN
    text, done, unknown, notes = explained(log, JIT.path)
    assert (text, done, unknown) == (log, 0, 2)
    assert notes[0] == f"line 3: {TOLD}"
    assert notes[1].startswith("line 5: handles {1}: ")


def test_words_of_a_failure_alone_are_none() -> None:
    log = b"x" * LONG + b" Debug info for handles\n"
    assert explained(log, JIT.path) == (log, 0, 0, [])


def test_behind_a_string_that_is_too_long_the_next_one_is_explained() -> None:
    line = json.dumps({"a": "x" * LONG, "b": JIT.stripped.decode(), "c": "y" * LONG}).encode()
    full = json.dumps({"a": "x" * LONG, "b": JIT.full.decode(), "c": "y" * LONG}).encode()
    assert explained(line, JIT.path) == (full, 1, 0, [])


def test_a_long_line_costs_little_memory() -> None:
    """No matter how long it is."""

    def pieces() -> Iterator[bytes]:
        yield b'{"a": "'
        for _ in range(40):
            yield b'x\\"' * (1 << 17)
        yield b'", ' + record(JIT.stripped)[1:]

    with archive.open(JIT.path) as opened:
        explainer = LogExplainer.of(opened)
        list(explainer.explain([JIT.stripped]))
        tracemalloc.start()
        size = sum(map(len, explainer.explain(pieces())))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert size > 40 * 3 << 17
    assert explainer.explained == 2
    assert peak < 8 << 20


@settings(deadline=None, max_examples=examples(200))
@given(st.data())
def test_pieces_of_long_lines_are_the_log_again(data: st.DataObject) -> None:
    log = b"".join(data.draw(st.lists(st.sampled_from([b'"', b"\\", b"\n", b"ab", b"c" * 9, b'"d"'])), "log"))
    cuts = sorted({0, *data.draw(st.lists(st.integers(0, len(log)), max_size=4)), len(log)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("archive.failures.log.lines.MAX_LINE", 8)
        patch.setattr("archive.failures.log.lines.CHUNK", 4)
        lines = list(iter(Lines([log[a:b] for a, b in pairwise(cuts)]).take, None))
    assert b"".join(line.data for line in lines) == log
    whole = log.splitlines(keepends=True) if b"\r" not in log else []
    assert [line.data for line in lines if line.is_whole] == [
        line for line in whole if any(one.is_whole and one.data == line for one in lines)
    ]
    for number, line in enumerate(whole, 1):
        assert b"".join(one.data for one in lines if one.number == number) == line


def test_lines_within_a_line_have_its_number() -> None:
    lines = InnerLines(b"a\nb\nc", 7)
    assert [line.number for line in iter(lines.take, None)] == [7, 7, 7]
