"""The lines of a log: quiet ones are taken together, long ones are cut."""

from __future__ import annotations

import json
import re
import tracemalloc
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

import archive
from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.failures.explainer import LogExplainer
from archive.failures.inputs import REFUSED, refusal_in
from archive.failures.kernels import (
    CALL_FAILED,
    CALLED,
    KERNEL_FAILED,
    LINE_OF_CALL,
    LINE_OF_KERNEL,
    ROW,
    named_line,
)
from archive.failures.kinds import FAILURE_KINDS
from archive.failures.log.lines import MAX_LINE, InnerLines, Lines
from archive.failures.log.marks import MARKS, OTHER_WORDS, PRINTED
from archive.failures.log.quiet import has_failure
from tests.support.corpus import FIXTURES
from tests.support.exported import EXPORTED
from tests.support.reports import case, cases, explained
from tests.support.sampling import crossed, examples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from archive.failures.log.log_line import LogLine
    from archive.failures.models.models import Models
    from tests.support.reports import Report

MARK = b"cpp_"
FLEET = FIXTURES / "fleet"
FAILURES = json.loads((FLEET / "failures.json").read_bytes())
TEXTS = [
    *(b"", b"\r", b"plain", b"Module hierarchy:top(M).a(B).aten::add", b"a01234567 x", MARK, b"None"),
    b"2026-01-01T00:00:00Z stdout P Debug info for ",
    b"2026-01-01T00:00:00Z stdout F handle(s): debug_handles:{1}, was not found.",
    b"2026-01-01T00:00:00Z stdout F plain",
    *(line for one in (cases()[0].stripped,) for line in one.splitlines()),
    *(line for one in FAILURES[:2] for line in one["explained"].encode().splitlines()),
    *(one["unique"].encode() for one in FAILURES[:2]),
    *(one["plain"].encode() for one in FAILURES[:2]),
    *(f"[model] {one['model']} {one.get('id', '')}".encode() for one in FAILURES[:2]),
    *(EXPORTED / "own.module.txt").read_bytes().splitlines()[-12:],
]
LOGS = st.lists(st.sampled_from(TEXTS) | st.just(b"") | st.binary(max_size=3), max_size=40).map(b"\n".join)


@cache
def opened() -> list[archive.Archive]:
    return [archive.open(EXPORTED / "own.pt2"), archive.open(cases()[0].path)]


@cache
def fleet() -> Models:
    return models_in([FLEET / f"{name}.ptdbg" for name in ("Ranker", "Encoder")])


def starts(lines: bytes) -> list[int]:
    """The places where lines begin."""
    return [match.start() for match in re.finditer(rb"\n|[^\n]+\n?", lines)]


def pieces(data: st.DataObject, log: bytes) -> list[bytes]:
    cuts = sorted({0, *data.draw(st.lists(st.integers(0, len(log)), max_size=4)), len(log)})
    return [log[a:b] for a, b in pairwise(cuts)]


@settings(deadline=None)
@given(st.data())
def test_logs_are_explained_as_line_by_line(data: st.DataObject) -> None:
    logs = [pieces(data, data.draw(LOGS)) for _ in range(2)]
    makes = [partial(LogExplainer.of, one) for one in opened()]
    makes += [partial(explainer_of, fleet(), names=names) for names in (None, r"model\] (\w+)")]
    for make in makes:
        together, alone = make(), make()
        alone._loud = starts  # type: ignore[method-assign]
        for log in logs:
            assert b"".join(together.explain(log)) == b"".join(alone.explain(log))
        assert (together.notes, together.explained, together.unknown) == (
            *(alone.notes, alone.explained, alone.unknown),
        )


@settings(deadline=None)
@given(st.data())
def test_lines_are_the_same_however_they_are_read(data: st.DataObject) -> None:
    log = pieces(data, data.draw(LOGS))
    ahead, lines = (
        Lines(log, lambda lines: [at.start() for at in re.finditer(re.escape(MARK), lines)]),
        Lines(log),
    )
    while True:
        at = data.draw(st.integers(-1, 3))
        if at >= 0:
            assert shown(ahead.peek(at)) == shown(lines.peek(at))
        taken = ahead.take()
        if taken is None:
            assert lines.take() is None
            return
        assert [shown(lines.take()) for _ in range(taken.count)] == [*map(shown, each(taken))]


def each(line: LogLine) -> list[LogLine]:
    first, others = line.parted()
    return [first, *(each(others) if others else ())]


def shown(line: LogLine | None) -> tuple[bytes, int, bool] | None:
    return None if line is None else (line.latin or line.data, line.number, line.is_whole)


