"""Lines that name a model: by an id as it is, or by a pattern, which has bounds."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from archive import ArchiveError
from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.failures.log.beginnings import Beginning
from archive.failures.log.lines import Lines
from archive.failures.log.log_line import LogLine
from archive.failures.log.python_tracebacks import lines_of_traceback
from archive.failures.models.naming import (
    MAX_PATTERN,
    MAX_SEARCHED,
    MAX_WRITTEN_OUT,
    MOST_SLOW,
    NEAR,
    Naming,
    Pattern,
)
from tests.failures.models.test_three_models import FAILURES, FLEET, of_one, open_models
from tests.support.corpus import ORACLES, RELEASES
from tests.support.cost import loops_below
from tests.support.reports import stream

if TYPE_CHECKING:
    from archive.failures.log.streams import LogStream
    from archive.failures.models.models import Model, Models
    from archive.reader.archive import Archive

MODELS = models_in([FLEET])
IDS = {model.file.rpartition("/")[2].removesuffix(".ptdbg"): sorted(model.facts.ids) for model in MODELS.all}

LINE = stream(b"a failure")
"""Any line may be of its process."""


def named(naming: Naming) -> list[str] | None:
    """The models that are named, by their files' names."""
    found = naming.named(LINE)
    return None if found is None else [model.file.rpartition("/")[2] for model in found.models]


def test_an_archive_id_holds_for_a_few_lines() -> None:
    naming = Naming(MODELS)
    archive_id = next(one for one in IDS["Ranker"] if len(one) == 32)
    naming.saw(b"trace 0123456789abcdef0123456789abcdef", 1)
    assert named(naming) is None
    naming.saw(f"[{archive_id}] failed".encode(), 2)
    for number in range(3, 3 + NEAR):
        naming.saw(b"other", number)
        assert named(naming) == ["Ranker.ptdbg"]
    naming.saw(b"other", 3 + NEAR)
    assert named(naming) is None


def test_an_archive_id_holds_as_long_above_a_python_traceback() -> None:
    """`logging.exception` writes the frames between its own line and the failure."""
    archive_id = next(one for one in IDS["Ranker"] if len(one) == 32)
    frames = b'  File "serve.py", line 3, in <module>\n    net(x)\n    ^^^^^^\n' * 5
    explained = []
    for other in range(2 * NEAR):
        naming = Naming(MODELS)
        lines = [archive_id.encode(), *[b"other"] * other, b"Traceback (most recent call last):"]
        lines += frames.splitlines()
        for number, line in enumerate(lines, 1):
            naming.saw(line, number)
        naming.saw(b"failed", 1 + len(lines))
        explained.append(naming.named(LINE, lines_of_traceback(reversed(lines))) is not None)
    assert explained == [True] * NEAR + [False] * NEAR


def test_what_a_pattern_finds_holds_until_it_finds_something_else() -> None:
    naming = Naming(MODELS, names=r"model=(\w+)")
    assert named(naming) is None
    naming.saw(b"model=Encoder", 1)
    naming.saw(b"x", 1_000)
    assert named(naming) == ["Encoder.ptdbg"]
    naming.saw(b"model=Stranger", 1_001)
    assert named(naming) == []
    assert str(naming.named(LINE)) == "line 1001 names 'Stranger'"


def test_a_pattern_that_no_line_matches_is_named() -> None:
    naming = Naming(MODELS, ids="run ([0-9a-f]{32})", names=r"model=(\w+)")
    naming.saw(b"model=Stranger", 1)
    naming.saw(b"run 12", 2)
    why = "no line of the log has what 'run ([0-9a-f]{32})' looks for, so it names no model"
    assert naming.notes == [why]
    naming.saw(b"run 0123456789abcdef0123456789abcdef", 3)
    assert naming.notes == []
    assert Naming(MODELS).notes == []


def test_what_both_patterns_find_in_a_line_is_of_one_model() -> None:
    naming = Naming(MODELS, ids=r"id=(\w+)", names=r"model=(\w+)")
    naming.saw(f"model=Encoder id={id_of('Encoder')}".encode(), 1)
    assert named(naming) == ["Encoder.ptdbg"]
    assert naming.notes == []  # both have found something
    naming.saw(f"model=Encoder id={id_of('Ranker')}".encode(), 2)
    assert named(naming) == []
    for stranger in (f"model=Stranger id={id_of('Ranker')}", f"model=Encoder id={'0' * 32}"):
        naming.saw(stranger.encode(), 3)
        assert named(naming) == []


