"""Logs of redacted archives, in which PyTorch itself explained failures: the companion has the original."""

from __future__ import annotations

from contextlib import closing
from functools import cache, lru_cache
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING

import pytest

import archive
from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.failures.explainer import LogExplainer
from tests.support.canaries import CANARIES
from tests.support.corpus import ORACLES
from tests.support.exported import EXPORTED
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from pathlib import Path

LOWERED, SCRIPTED, STACK = CANARIES / "lowered.ptl", CANARIES / "scripted.ptl", ORACLES / "plain_stack.ptl"


OPTIONS: list[dict[str, str]] = [
    {"preset": "publish"},
    {"preset": "vendor"},
    {"text": "none", "paths": "none"},
    {"paths": "basename"},
]


@cache
def redacted(path: object, **options: str) -> tuple[bytes, bytes]:
    out, companion = BytesIO(), BytesIO()
    archive.redact(path, out, companion, **(options or OPTIONS[0]))  # type: ignore[arg-type]
    return out.getvalue(), companion.getvalue()


opened_once = lru_cache(64)(archive.open)


def explained(log: bytes, out: bytes, companion: bytes | None) -> tuple[bytes, LogExplainer]:
    explainer = LogExplainer.of(opened_once(out, companion=companion))
    return b"".join(explainer.explain(log.splitlines(keepends=True))), explainer


def printed(source: Path | bytes, handles: tuple[int, ...]) -> bytes:
    """What PyTorch prints of a failure of the lite interpreter."""
    return b"no such size\n  \n  " + bytes(opened_once(source).symbolicate(handles)) + b"\n  \n"


def last_operations(source: Path, count: int) -> list[int]:
    """The last handles that have frames with source."""
    opened = opened_once(source)
    backwards = sorted(opened.handles, reverse=True)
    return [*islice((one for one in backwards if "HERE" in str(opened.symbolicate((one,)))), count)][::-1]


@pytest.mark.parametrize("prefix", [b"", b"2026-11-22 12:00:00 E app: "])
@pytest.mark.parametrize("end", [b"", b" "], ids=["blanks", "blanks cut off"])
def test_redacted_frames_become_the_originals(prefix: bytes, end: bytes) -> None:
    out, companion = redacted(STACK)
    for handle in last_operations(STACK, 4):
        log, wanted = (
            b"".join(prefix + line for line in printed(one, (handle,)).splitlines(keepends=True))
            for one in (out, STACK)
        )
        log = b"".join(line.rstrip(end or b"\n") + b"\n" for line in log.splitlines())
        text, explainer = explained(log, out, companion)
        lines = [[line.rstrip() for line in one.splitlines()] for one in (text, wanted)]
        assert lines[0] == lines[1] or "may be of several places" in explainer.notes[0]
        assert explainer.explained + explainer.unknown == 1


def test_most_frames_stand_for_one_place() -> None:
    out, companion = redacted(STACK)
    handles = last_operations(STACK, 20)
    _, explainer = explained(b"".join(printed(out, (one,)) for one in handles), out, companion)
    assert explainer.explained >= 15
    assert explainer.explained + explainer.unknown == 20


def test_a_handle_in_a_delegated_module_is_found_inside_of_its_caller() -> None:
    out, companion = redacted(LOWERED)
    with archive.open(LOWERED) as opened:
        (state,) = opened.lowered.values()
        calls = [one for one in opened.handles if one not in state.handles]
        inner = min(state.handles)
        caller = next(one for one in calls if "execute(" in str(opened.symbolicate((one,))))
    text, explainer = explained(printed(out, (inner, caller)), out, companion)
    assert explainer.explained == 1
    assert text == printed(LOWERED, (inner, caller))


