"""Servers log JSON, a line a record: failures are explained inside of the strings, all else stays."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archive
from archive.failures.explainer import LogExplainer
from archive.failures.log.strings import explained_strings
from tests.support.reports import Report, case
from tests.support.strategies import patient

REPORTS = [case("plain_unicode"), case("plain_free_functions.jit"), case("lowered_shape")]


def explained(log: bytes, path: object) -> tuple[bytes, LogExplainer]:
    explainer = LogExplainer.of(archive.open(path))  # type: ignore[arg-type]
    return b"".join(explainer.explain([log])), explainer


@pytest.mark.parametrize("is_ascii", [True, False])
@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.path.name)
def test_a_failure_in_a_string_is_explained_there(report: Report, is_ascii: bool) -> None:  # noqa: FBT001

    def line(text: bytes) -> bytes:
        record = {"größe": [1, {"msg": f"läuft: {text.decode()}"}], "n": 1.50, "e": "\\"}
        return json.dumps(record, ensure_ascii=is_ascii, indent=None).encode() + b"\r\n"

    text, explainer = explained(b"a\n" + line(report.stripped) + b"b\n", report.path)
    assert text == b"a\n" + line(report.full) + b"b\n"
    assert (explainer.explained, explainer.unknown) == (1, 0)


def test_json_in_a_string_of_json_is_looked_into() -> None:
    path, stripped, full = REPORTS[1]
    log, expected = (
        json.dumps({"log": json.dumps({"msg": text.decode()}), "stream": "stderr"}).encode() + b"\n"
        for text in (stripped, full)
    )
    assert explained(log, path)[0] == expected


def test_notes_name_the_line_of_the_log() -> None:
    text = "a\nb\nDebug info for handle(s): debug_handles:{9001}, was not found.\n"
    log = b"one\n" + json.dumps({"msg": text}).encode() + b"\n"
    printed, explainer = explained(log, REPORTS[0].path)
    assert printed == log
    assert explainer.notes == ["line 2: handles {9001}: not in this archive"]


@pytest.mark.parametrize(
    "line",
    [
        b'{"msg": "Debug info for handle(s): debug_handles:{1494}, was not found."\n',
        b'{"msg": "Debug info for handle(s): debug_handles:{1494}, was not found.\\q"}\n',
        b'{"msg": Debug info for handle(s): debug_handles:{1494}, was not found.}\n',
        b"{" * 5_000 + b"Debug info for handle(s)" + b"}" * 5_000 + b"\n",
    ],
)
def test_what_only_looks_like_json_stays_or_is_a_line_like_others(line: bytes) -> None:
    text, explainer = explained(line, REPORTS[0].path)
    assert explainer.explained + explainer.unknown <= 1
    assert text == line or b"Module hierarchy" in text


def test_a_line_of_source_that_is_no_utf_8_is_replaced_for_json_has_no_form_of_it() -> None:
    line = b'{"m": "Debug info for handle", "n": 1.50}'
    assert explained_strings(line, lambda *_: b"\xff\n\xc3\xa4") == b'{"m": "\\ufffd\\n\\u00e4", "n": 1.50}'


@patient
@given(st.dictionaries(st.text(), st.text() | st.integers() | st.floats(allow_nan=False)), st.booleans())
def test_other_strings_stay_to_the_byte(record: dict[str, object], is_ascii: bool) -> None:  # noqa: FBT001
    marked = {**record, "Debug info for handle": "Traceback of TorchScript"}
    line = json.dumps(marked, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass") + b"\n"
    explainer = LogExplainer.of(archive.open(REPORTS[0].path))
    assert b"".join(explainer.explain([line])) == line


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("2026-03-01T10:00:00.5Z stderr F {", "}"),
        ("", ","),
        ("[{", "}]"),
        ("  ", ","),
        ("Jan  1 host app[3]: level=error ", " at=4"),
    ],
)
def test_strings_are_looked_into_wherever_they_stand_in_a_line(before: str, behind: str) -> None:
    path, stripped, full = REPORTS[1]
    key = "msg=" if "=" in before else '"msg": '
    log, expected = (
        f"{before}{key}{json.dumps(text.decode())}{behind}\n".encode() for text in (stripped, full)
    )
    assert explained(log, path)[0] == expected


@pytest.mark.parametrize("template", ['cut": "x", "msg": "{}', '{{"msg": "{}\\q"}}'])
def test_a_failure_with_escaped_newlines_in_no_string_is_left_and_told(template: str) -> None:
    message = "a\\n  \\n  Debug info for handle(s): debug_handles:{1494}, was not found.\\n  "
    line = template.format(message).encode()
    text, explainer = explained(line, REPORTS[0].path)
    assert text == line
    assert (explainer.explained, explainer.unknown) == (0, 1)
    assert explainer.notes == [
        "line 1: a failure with escaped newlines, in no string of JSON that can be read"
    ]


def test_half_a_surrogate_pair_stays_an_escape() -> None:
    path, stripped, full = REPORTS[1]
    log, expected = (
        json.dumps({"msg": f"\ud800 é {text.decode()}"}, ensure_ascii=False).encode(
            "utf-8", "backslashreplace"
        )
        for text in (stripped, full)
    )
    assert explained(log, path)[0] == expected


def test_strings_that_are_never_closed_are_read_once() -> None:
    line = b'Debug info for handle "' + b'\\"' * 100_000 + b"\\"
    assert explained(line, REPORTS[0].path)[0] == line


def test_the_message_of_a_failure_may_stand_in_the_records_above() -> None:
    path, stripped, _ = case("plain_stack")
    message, rest = stripped.decode().split("\n", 1)

    def records(message: str) -> bytes:
        lines = f"{message}\n{rest}".splitlines(keepends=True)
        texts = [{"log": line, "stream": "stderr", "time": f"1{n}"} for n, line in enumerate(lines)]
        return b"".join(json.dumps(text).encode() + b"\n" for text in texts)

    other = "start out of range (expected to be in range of [-4, 4], but got 9)"
    text, explainer = explained(records(other), path)
    assert text == records(other)
    assert "does not print" in explainer.notes[0]
    assert explained(records(message), path)[1].explained == 1


def test_a_traceback_of_many_records_is_explained_in_records() -> None:
    path, *texts = REPORTS[1]
    log, full = (
        b"".join(json.dumps({"log": f"{line}\n"}).encode() + b"\n" for line in text.decode().split("\n"))
        for text in texts
    )
    text, explainer = explained(log, path)
    assert text == full
    assert (explainer.explained, explainer.unknown) == (1, 0)
