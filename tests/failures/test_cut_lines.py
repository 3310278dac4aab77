"""Lines that a container runtime cut into pieces are read whole, whatever stands between the pieces."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.failures.explainer import TORN_NOTE
from archive.failures.log.cut_lines import MOST_BYTES
from archive.failures.log.lines import Lines
from archive.failures.log.log_line import MOST_BETWEEN
from archive.failures.log.quiet import is_quiet
from tests.support.reports import case, explained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

JIT, UNICODE = case("plain_free_functions.jit"), case("plain_unicode")
HEADING = "Traceback of TorchScript (most recent call last):"


def cri(stream: str, text: str, *, is_last: bool, at: int = 0) -> str:
    return f"2026-03-01T10:00:{at % 60:02}.5Z {stream} {'F' if is_last else 'P'} {text}\n"


def docker(stream: str, text: str, *, is_last: bool, at: int = 0) -> str:
    time = f"2026-03-01T10:00:{at % 60:02}.5Z"
    log = text + "\n" * is_last
    return json.dumps({"log": log, "stream": stream, "time": time}, separators=(",", ":")) + "\n"


RUNTIMES = {"cri": cri, "docker": docker}


def records(log: Iterable[str]) -> list[tuple[str, str, bool]]:
    """Stream, text and whether its line ends, of each record: read by other means than ours."""
    read = []
    for line in log:
        if line.startswith("{"):
            record = json.loads(line)
            read.append((record["stream"], record["log"].removesuffix("\n"), record["log"].endswith("\n")))
        else:
            _, stream, tag, text = line.removesuffix("\n").split(" ", 3)
            read.append((stream, text, tag == "F"))
    return read


def printed(log: bytes, stream: str) -> list[str]:
    """The lines that a process printed."""
    text = "".join(
        text + "\n" * is_last
        for of, text, is_last in records(log.decode().splitlines(keepends=True))
        if of == stream
    )
    return [line.rstrip() for line in text.removesuffix("\n").split("\n")]


def mixed(data: st.DataObject, runtime: Callable[..., str], processes: dict[str, list[str]]) -> bytes:
    """What processes print, cut anywhere, in one log."""
    waiting = {}
    for stream, lines in processes.items():
        width = data.draw(st.integers(5, 60))
        waiting[stream] = [
            (line[start : start + width], start + width >= len(line))
            for line in lines
            for start in range(0, max(len(line), 1), width)
        ]
    log, at = list[str](), 0
    while some := [stream for stream, pieces in waiting.items() if pieces]:
        text, is_last = waiting[stream := data.draw(st.sampled_from(some))].pop(0)
        log.append(runtime(stream, text, is_last=is_last, at=(at := at + 1)))
    return "".join(log).encode()


@pytest.mark.parametrize("runtime", RUNTIMES.values(), ids=RUNTIMES)
@settings(deadline=None)
@given(st.data())
def test_a_failure_in_pieces_is_explained_and_all_others_stay(
    runtime: Callable[..., str], data: st.DataObject
) -> None:
    report = data.draw(st.sampled_from([JIT, UNICODE]))
    others = data.draw(
        st.lists(st.sampled_from(["tick", "", "P", "GET /index.html HTTP/1.1 200", "a \\n"]), max_size=40)
    )
    texts = ["starting", *report.stripped.decode().removesuffix("\n").split("\n"), "going on"]
    log = mixed(data, runtime, {"stderr": texts, "stdout": others})
    text, *counts = explained(log, report.path)
    full = ["starting", *report.full.decode().removesuffix("\n").split("\n"), "going on"]
    assert printed(text, "stderr") == [line.rstrip() for line in full]
    assert printed(text, "stdout") == printed(log, "stdout")
    assert counts == [1, 0, []]


@pytest.mark.parametrize("runtime", RUNTIMES.values(), ids=RUNTIMES)
@settings(deadline=None)
@given(st.data())
def test_without_a_failure_each_piece_stays_where_it_was(
    runtime: Callable[..., str], data: st.DataObject
) -> None:
    lines = st.lists(st.sampled_from(["tick", "", "a longer line of a server", "P and F"]), max_size=40)
    log = mixed(data, runtime, {"stderr": data.draw(lines), "stdout": data.draw(lines)})
    assert explained(log, JIT.path) == (log, 0, 0, [])


@pytest.mark.parametrize("pad", range(16_000, 16_384, 97))
def test_a_record_that_docker_cut_at_16_kb_is_explained(pad: int) -> None:
    line = json.dumps({"pad": "x" * pad, "msg": JIT.stripped.decode()})
    pieces = [line[start : start + 16_384] for start in range(0, len(line), 16_384)]
    log = "".join(docker("stderr", piece, is_last=piece is pieces[-1]) for piece in pieces)
    text, *counts = explained(log.encode(), JIT.path)
    (whole,) = printed(text, "stderr")
    assert json.loads(whole) == {"pad": "x" * pad, "msg": JIT.full.decode()}
    assert counts == [1, 0, []]


TORN = {
    "the log ends": [],
    "too many lines between": [cri("stdout", "tick", is_last=True)] * (MOST_BETWEEN + 1),
    "too much between": [cri("stdout", "x" * (MOST_BYTES // 4), is_last=True)] * 5,
}


@pytest.mark.parametrize("between", TORN.values(), ids=TORN)
def test_a_failure_that_cannot_be_joined_is_told_and_counted(between: list[str]) -> None:
    pieces = [cri("stderr", part, is_last=False) for part in (HEADING[:9], HEADING[9:])]
    last = [cri("stderr", "", is_last=True)] if between else []
    log = "".join([*pieces, *between, *last]).encode()
    text, done, unknown, notes = explained(log, JIT.path)
    assert (text, done, unknown) == (log, 0, 1)
    assert notes == [f"line 1: {TORN_NOTE}"]


def test_pieces_of_two_files_that_tail_follows_are_not_mixed() -> None:
    line = json.dumps({"msg": JIT.stripped.decode()})
    cut = line.index("code/") + 2
    first = f"==> /a.log <==\n{cri('stderr', line[:cut], is_last=False)}\n"
    other = f"==> /b.log <==\n{cri('stderr', 'other', is_last=False)}{cri('stderr', 's', is_last=True)}\n"
    last = f"==> /a.log <==\n{cri('stderr', line[cut:], is_last=True)}"
    text, *counts = explained((first + other + last).encode(), JIT.path)
    assert counts == [1, 0, []]
    head, _, _, whole = text.decode().splitlines()[1].split(" ", 3)
    assert json.loads(whole) == {"msg": JIT.full.decode()}
    assert text.decode().endswith(f"\n{other}==> /a.log <==\n")
    assert head == "2026-03-01T10:00:00.5Z"


def test_pieces_wait_through_a_pause_but_hold_no_others_back() -> None:
    piece, tick, last = (
        line.encode()
        for line in (
            cri("stderr", "a", is_last=False),
            cri("stdout", "tick", is_last=True),
            cri("stderr", "b", is_last=True),
        )
    )
    joined = Lines([piece, b"", last]).take()
    assert joined is not None
    assert joined.data.endswith(b"F ab\n")
    assert [line.data for line in iter(Lines([piece, tick, b"", last]).take, None)] == [piece, tick, last]


def test_whole_records_are_quiet() -> None:
    for runtime in RUNTIMES.values():
        assert is_quiet(runtime("stderr", "tick", is_last=True).encode() * 3)
        assert not is_quiet(runtime("stderr", "tick", is_last=False).encode())
    assert not is_quiet(docker("stderr", "tick\\n", is_last=False).encode())