@pytest.mark.parametrize("where", ["in its line", "below"])
def test_an_archive_id_contradicts_what_a_pattern_found_above(where: str) -> None:
    """Two versions of a model may explain a failure differently: one of the two proofs is wrong."""
    for name, models in (("Encoder", ["Encoder.ptdbg"]), ("Ranker", [])):
        naming = Naming(MODELS, names=r"model=(\w+)")
        between = " " if where == "in its line" else "\n"
        lines = f"model=Encoder{between}[{id_of(name)}] failed".encode().splitlines()
        for number, line in enumerate(lines, 1):
            naming.saw(line, number)
        assert named(naming) == models
    contradicted = naming.named(LINE)
    assert contradicted is not None
    assert str(contradicted) == "line 1 names 'Encoder'"
    why = f"line {len(lines)} names {id_of('Ranker')!r}, and no model is both"
    assert contradicted.why_none(3) == why


def test_an_archive_id_above_what_a_pattern_found_does_not_count() -> None:
    naming = Naming(MODELS, names=r"model=(\w+)")
    naming.saw(f"[{id_of('Ranker')}] was unloaded".encode(), 1)
    naming.saw(b"model=Encoder", 2)
    assert named(naming) == ["Encoder.ptdbg"]


def test_an_archive_id_may_be_as_short_as_tables_show_it() -> None:
    archive_id = next(one for one in IDS["Ranker"] if len(one) == 32)
    for digits, models in ((32, ["Ranker.ptdbg"]), (12, ["Ranker.ptdbg"]), (8, ["Ranker.ptdbg"]), (7, [])):
        naming = Naming(MODELS, ids=r"id=(\w+)")
        naming.saw(f"id={archive_id[:digits]}".encode(), 1)
        assert named(naming) == models


@pytest.mark.parametrize("name", ["Ranker", "Encoder", "Detector"])
def test_ids_are_archive_ids_and_prefixes(name: str) -> None:
    for one in IDS[name]:
        naming = Naming(MODELS, ids=r"id=\w+|(?<=id:)\w+")
        naming.saw(f"id:{one}".encode(), 1)
        assert named(naming) == [f"{name}.ptdbg"]


def test_archives_have_a_serialization_id_and_are_called_by_file_or_class() -> None:
    models = models_in([ORACLES / "plain_unicode.ptl", RELEASES / "torch-2.13.0" / "nested.pt"])
    unicode, nested = models.all
    assert any(len(one) == 40 and one.isdigit() for one in unicode.facts.ids)
    assert {"plain_unicode", "plain_unicode.ptl", "Unicode"} <= unicode.names
    assert "nested.pt" in nested.names
    assert models.by_name["plain_unicode"] == [unicode]
    assert not models.by_prefix


def test_several_models_of_one_class_are_all_meant() -> None:
    models = models_in([RELEASES / f"torch-{release}" / "nested.pt" for release in ("2.4.1", "2.13.0")])
    naming = Naming(models, names=r"run (\w+)")
    naming.saw(b"run nested", 1)
    assert named(naming) == ["nested.pt", "nested.pt"]


@pytest.mark.parametrize("between", [" ", "\n"])
def test_an_archive_id_says_which_of_several_models_of_a_name_is_meant(between: str) -> None:
    models = models_in([RELEASES / f"torch-{release}" / "nested.pt" for release in ("1.6.0", "1.10.0")])
    old, new = models.all
    assert old.facts.archive_id != new.facts.archive_id
    naming = Naming(models, names=r"run (\w+)")
    for number, line in enumerate(f"run nested{between}[{new.facts.archive_id}]".encode().splitlines(), 1):
        naming.saw(line, number)
    found = naming.named(LINE)
    assert found is not None
    assert [*found.models] == [new]


def test_only_the_start_of_a_line_is_searched() -> None:
    for before, names in ((MAX_SEARCHED - len("id=Ranker"), ["Ranker.ptdbg"]), (MAX_SEARCHED, None)):
        naming = Naming(MODELS, names=r"id=(\w+)")
        naming.saw(b" " * before + b"id=Ranker", 1)
        assert named(naming) == names


def test_unique_handles_name_their_model_whatever_a_line_names() -> None:
    explainer = explainer_of(MODELS, names=r"running (\w+)")
    one = next(one for one in FAILURES if one.model == "Ranker")
    log = f"running Encoder\n{one.unique}"
    assert of_one(explainer, log) == f"running Encoder\n{one.explained}"
    assert of_one(explainer, f"running Encoder\n{one.plain}") != f"running Encoder\n{one.explained}"


