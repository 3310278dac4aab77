"""One kind of error: its place is filled in from the inside out, and the message tells it in that order."""

from __future__ import annotations

from archive.base.errors import ArchiveError


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
