"""What is deflated in a thread is what is deflated when it is asked for, and nobody waits for it in vain."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import archive
from archive import ArchiveError
from archive.base.cores import using_cores
from archive.container import streams
from archive.container.deflate import deflate, deflated_as_by_pytorch
from archive.formats.record_kinds import kind_of
from tests.support.commands import run
from tests.support.corpus import ORACLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILE = ORACLES / "plain_stack.ptl"


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Two cores, and records of any length worth a thread; the size of each that a thread deflates."""
    sizes: list[int] = []

    def noted(make: Callable[[memoryview], bytes]) -> Callable[[memoryview], bytes]:
        def making(data: memoryview) -> bytes:
            if threading.current_thread() is not threading.main_thread():
                sizes.append(len(data))
            return make(data)

        return making

    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(streams, "LONG", 1)
    monkeypatch.setattr(streams, "deflate", noted(deflate))
    monkeypatch.setattr(streams, "deflated_as_by_pytorch", noted(deflated_as_by_pytorch))
    return sizes


def test_streams_are_the_same_in_a_thread(submitted: list[int]) -> None:
    with archive.open(FILE) as opened:
        opened.container.streams.begin(by_pytorch=True)
        deflated = [record for record in opened.container.records.values() if record.entry.deflated]
        for record in deflated:
            assert opened.container.streams.by_pytorch(record.name, record.view()) == record.raw()
            assert opened.container.streams.shortest(record.name, record.view()) == deflate(record.view())
        kept = [record.size for record in deflated if not kind_of(record.name).is_debug]
        assert kept
        assert sorted(submitted) == sorted([*(record.size for record in deflated), *kept])


@pytest.mark.parametrize(
    ("verb", "options"),
    [("split", ("-c", "{}.ptdbg")), ("shrink", ()), ("shrink", ("--level", "embed"))],
    ids=["split", "compact", "embed"],
)
def test_one_core_writes_the_same(
    verb: str, options: tuple[str, ...], submitted: list[int], tmp_path: Path
) -> None:
    written = []
    for name, jobs in (("threads", ()), ("alone", ("-j", "1"))):
        submitted.clear()
        target = tmp_path / f"{name}.ptl"
        more = [option.format(target) for option in options]
        assert run(verb, FILE, "-o", target, *more, *jobs).returncode == 0
        assert bool(submitted) is (name == "threads")
        written.append([path.read_bytes() for path in sorted(tmp_path.glob(f"{name}.*"))])
    assert written[0] == written[1]


@pytest.mark.usefixtures("submitted")
def test_a_broken_record_is_refused_as_on_one_core(tmp_path: Path) -> None:
    with archive.open(FILE) as opened:
        record = next(each for each in opened.container.records.values() if each.entry.deflated)
        at = record.place.data
    data = bytearray(FILE.read_bytes())
    data[at + 20] ^= 0xFF
    refusals = []
    for most in (1, 2):
        with using_cores(most), pytest.raises(ArchiveError) as refused:
            archive.split(bytes(data), tmp_path / "out.ptl", tmp_path / "aside.ptdbg")
        refusals.append(str(refused.value))
    assert refusals[0] == refusals[1]
    assert record.name in refusals[0]


def test_what_has_not_begun_is_left_when_the_archive_is_closed(
    submitted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def held(_: memoryview) -> bytes:
        begun.set()
        assert may_end.wait(60)
        return b""

    monkeypatch.setattr(streams, "deflated_as_by_pytorch", held)
    with archive.open(FILE) as opened:
        opened.container.streams.begin(by_pytorch=True)
        assert begun.wait(60)
        of_it = opened.container.streams
        waiting = [*of_it._by_pytorch.values(), *of_it._shortest.values()][1:]
    may_end.set()
    assert waiting
    assert all(stream.cancelled() for stream in waiting)
    assert not submitted