def test_a_companion_is_for_one_archive() -> None:
    with pytest.raises(ArchiveError, match="a companion is for one archive"):
        models_in([FLEET], companion=FLEET / "Ranker.ptdbg")


def used(models: Models, model: Model) -> Archive:
    """The archive of a model, which is used for a moment."""
    with models.using(model, models, lambda opened: opened) as opened:
        return opened


def test_models_used_last_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archive.failures.models.models.MOST_OPEN", 2)
    models = models_in([FLEET])
    opened = [used(models, model) for model in models.all]
    assert open_models(models) == models.all[1:]
    assert used(models, models.all[2]) is opened[2]
    assert used(models, models.all[0]) is not opened[0]
    models.close()
    assert open_models(models) == []
    assert repr(models.all[0]).startswith("<Model ")


def test_models_stay_open_as_far_as_what_was_read_of_them_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures that many models may have ask each in turn: one that was closed would be opened each time."""

    def read(opened: Archive) -> int:
        assert opened.range_table is not None
        return opened.allowance.taken

    models = models_in([FLEET])
    taken = []
    for model in models.all:
        with models.using(model, read, read) as size:
            taken.append(size)
    models.close()
    assert min(taken) > 1000
    for most, kept in ((sum(taken), 3), (sum(taken) - 1, 2), (taken[-1], 1), (0, 0)):
        monkeypatch.setattr("archive.failures.models.models.BYTES_OPEN", most)
        for model in models.all:
            with models.using(model, read, read):
                pass
        assert open_models(models) == list(models.all)[3 - kept :]
        models.close()


@pytest.mark.parametrize("pattern", ["(", "a{99999999999999999999}", "(?u)a", "(?P<x>a)(?(2)b|c)"])
def test_a_pattern_that_is_no_regular_expression_is_refused(pattern: str) -> None:
    with pytest.raises(ArchiveError, match=r"isn't a regular expression|is too large"):
        Naming(MODELS, ids=pattern)


@pytest.mark.parametrize("pattern", [r"model=(\w+)?", r"model=(\w*)", r"\w*$"])
def test_a_line_in_which_a_pattern_finds_no_text_names_none(pattern: str) -> None:
    naming = Naming(MODELS, names=pattern)
    naming.saw(b"model=", 1)
    assert naming.named(LINE) is None


def test_archive_ids_near_one_another_are_all_meant_until_a_failure() -> None:
    naming = Naming(MODELS)
    ranker, encoder, detector = (
        next(one for one in IDS[name] if len(one) == 32) for name in ("Ranker", "Encoder", "Detector")
    )
    naming.saw(f"serving {ranker} and {encoder}".encode(), 1)
    assert named(naming) == ["Ranker.ptdbg", "Encoder.ptdbg"]
    naming.saw(encoder.encode(), 3)
    assert named(naming) == ["Ranker.ptdbg", "Encoder.ptdbg"]
    naming.saw(b"Debug info for handle(s): debug_handles:{8}, was not found.", 4, is_failing=True)
    assert named(naming) == ["Ranker.ptdbg", "Encoder.ptdbg"]
    naming.saw(detector.encode(), 5)
    assert named(naming) == ["Detector.ptdbg"]


def test_a_line_that_is_too_long_to_be_searched_may_name_another_model() -> None:
    naming = Naming(MODELS, names=r"model=(\w+)")
    naming.saw(b"model=Encoder", 1)
    naming.saw(b"x" * 20_000 + b" model=Ranker", 2)
    assert named(naming) is None


def spoken(process: int, text: str, *, at: int = 1) -> bytes:
    """A line of one of several processes."""
    return f"2026-03-01T10:00:0{at}.5Z INFO [{process}] {text}".encode()


def failing(process: int) -> LogStream:
    """The stream of a failure of that process."""
    prefix = spoken(process, "").replace(b"INFO", b"ERROR")
    beginning = Beginning.in_line(LogLine(prefix + b"Debug info", 9), Lines([]))
    assert beginning is not None
    return beginning.stream(prefix)


def of(naming: Naming, stream: LogStream) -> list[str] | None:
    found = naming.named(stream)
    return None if found is None else [Path(model.file).stem for model in found.models]


def test_a_line_of_the_failures_own_process_names_its_model_before_those_of_others() -> None:
    naming = Naming(MODELS, names=r"running (\w+)")
    naming.saw(spoken(1, "running Ranker"), 1)
    naming.saw(spoken(2, "running Encoder", at=2), 2)
    assert (of(naming, failing(1)), of(naming, failing(2))) == (["Ranker"], ["Encoder"])
    naming.saw(spoken(2, "running Detector", at=3), 3)
    assert (of(naming, failing(1)), of(naming, failing(2))) == (["Ranker"], ["Detector"])


def test_of_a_process_that_named_none_all_that_others_name_last_are_possible() -> None:
    naming = Naming(MODELS, names=r"running (\w+)")
    for process, name in ((1, "Detector"), (1, "Ranker"), (2, "Encoder")):
        naming.saw(spoken(process, f"running {name}"), process)
    assert of(naming, failing(3)) == ["Ranker", "Encoder"]


def test_a_later_line_of_another_logger_may_be_meant_too() -> None:
    naming = Naming(MODELS, names=r"running (\w+)")
    naming.saw(spoken(1, "running Ranker"), 1)
    naming.saw(b"app: running Encoder", 2)
    assert of(naming, failing(1)) == ["Ranker", "Encoder"]
    assert of(naming, failing(3)) == ["Encoder"]
    naming.saw(spoken(1, "running Ranker"), 3)
    assert of(naming, failing(1)) == ["Ranker"]
    naming.saw(b"app: running Stranger", 4)
    assert of(naming, failing(1)) == []


def test_an_archive_id_near_the_failure_is_not_another_processs() -> None:
    naming = Naming(MODELS)
    ranker, encoder = (next(one for one in IDS[name] if len(one) == 32) for name in ("Ranker", "Encoder"))
    naming.saw(spoken(1, ranker), 1)
    naming.saw(spoken(2, encoder), 2)
    assert (of(naming, failing(1)), of(naming, failing(2))) == (["Ranker"], ["Encoder"])
    assert of(naming, failing(3)) is None
    assert of(naming, LINE) == ["Ranker", "Encoder"]


FAILED = b'{"msg": "Debug info for handle(s): debug_handles:{8}, was not found."}'


def id_of(name: str) -> str:
    return next(one for one in IDS[name] if len(one) == 32)


def test_an_archive_id_names_no_model_of_a_second_failure() -> None:
    naming = Naming(MODELS)
    naming.saw(f"loaded {id_of('Ranker')}".encode(), 1)
    naming.saw(FAILED, 2, is_failing=True)
    assert named(naming) == ["Ranker.ptdbg"]
    naming.saw(FAILED, 3, is_failing=True)
    assert named(naming) is None


def test_an_archive_id_counts_wherever_it_stands_in_a_line() -> None:
    naming = Naming(MODELS)
    naming.saw(id_of("Ranker").encode(), 1)
    naming.saw(b" " * MAX_SEARCHED + id_of("Encoder").encode(), 2)
    assert named(naming) == ["Ranker.ptdbg", "Encoder.ptdbg"]


WORDS = [
    *(one.encode() for ids in IDS.values() for one in ids),
    *(b"0123456789abcdef" * 2, b"AB" * 16, b"ab" * 32, b"e", b"A", b" ", b"-", b"x", b"\n", b"\xff", b"\0"),
]


@given(st.lists(st.sampled_from(WORDS)).map(b"".join))
def test_ids_are_whole_words_of_hexadecimal_digits(lines: bytes) -> None:
    words = re.findall(rb"(?<![0-9a-fA-F])[0-9a-f]{32}(?![0-9a-fA-F])", lines)
    known = [word for word in words if word.decode() in MODELS.by_id]
    found = MODELS.known_ids.places_in(lines)
    assert [word for _, word in found] == known
    assert [lines[place : place + 32] for place in Naming(MODELS).naming_in(lines)] == known


@pytest.mark.parametrize("names", [None, r"model=(\w+)"])
def test_lines_of_one_log_name_no_model_of_another(names: str | None) -> None:
    naming = Naming(MODELS, names=names)
    naming.saw(f"model=Ranker {id_of('Ranker')}".encode(), 2)
    assert named(naming) == ["Ranker.ptdbg"]
    naming.saw(b"another log", 1)
    assert named(naming) is None


HOSTILE = {
    r"(a|a)*$": b"a" * 16_000 + b"b",
    r"(\w+\s?)*$": b"a" * 16_000 + b"!",
    r".*a.*b.*c.*d": b"ab" * 8_000,
    r"(x+x+)+y": b"x" * 16_000,
}


def test_the_first_group_is_found_or_all_of_it() -> None:
    assert Pattern(r"running (\w+)").found_in(b"INFO running Ranker now", 1) == (b"Ranker", b" now")
    assert Pattern(r"(?<=running )\w+").found_in(b"INFO running Ranker now", 1) == (b"Ranker", b" now")
    assert Pattern(r"running (\w+)").found_in(b"INFO", 1) is None


@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_search_ends_within_bounds_whatever_the_line(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_SLOW <= 2
    monkeypatch.setattr("archive.failures.models.naming.MOST_SLOW", 0.1)
    with (
        loops_below(500),
        pytest.raises(ArchiveError, match=r"line 7: the pattern '.*' takes too long: .*name what stands"),
    ):
        Pattern(pattern).found_in(HOSTILE[pattern], 7)


def test_searches_that_are_each_slow_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count(step=0.125)  # between two looks
    monkeypatch.setattr("archive.failures.models.naming.thread_time", lambda: next(clock))
    pattern, found = Pattern(r"(a|a)*$"), list[object]()
    with pytest.raises(ArchiveError, match=r"line 15: the pattern .* takes too long"):
        found.extend(pattern.found_in(b"a" * 10 + b"b", number) for number in range(10_000))
    assert len(found) == MOST_SLOW / 0.125 - 1


def test_a_long_pattern_is_refused() -> None:
    assert Pattern("a" * MAX_PATTERN).found_in(b"a", 1) is None
    with pytest.raises(ArchiveError, match="a pattern of 1,001 characters; at most 1,000 are allowed"):
        Pattern("a" * (MAX_PATTERN + 1))


NESTED = st.recursive(
    st.tuples(st.sampled_from(["a", r"\w", "[(]", r"\)", ".*", "[^)]+", "(?#)a", "a|b"]), st.just(1)),
    lambda inner: (
        st.builds(
            lambda one, opening, count, closing: (f"{opening}{one[0]}{closing % count}", one[1] * count),
            inner,
            st.sampled_from(["(", "(?:", "(?=", "(?>", "(?<n>"]),
            st.integers(1, 999),
            st.sampled_from(["){%d}", "){0,%d}", "){%d,}+", "){%d}?", ")(?#){%d}"]),
        )
        | st.builds(lambda one, other: (one[0] + other[0], one[1] + other[1]), inner, inner)
    ),
    max_leaves=6,
)
"""Patterns with the number of their steps when counts are written out, or fewer."""


@given(NESTED)
def test_a_pattern_that_counts_make_too_large_is_never_compiled(
    made: tuple[str, int],
) -> None:
    pattern, steps = made
    with mock.patch("regex.compile", side_effect=regex.error("compiled", pattern)) as compiled:
        with pytest.raises(ArchiveError):
            Pattern(pattern)
        assert not compiled.called or steps <= MAX_WRITTEN_OUT


@pytest.mark.parametrize(
    "pattern",
    [
        "((((a{999}){999}){999}){999})",
        "a{99999999}",
        "(?:[ab]c){1,99999999}",
        "(?<=a{9999999})",
        r"\\(?R)?a",
        "(a)(?1){999}",
        "(?P<n>a)(?P >n)",
        "(?<n>a)(?&n)",
        "(?:ab){e<=30}",
        "(?:ab){1<=e<=3,2i+1d<9}",
        "(?i-x:a)(?V1x) a { 9 9 9 9 9 9 }",
    ],
)
def test_what_has_no_bound_is_never_compiled(pattern: str) -> None:
    with mock.patch("regex.compile") as compiled, pytest.raises(ArchiveError, match=r"the pattern .* is "):
        Pattern(pattern)
    assert not compiled.called


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", b"01234567-0123-4567-89ab-0123456789ab"),
        (r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}[.,]\d{3,6}Z? \w{1,64}", b"2026-01-02T03:04:05,678 Ranker"),
        (r"id=\{(\w+)\}", b"id={7}"),
        (r"\(?RE\)?", b"(RE)"),
        (r"(?:\w{1,63}\.){1,10}\w+", b"a.b.c"),
    ],
)
def test_patterns_of_real_logs_are_taken(pattern: str, line: bytes) -> None:
    assert Pattern(pattern).found_in(line, 1) is not None


@pytest.mark.parametrize("name", ["Ranker", "Encoder", "9.9", ""])
def test_a_name_that_unique_handles_contradict_is_noted(name: str) -> None:
    failure = next(one for one in FAILURES if one.model == "Ranker")
    explainer = explainer_of(MODELS, names=r"release (\S+)")
    log = f"release {name}\n{failure.unique}" if name else failure.unique
    assert failure.explained in of_one(explainer, log)
    notes = [note for note in explainer.notes if "but the handles are unique" in note]
    assert len(notes) == (name in {"Encoder", "9.9"})
    assert all(f"line 1 names {name!r}" in note and "Ranker" in note for note in notes)
