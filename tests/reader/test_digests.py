"""The digests of an archive are the same however they are computed, and leave a core to who is busy."""

from __future__ import annotations

import threading
from hashlib import blake2b
from typing import TYPE_CHECKING

import pytest

import archive
from archive.base import cores
from archive.formats.archive_id import archive_id, digest_of
from archive.reader import digests
from archive.reader.halves import joined
from tests.support.corpus import ORACLES

if TYPE_CHECKING:
    from collections.abc import Iterable

FILE = ORACLES / "plain_stack.ptl"


@pytest.mark.parametrize("count", [None, 1, 2, 3])
@pytest.mark.parametrize("busy", [False, True], ids=["waits", "busy"])
@pytest.mark.parametrize("long", [1, cores.LONG], ids=["in threads", "at once"])
def test_digests_are_the_same_in_threads(
    *, long: int, busy: bool, count: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "LONG", long)
    monkeypatch.setattr("os.cpu_count", lambda: count)
    with archive.open(FILE) as opened:
        opened.digests.begin(busy=busy)
        assert opened.digests.id == archive_id(opened.container.records)
        assert opened.digests.file == blake2b(FILE.read_bytes(), digest_size=8).digest()


@pytest.mark.parametrize(("busy", "count", "turns"), [(True, 2, True), (True, 3, False), (False, 2, False)])
def test_on_few_cores_the_digests_take_turns_while_others_work(
    *, busy: bool, count: int, turns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest of the file cannot end before that of the records has begun, unless they take turns."""
    file_may_end, records_begun = threading.Event(), threading.Event()
    of_file = digests.Digests._of_file

    def begun(pieces: Iterable[bytes | memoryview]) -> bytes:
        records_begun.set()
        return digest_of(pieces)

    def held(self: digests.Digests) -> bytes:
        assert file_may_end.wait(60)
        return of_file(self)

    monkeypatch.setattr(cores, "LONG", 1)
    monkeypatch.setattr("os.cpu_count", lambda: count)
    monkeypatch.setattr(digests, "digest_of", begun)
    monkeypatch.setattr(digests.Digests, "_of_file", held)
    with archive.open(FILE) as opened:
        opened.digests.begin(busy=busy)
        assert records_begun.wait(0.2 if turns else 60) is not turns
        file_may_end.set()
        assert opened.digests.id == archive_id(opened.container.records)
        assert records_begun.is_set()


@pytest.mark.parametrize("size", [1 << 10, 1 << 17])
def test_what_is_written_is_compared_wherever_it_lies(size: int) -> None:
    memory = memoryview(bytes(range(251)) * (2 * size // 251))
    expected, equal = memory[:size], memoryview(bytes(memory[:size]))
    for data, same in (
        (expected, True),
        (equal, True),
        (memory[1 : size + 1], False),
        (memory[: size + 1], False),
        (memoryview(bytes(size)), False),
    ):
        compared = joined._Comparison(expected)
        assert compared.write(data) == len(data)
        assert compared.same is same
        assert not compared.left
