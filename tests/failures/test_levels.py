"""A level before each line, wherever it stands there, changes nothing of what is explained."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from archive.failures.log.forms import shape_of
from archive.failures.messages import known_message
from tests.support.exported import EXPORTED
from tests.support.reports import case, explained

if TYPE_CHECKING:
    from pathlib import Path

LEVELS = (
    *("TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING"),
    *("ERR", "ERROR", "CRIT", "CRITICAL", "FATAL"),
)
PLACES = (
    *(
        "{level} ",
        "{level:<8} ",
        "{level:<10}",
        "{level:>8} ",
        "{level}: ",
        "[{level}] ",
        "{level} - ",
        "{level}\t",
    ),
    *("svc[11] {level} ", "svc[11]: {level:<8} ", "[11] {level}: "),
    *("{level} svc[11] ", "{level:<8} svc[11]: "),
    *("2026-03-01 10:00:{at:02},{at:03} {level} ", "2026-03-01 10:00:{at:02} {level:<8} app: "),
    *("Feb  3 10:00:{at:02} host svc[11]: {level} ", "{level} 2026-03-01T10:00:{at:02}Z "),
    "2026-03-01 10:00:{at:02} | {level:<8} | ",
)


class Failing(NamedTuple):
    """A log with one failure, and the file that explains it."""

    log: bytes
    path: Path


FAILING = {
    **{
        name: Failing(case(name).stripped, case(name).path)
        for name in ("plain_unicode.jit", "traced_stack.jit")
    },
    **{name: Failing(case(name).stripped, case(name).path) for name in ("plain_unicode", "lowered_shape")},
    **{
        kind: Failing((EXPORTED / f"own.{kind}.txt").read_bytes(), EXPORTED / "own.pt2")
        for kind in ("module", "interpreter.stripped")
    },
}


def prefixes(place: str, level: str, count: int) -> list[str]:
    return [place.format(level=level, at=at % 60) for at in range(count)]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", FAILING)
def test_each_level_at_each_place_leaves_the_explanation(name: str, place: str) -> None:
    failing = FAILING[name]
    plain = explained(failing.log, failing.path)
    assert plain.explained == 1
    texts, expected = (log.decode().removesuffix("\n").split("\n") for log in (failing.log, plain.text))
    for level in LEVELS:
        for is_stripped in (False, True):
            before = prefixes(place, level, len(texts))
            lines = [f"{one}{text}" for one, text in zip(before, texts, strict=True)]
            lines = [line.rstrip() if is_stripped else line for line in lines]
            text, *counts = explained("".join(f"{line}\n" for line in lines).encode(), failing.path)
            assert counts == [1, 0, plain.notes], (level, is_stripped)
            found = text.decode().removesuffix("\n").split("\n")
            width = len(before[0])
            assert [line[width:].rstrip() for line in found] == [one.rstrip() for one in expected], level
            assert all(line[:width].rstrip() in {one.rstrip() for one in before} for line in found), level


@pytest.mark.parametrize("name", ["plain_unicode.jit", "plain_unicode"])
def test_a_level_before_the_first_line_alone_leaves_the_explanation(name: str) -> None:
    failing = FAILING[name]
    plain = explained(failing.log, failing.path)
    for level in LEVELS:
        for place in PLACES:
            (prefix,) = prefixes(place, level, 1)
            text, *counts = explained(prefix.encode() + failing.log, failing.path)
            assert (text, counts) == (prefix.encode() + plain.text, [1, 0, plain.notes]), prefix


def test_blanks_after_a_level_that_do_not_fill_its_column_are_the_texts() -> None:
    for first, second in (
        ("ERROR ", "ERROR "),
        ("ERROR ", "INFO "),
        ("ERROR    ", "INFO     "),
        ("INFO  ", "ERROR "),
    ):
        for indented in ("text", "  text", "       text"):
            line = f"{second}{indented}".encode()
            assert shape_of(first.encode()).end(line) == len(second)
    assert shape_of(b"INFO  ").end(b"CRITICAL text") == len("CRITICAL ")
    assert shape_of(b"ERROR    ").end(b"ERROR  text") == -1


@pytest.mark.parametrize("level", LEVELS)
def test_a_message_after_a_level_is_known(level: str) -> None:
    message = "index out of range in self"
    for line in (f"{level} {message}", f"svc {level} {message}", f"10:00:00 {level:<8} {message}"):
        assert known_message(line) == message


@pytest.mark.parametrize("name", FAILING)
def test_lines_of_another_process_may_stand_between_those_of_a_level(name: str) -> None:
    failing = FAILING[name]
    plain = explained(failing.log, failing.path)
    own, other = "2026-02-03T00:24:27.019Z svc[12] ERROR ", "2026-02-03T00:24:27.5Z svc[77] INFO health ok\n"
    texts, expected = (log.decode().removesuffix("\n").split("\n") for log in (failing.log, plain.text))
    log = "".join(f"{own}{text}\n{other}" for text in texts)
    text, *counts = explained(log.encode(), failing.path)
    assert counts[:2] == [1, 0]
    found = [line for line in text.decode().splitlines() if f"{line}\n" != other]
    assert [line.removeprefix(own).rstrip() for line in found] == [line.rstrip() for line in expected]
