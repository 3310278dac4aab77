"""One kind of error: its place is filled in from the inside out, and the message tells it in that order."""

from __future__ import annotations

import errno
import pickle
from pathlib import Path

import pytest

from archive.base.errors import (
    ArchiveError,
    ExhaustedError,
    LimitError,
    counted,
    in_file,
    named,
    one_line,
    shown,
)


def test_the_message_is_file_record_place_expected_and_found() -> None:
    error = ArchiveError(file="m.ptl", record="version", place="byte 0", expected="a digit", found="'x'")
    assert str(error) == "m.ptl: version, byte 0: expected a digit, found 'x'"


def test_an_outer_place_is_filled_in() -> None:
    error = ArchiveError("broken").within(place="row 1").within(record="data.pkl").within(file="m.ptl")
    assert str(error) == "m.ptl: data.pkl, row 1: broken"


def test_the_innermost_place_stays() -> None:
    error = ArchiveError("broken", file="in.ptl", record="data.pkl", place="row 1")
    assert error.within(file="out.ptl", record="version", place="byte 0") is error
    assert (error.file, error.record, error.place) == ("in.ptl", "data.pkl", "row 1")


def test_a_message_may_lack_its_problem_or_what_was_found() -> None:
    assert str(ArchiveError("a row too few", expected="3")) == "a row too few: expected 3"
    assert str(ArchiveError(expected="3 rows", found="2")) == "expected 3 rows, found 2"


def test_unprintable_characters_of_foreign_names_are_escaped() -> None:
    error = ArchiveError("broken", file="m\n.pt", record="\x1b[2J", place="\udcff")
    assert str(error) == r"m\n.pt: \x1b[2J, \xff: broken"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain, ümlaut", "plain, ümlaut"),
        ("a\nb\tc", r"a\nb\tc"),
        ("\udc80\udcff", r"\x80\xff"),
        ("\udc7f\ud800\udd00", r"\udc7f\ud800\udd00"),
        ("\u202e\x9b", r"\u202e\x9b"),
    ],
)
def test_a_line_holds_no_character_that_a_terminal_obeys(text: str, line: str) -> None:
    assert one_line(text) == line
    assert line.isprintable()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("abc", "'abc'"),
        (7, "7"),
        (b"\xff", r"b'\xff'"),
        ("a\udcffb", r"'a\xffb'"),
        ("\\udcff\n", r"'\\udcff\n'"),
        ("x" * 58, f"'{'x' * 58}'"),
        ("x" * 59, f"'{'x' * 58}…"),
    ],
)
def test_a_foreign_value_is_shown_short_and_printable(value: object, text: str) -> None:
    assert shown(value) == text
    assert len(text) <= 60


def test_a_number_stands_with_its_noun() -> None:
    assert [counted(n, "file") for n in (0, 1, 2, 1000)] == ["0 files", "1 file", "2 files", "1,000 files"]


@pytest.mark.parametrize(
    "error",
    [
        ArchiveError("broken", file="m.pt"),
        LimitError("work", 1, 2, what="steps", record="data.pkl"),
        ExhaustedError("memory", "there is none"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_pass_from_one_process_to_another(error: ArchiveError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 (its own)
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


# --- errors of others


def test_an_error_of_the_system_names_the_file_that_was_asked_for() -> None:
    with pytest.raises(FileNotFoundError) as raised, named(Path("target")):
        raise OSError(errno.ENOENT, "No such file", "draft")
    assert (raised.value.filename, raised.value.errno, raised.value.strerror) == (
        "target",
        errno.ENOENT,
        "No such file",
    )
    with pytest.raises(OSError, match="of no system") as other, named("target"):
        raise OSError("of no system")
    assert other.value.filename is None


def test_an_error_inside_of_a_file_names_the_file_and_the_record() -> None:
    cause = ValueError("a")
    with pytest.raises(ArchiveError) as raised, in_file("m.pt", "version"):
        raise ArchiveError("broken", place="byte 7") from cause
    assert str(raised.value) == "m.pt: version, byte 7: broken"
    assert raised.value.__cause__ is cause


@pytest.mark.parametrize("problem", [MemoryError(), RecursionError()])
def test_memory_and_stack_that_end_inside_of_a_file_do_too(problem: Exception) -> None:
    with pytest.raises(ExhaustedError) as raised, in_file("m.pt", "data.pkl"):
        raise problem
    assert (raised.value.file, raised.value.record) == ("m.pt", "data.pkl")
    assert raised.value.__cause__ is problem
    assert problem.__traceback__ is None