@pytest.mark.parametrize(
    ("log", "most"),
    [
        (b"\n" * (1 << 18), 8),
        (b"x\n" * (1 << 17), 8),
        ((b"\n" * 999 + MARK + b"\n") * 200, 200 * 40),
        (b"a\n" * 70_000 + MARK, 40),
    ],
    ids=["empty", "short", "with marks", "at the end"],
)
def test_lines_without_a_failure_are_not_looked_at_one_by_one(
    log: bytes, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    explainer, looks = LogExplainer.of(opened()[0]), [0]
    counted(explainer, looks, monkeypatch)
    assert b"".join(explainer.explain([log])) == log
    assert 0 < looks[0] <= most


def counted(explainer: LogExplainer, looks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the lines that are looked at, alone or together."""
    loud = explainer._loud
    saw = explainer.answers.saw

    def places(lines: bytes) -> list[int]:
        looks[0] += 1
        return loud(lines)

    def seen(line: bytes, number: int, *, is_failing: bool = False) -> None:
        looks[0] += 1
        saw(line, number, is_failing=is_failing)

    monkeypatch.setattr(explainer, "_loud", places)
    monkeypatch.setattr(explainer.answers, "saw", seen)


@pytest.mark.parametrize("line", [MARK, b"2026-01-01T00:00:00Z stdout P x", None])
def test_lines_that_tell_something_are_not_quiet(line: bytes | None) -> None:
    if line is None:  # an id of one of the models
        line = fleet().all[0].facts.archive_id.encode()
    lines = b"\n" * 9 + line + b"\n" * 9
    loud = [one._loud(lines) for one in (LogExplainer.of(opened()[0]), explainer_of(fleet()))]
    assert any(loud)
    assert {lines.count(b"\n", 0, place) for places in loud for place in places} == {9}
    assert explainer_of(fleet(), names="x")._loud(b"\n\n") == [0, 1]


def test_a_hash_is_quiet_unless_the_archive_has_hashes_for_names(tmp_path: Path) -> None:
    out, companion = tmp_path / "out.pt", tmp_path / "private.ptdbg"
    archive.redact(cases()[0].path, out, companion, names="hash")
    with archive.open(companion) as hashed:
        assert LogExplainer.of(hashed)._loud(b"\n" * 9 + b"a01234567" + b"\n" * 9) == [9]
    assert not LogExplainer.of(opened()[0])._loud(b"\n" * 9 + b"a01234567" + b"\n" * 9)


def test_quiet_lines_tell_where_a_log_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer, numbers = explainer_of(fleet()), list[int]()
    monkeypatch.setattr(explainer.answers, "saw", lambda _, number: numbers.append(number))
    for _ in range(2):
        assert b"".join(explainer.explain([b"\n" * 99])) == b"\n" * 99
    assert numbers == [1, 1]


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


@given(
    st.sampled_from(PRINTED)
    | st.one_of([st.from_regex(way.pattern, fullmatch=True) for ways in OTHER_WORDS for way in ways]),
    st.binary(max_size=9),
)
def test_a_mark_is_found_in_each_of_its_encodings(mark: bytes, around: bytes) -> None:
    assert has_failure(around + mark + around)


def test_each_mark_is_of_a_kind() -> None:
    assert {kind.mark for kind in FAILURE_KINDS} == {*MARKS}


ACCEPTED = {
    begins: [cast("Any", begins).__self__.pattern]
    for begins in (kind.begins for kind in FAILURE_KINDS)
    if begins not in (named_line, refusal_in)
} | {
    refusal_in: [rb".*ExecuTorch: " + REFUSED.pattern.removeprefix(rb"(?P<prefix>.*?)")],
    named_line: [
        rb".*aoti_torch_" + CALLED.pattern + CALL_FAILED + LINE_OF_CALL.pattern,
        rb".*" + KERNEL_FAILED + LINE_OF_KERNEL.pattern,
        rb".*" + ROW.pattern.removeprefix(rb"(?:\A| )") + rb".*",
    ],
}
"""The texts that each row of ``FAILURE_KINDS`` may accept, by what finds its beginning."""


@settings(deadline=None, max_examples=examples(300))
@given(st.data())
def test_each_line_in_which_a_failure_begins_has_a_mark(data: st.DataObject) -> None:
    begins = data.draw(st.sampled_from([kind.begins for kind in FAILURE_KINDS]))
    pattern = data.draw(st.sampled_from(ACCEPTED[begins]))
    text = data.draw(st.from_regex(re.compile(pattern), fullmatch=True))
    assert not begins(text) or has_failure(text)


def test_each_pattern_of_a_beginning_has_texts_that_begin_a_failure() -> None:
    for begins, patterns in ACCEPTED.items():
        for pattern in patterns:
            texts = st.from_regex(re.compile(pattern), fullmatch=True)
            assert begins(find(texts, begins, settings=settings(phases=[Phase.generate])))


@pytest.mark.parametrize(
    ("function", "count"), [(b"cpp_fused_add_0", 1), (b"run_impl", 0), (b"_import_run_func_", 0)]
)
def test_only_kernels_of_aotinductor_begin_a_failure(function: bytes, count: int) -> None:
    line = b"Exception raised from %b at /tmp/c.wrapper.cpp:120 (most recent call first):" % function
    assert (named_line(line) is not None) == has_failure(line) == bool(count)


@pytest.mark.parametrize(
    "text", [b"Traceback%2C of", b"Debug+mode", b"84,114,97", b"68, 101 ms", b"Traceback (most"]
)
def test_what_begins_as_an_encoded_mark_does_is_none(text: bytes) -> None:
    assert not has_failure(text)
