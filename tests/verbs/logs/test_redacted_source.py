"""Logs of redacted archives, in which PyTorch itself explained failures: the companion has the original."""

from __future__ import annotations

import io

import pytest

import archive
from archive.verbs.logs import Explainer
from tests.support.corpus import ORACLES
from tests.support.exported import EXPORTED
from tests.support.tokens import CANARIES

LOWERED, SCRIPTED, STACK = CANARIES / "lowered.ptl", CANARIES / "scripted.ptl", ORACLES / "plain_stack.ptl"


def redacted(path: object) -> tuple[bytes, bytes]:
    out, companion = io.BytesIO(), io.BytesIO()
    archive.redact(path, out, companion, preset="publish")  # type: ignore[arg-type]
    return out.getvalue(), companion.getvalue()


def explained(log: bytes, out: bytes, companion: bytes | None) -> tuple[bytes, Explainer]:
    with archive.open(out, companion=companion) as opened:
        explainer = Explainer.of(opened)
        return b"".join(explainer.explain(log.splitlines(keepends=True))), explainer


def printed(source: object, handles: tuple[int, ...]) -> bytes:
    """What PyTorch prints of a failure of the lite interpreter."""
    with archive.open(source) as opened:  # type: ignore[arg-type]
        return b"no such size\n  \n  " + bytes(opened.symbolicate(handles)) + b"\n  \n"


def last_operations(source: object, count: int) -> list[int]:
    """The last handles that have frames with source."""
    with archive.open(source) as opened:  # type: ignore[arg-type]
        return [one for one in sorted(opened.handles) if "HERE" in str(opened.symbolicate((one,)))][-count:]


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


def test_what_is_not_redacted_or_not_of_this_archive_passes_through() -> None:
    out, companion = redacted(STACK)
    handle = last_operations(STACK, 1)[0]
    for log, source, beside in (
        (printed(STACK, (handle,)), out, companion),  # it shows the original
        (printed(out, (handle,)), out, None),
        (printed(out, (handle,)).replace(b"line ", b"line 9"), out, companion),
    ):
        text, explainer = explained(log, source, beside)
        assert text == log
        assert (explainer.explained, explainer.unknown) == (0, 0)


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


@pytest.mark.parametrize("name", ["picked", "choice", "shop", "decoder_strict", "sums", "teller"])
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
    text, explainer = explained(shown, out, companion)
    assert (text, explainer.explained, explainer.unknown) == (log, 1, 0)
    more = shown.replace(
        b"Original traceback:\n", b'Original traceback:\nFile "other.py", line 1, in main\n  '
    )
    assert explained(more, out, companion)[0] == more