def test_what_is_not_redacted_passes_through() -> None:
    out, companion = redacted(STACK)
    handle = last_operations(STACK, 1)[0]
    for log, source, beside in (
        (printed(STACK, (handle,)), out, companion),  # it shows the original
        (printed(out, (handle,)), out, None),
    ):
        text, explainer = explained(log, source, beside)
        assert text == log
        assert (explainer.explained, explainer.unknown) == (0, 0)


def test_redacted_source_of_another_version_stays_and_is_told() -> None:
    out, companion = redacted(STACK)
    for old, new in ((b"line ", b"line 9"), (b'"plain.py"', b'"other.py"'), (b" \n", b"  \n")):
        log = printed(out, (last_operations(STACK, 1)[0],)).replace(old, new)
        text, explainer = explained(log, out, companion)
        assert text == log
        assert (explainer.explained, explainer.unknown) == (0, 1)
        assert "redacted source that no place of this model gives" in explainer.notes[0]


@pytest.mark.parametrize("choice", OPTIONS, ids=str)
def test_a_log_of_one_redaction_is_explained_by_another_one_the_companion_or_the_original(
    choice: dict[str, str],
) -> None:
    handle = last_operations(STACK, 1)[0]
    log, wanted = (printed(one, (handle,)) for one in (redacted(STACK, **choice)[0], STACK))
    assert log != wanted
    for other in OPTIONS:
        out, companion = redacted(STACK, **other)
        text, explainer = explained(log, out, companion)
        assert (text, explainer.explained) == (wanted, 1)
        assert any("another redaction" in note for note in explainer.notes) == (other != choice)
        text, explainer = explained(log, companion, None)
        assert (text, explainer.notes) == (wanted, [])
    assert explained(log, STACK.read_bytes(), None)[0] == wanted


def test_a_line_whose_comment_is_gone_stands_for_the_line() -> None:
    with archive.open(SCRIPTED) as opened:
        texts = {one: str(opened.symbolicate((one,))) for one in opened.handles}
    handle = next(one for one, text in texts.items() if "# zqbesidexz" in text and "aten::" in text)
    log = printed(redacted(SCRIPTED, preset="vendor")[0], (handle,))
    assert b"zqbesidexz" not in log
    assert explained(log, redacted(SCRIPTED)[1], None)[0] == printed(SCRIPTED, (handle,))


def test_source_proves_no_version_of_a_model_and_a_hash_of_a_redaction_does() -> None:
    handle = last_operations(STACK, 1)[0]
    for choice, proves in (
        ({"preset": "publish"}, False),
        ({"preset": "vendor"}, False),
        ({"names": "hash", "paths": "none"}, True),
    ):
        out, companion = redacted(STACK, **choice)
        _, explainer = explained(printed(out, (handle,)), out, companion)
        assert explainer.explained == 1
        assert (explainer.caveat == "") == proves


def test_hashes_of_another_redaction_are_told() -> None:
    handle = last_operations(STACK, 1)[0]
    first, second = (redacted(STACK, names="hash", paths=one) for one in ("none", "basename"))
    log = printed(first[0], (handle,))
    for source, companion in (first, (first[1], None)):
        assert explained(log, source, companion)[0] == printed(STACK, (handle,))
    for source, companion in (second, (second[1], None), redacted(STACK)):
        text, explainer = explained(log, source, companion)
        assert (text, explainer.unknown) == (log, 1)
        assert "hashes of names that aren't this model's" in explainer.notes[0]


def test_companions_of_several_models_explain_redacted_source(tmp_path: Path) -> None:
    names = [STACK, SCRIPTED, LOWERED, ORACLES / "plain_free_functions.ptl"]
    for path in names:
        (tmp_path / f"{path.stem}.ptdbg").write_bytes(redacted(path)[1])
    log = b"".join(printed(redacted(path)[0], (last_operations(path, 1)[0],)) for path in names[:2])
    with closing(models_in([tmp_path])) as models:
        explainer = explainer_of(models)
        text = b"".join(explainer.explain(log.splitlines(keepends=True)))
    assert text == b"".join(printed(path, (last_operations(path, 1)[0],)) for path in names[:2])
    assert (explainer.explained, explainer.unknown) == (2, 0)


def test_redacted_source_that_two_models_give_is_ambiguous(tmp_path: Path) -> None:
    handle = last_operations(STACK, 1)[0]
    (tmp_path / "one.ptl").write_bytes(STACK.read_bytes())
    other = BytesIO()
    archive.redact(STACK, other, BytesIO(), maps=["models/=others/"])
    (tmp_path / "two.ptl").write_bytes(other.getvalue())
    log = printed(redacted(STACK)[0], (handle,))
    with closing(models_in([tmp_path])) as models:
        explainer = explainer_of(models)
        assert b"".join(explainer.explain(log.splitlines(keepends=True))) == log
    assert (explainer.unknown, explainer.ambiguous) == (1, 1)


def test_operations_of_one_line_are_told_apart_by_the_hierarchy_directly_above() -> None:
    out, companion = redacted(SCRIPTED)
    with archive.open(SCRIPTED) as opened:
        texts = {one: str(opened.symbolicate((one,))) for one in opened.handles}
    mul = next(one for one, text in texts.items() if "aten::mul\n" in text and "* self.zqparameterxz" in text)
    log, heading = printed(out, (mul,)), b"Traceback of TorchScript"
    assert explained(log, out, companion)[0] == printed(SCRIPTED, (mul,))
    _, explainer = explained(log.replace(heading, b"another process\n" + heading), out, companion)
    assert (explainer.explained, explainer.unknown) == (0, 1)
    assert "may be of several places" in explainer.notes[0]


def test_blanks_behind_a_failure_end_it() -> None:
    out, companion = redacted(STACK)
    log = printed(out, (last_operations(STACK, 1)[0],)).removesuffix(b"\n  \n") + b"  \n" * 3
    assert explained(log, out, companion)[0].endswith(b"  \n" * 3)


def test_a_failure_below_another_models_hierarchy_is_not_explained() -> None:
    out, companion = redacted(STACK)
    logs = [printed(out, (one,)) for one in last_operations(STACK, 40)]
    log = next(one for one in logs if b"aten::" in one and explained(one, out, companion)[1].explained)
    for old, new in ((b"top(Stack)", b"top(Other)"), (b"aten::", b"other::")):
        other = log.replace(old, new)
        text, explainer = explained(other, out, companion)
        assert text == other != log
        assert (explainer.explained, explainer.unknown) == (0, 1)
        assert "another model's" in explainer.notes[0]


@pytest.mark.parametrize(
    "name", sampled(["picked", "choice", "shop", "decoder_strict", "sums", "teller"], most=3)
)
def test_a_redacted_trace_of_a_node_becomes_the_original(name: str) -> None:
    program, log = EXPORTED / f"{name}.pt2", (EXPORTED / f"{name}.interpreter.txt").read_bytes()
    out, companion = redacted(program)
    with archive.open(program) as before, archive.open(out) as after:
        traces = {
            site.trace: after.programs[graph].sites[key].trace
            for graph, one in before.programs.items()
            for key, site in one.sites.items()
            if site.trace
        }
    shown = log
    for trace in sorted(traces, key=len, reverse=True):
        shown = shown.replace(f"\n{trace}\n".encode(), f"\n{traces[trace]}\n".encode())
    assert shown != log
    for source, beside in ((out, companion), (companion, None), redacted(program, preset="vendor")):
        text, explainer = explained(shown, source, beside)
        assert (text, explainer.explained, explainer.unknown) == (log, 1, 0)
    other = shown.replace(b"line ", b"line 9")
    assert explained(other, out, companion)[0] == other
    assert "redacted trace" in explained(other, out, companion)[1].notes[0]
    more = shown.replace(
        b"Original traceback:\n", b'Original traceback:\nFile "other.py", line 1, in main\n  '
    )
    assert explained(more, out, companion)[0] == more
