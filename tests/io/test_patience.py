"""A place elsewhere that is silent, or drips, is left in time; one that is slow is waited for."""

from __future__ import annotations

import asyncio
import re
import selectors
from contextlib import contextmanager
from threading import Thread
from time import sleep
from types import SimpleNamespace
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from aiohttp import ClientTimeout
from fsspec.config import conf
from fsspec.implementations.http import HTTPFileSystem

import archive
from archive.base.deadline import LateError, ending_in
from archive.base.errors import ArchiveError
from archive.batches.line_file import Growing
from archive.io import patience, places
from archive.io.location import Location
from archive.io.patience import SECONDS, SLOWEST, Patience, SilentError
from archive.io.remote import opened_remote
from archive.io.s3 import files_below
from archive.store.bucket import Bucket
from archive.store.objects import Objects
from tests.support.commands import run
from tests.support.corpus import ORACLES
from tests.support.range_server import served
from tests.support.stalling import http_answer, stalling, stalling_bucket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

STACK = ORACLES / "plain_stack.ptl"
SIZE = 99_999_999


# --- the rule, by a clock that jumps to what is waited for


class Jumping(selectors.DefaultSelector):
    """Waits for no time: its clock is moved instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(timeout and 0)
        if timeout and not ready:
            self.now += timeout
        return ready


class Slow:
    """A file system whose clock jumps."""

    protocol = "slow"

    def __init__(self, **options: object) -> None:
        self.storage_options = options
        self._clock = Jumping()
        self.loop = asyncio.SelectorEventLoop(self._clock)
        self.loop.time = lambda: self._clock.now  # type: ignore[method-assign]

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = Thread(target=self.loop.run_forever)
        thread.start()
        try:
            yield
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            thread.join()
            self.loop.close()
            self.ended = self._clock.now

    def received(self, pieces: Iterable[tuple[float, int]], moved: int = 0) -> int:
        """The bytes of an answer whose pieces come after some seconds each."""
        patience = Patience(self, moved)

        async def coming() -> AsyncIterator[bytes]:
            for seconds, size in pieces:
                await asyncio.sleep(seconds)
                yield bytes(size)

        with self.running():
            return len(patience.run(patience.gathered, coming(), 1 << 25, "m"))


class SlowBucket(Slow):
    """One that lists a page of objects after each pause.

    Args:
        pages: the seconds of each pause, and the objects of the page behind it.
    """

    def __init__(self, pages: Iterable[tuple[float, int]]) -> None:
        super().__init__()
        self._pages = pages

    def split_path(self, path: str) -> tuple[str, str, None]:
        return path, "", None

    async def _iterdir(self, bucket: str, **_: str) -> AsyncIterator[dict[str, object]]:
        for page, (seconds, count) in enumerate(self._pages):
            await asyncio.sleep(seconds)
            for number in range(count):
                yield {"name": f"{bucket}/{page}/{number}", "type": "file"}

    def listed(self) -> int:
        with self.running():
            return len(files_below(self, "models", None, "s3://models"))


def test_silence_is_waited_for_a_minute_and_no_longer() -> None:
    slow = Slow()
    assert slow.received([(59.0, 9)]) == 9
    for silent in ([(61.0, 9)], [(0, 9), (61.0, 9)], [(0, 1 << 24), (61.0, 9)]):
        slow = Slow()
        with pytest.raises(SilentError, match=r"^no answer in 60 s, or less than 8 KiB a second$"):
            slow.received(silent)
        assert SECONDS <= slow.ended < SECONDS + 1.1


@pytest.mark.parametrize(("seconds", "size"), [(0.1, 1), (1.0, 1), (59.0, 1 << 10), (1.0, SLOWEST // 2)])
def test_a_place_that_drips_is_left_soon_after(seconds: float, size: int) -> None:
    slow = Slow()
    with pytest.raises(SilentError):
        slow.received([(seconds, size)] * 10_000)
    assert slow.ended <= SECONDS * 2 + 1


@pytest.mark.parametrize(("seconds", "size"), [(1.0, SLOWEST), (50.0, 50 * SLOWEST)])
def test_whoever_sends_64_kbit_a_second_is_waited_for(seconds: float, size: int) -> None:
    count = (30 << 20) // size
    slow = Slow()
    assert slow.received([(seconds, size)] * count) == size * count
    assert slow.ended > SECONDS


def test_what_is_sent_has_time_for_all_its_bytes_from_the_start() -> None:
    slow = Slow()
    assert slow.received([(3_899, 1)], moved=SLOWEST * 3_840) == 1
    with pytest.raises(SilentError, match=re.escape("no answer in 3,900 s")):
        Slow().received([(3_901, 1)], moved=SLOWEST * 3_840)


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({"timeout": 600}, 600),
        ({"client_kwargs": {"timeout": SimpleNamespace(total=600)}}, 600),
        ({"config_kwargs": {"read_timeout": 600}}, 600),
        ({"timeout": 5, "client_kwargs": None, "config_kwargs": {"retries": 1}}, SECONDS),
    ],
)
def test_it_waits_as_long_as_fsspec_is_configured_to(options: dict[str, object], seconds: float) -> None:
    assert Slow(**options).received([(seconds - 1, 9)]) == 9
    with pytest.raises(SilentError, match=f"no answer in {seconds:g} s"):
        Slow(**options).received([(seconds + 1, 9)])


def test_more_bytes_than_were_asked_for_are_not_kept() -> None:
    with pytest.raises(ArchiveError, match="the server sends more bytes than it says"):
        Slow().received([(0, 1 << 24), (0, 1 << 24), (0, 1)])


def test_a_list_is_waited_for_while_it_comes() -> None:
    slow = SlowBucket([(50.0, 1_000)] * 20)
    assert slow.listed() == 20_000
    assert slow.ended == 1_000
    for silent in ([(50.0, 1_000), (61.0, 1_000)], [(10.0, 1)] * 10, [(10.0, 0)] * 10):
        slow = SlowBucket(silent)
        with pytest.raises(SilentError):
            slow.listed()
        assert slow.ended < SECONDS * 2


# --- servers


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "SECONDS", 0.2)


def silent(_: str) -> bytes:
    return b""


def head_alone(method: str) -> bytes:
    """Facts of an object, and none of its bytes."""
    facts = http_answer(200, length=SIZE, ETag='"1"', Last_Modified="Fri, 27 Nov 2026 09:00:00 GMT")
    return facts if method == "HEAD" else b""


def body_alone(method: str) -> bytes:
    """The same, and the beginning of the answer with its bytes."""
    span = f"bytes 0-65535/{SIZE}"
    return head_alone(method) or http_answer(206, length=1 << 16, ETag='"1"', Content_Range=span)


def headers_alone(_: str) -> bytes:
    return b"HTTP/1.1 200 OK\r\nX: "


TOLD = r"cannot be read: no answer in 0\.2 s, or less than 8 KiB a second; FSSPEC_"


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("answer", [silent, headers_alone])
def test_a_bucket_that_gives_no_answer_is_left(answer: Callable[[str], bytes]) -> None:
    with (
        stalling_bucket(answer, drips=answer is headers_alone) as url,
        pytest.raises(TimeoutError, match=f"{TOLD}S3='.*' waits longer") as left,
    ):
        archive.open(f"{url}/m.ptl")
    assert left.value.filename == f"{url}/m.ptl"


@pytest.mark.parametrize(("answer", "drips"), [(head_alone, False), (body_alone, False), (body_alone, True)])
def test_a_bucket_that_stalls_while_an_object_is_read_is_left(
    answer: Callable[[str], bytes], monkeypatch: pytest.MonkeyPatch, *, drips: bool
) -> None:
    with stalling_bucket(answer, drips=drips) as url:
        remote = opened_remote(Location(f"{url}/m.ptl"))
        monkeypatch.setattr(patience, "SECONDS", 0.2)
        with pytest.raises(TimeoutError, match=TOLD):
            remote.read(0, 1 << 16)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    ("answer", "drips"), [(silent, False), (headers_alone, True), (body_alone, False), (body_alone, True)]
)
def test_an_http_server_that_stalls_is_left(answer: Callable[[str], bytes], *, drips: bool) -> None:
    with (
        stalling(answer, drips=drips) as url,
        pytest.raises(TimeoutError, match=f"{TOLD}HTTP_TIMEOUT=600 waits longer") as left,
    ):
        archive.open(f"{url}/m.ptl")
    assert left.value.filename == f"{url}/m.ptl"


def grown(url: str) -> None:
    file = Growing(url, b"")
    file.write(b"1")
    file.close()


REQUESTS: dict[str, Callable[[str], object]] = {
    "facts": lambda url: Objects(url).facts("x"),
    "list": lambda url: Objects(url).listed("x"),
    "create": lambda url: Objects(url).create("x", b"1"),
    "replace": lambda url: Objects(url).replace("x", b"1", '"1"'),
    "remove": lambda url: Objects(url).remove("x"),
    "folder": places.is_folder,
    "below": lambda url: [*places.below(f"{url}/x/")],
    "glob": lambda url: [*places.matching(f"{url}/x/*.ptl")],
    "deep glob": lambda url: [*places.matching(f"{url}/**/x.ptl")],
    "manifest": lambda url: grown(f"{url}/x"),
    "target": lambda url: archive.split(STACK, f"{url}/x", f"{url}/y"),
    "store": Bucket.open,
}


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("drips", [False, True])
def test_no_request_to_a_bucket_waits_for_ever(monkeypatch: pytest.MonkeyPatch, *, drips: bool) -> None:
    monkeypatch.setattr(patience, "SLOWEST", 1 << 40)  # so that what is moved takes no time
    monkeypatch.setattr(patience, "SECONDS", 0.1)
    with stalling_bucket(headers_alone if drips else silent, drips=drips) as url:
        for name, request in REQUESTS.items():
            with pytest.raises(TimeoutError, match=r"no answer in 0\.1 s") as left:
                request(url)
            assert str(left.value.filename).startswith(url), name


@pytest.mark.usefixtures("short")
def test_an_upload_that_nobody_takes_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bucket says that there is no such object, and then no more."""
    monkeypatch.setattr(patience, "SLOWEST", 1 << 40)

    def absent(method: str) -> bytes:
        return b"" if method == "PUT" else http_answer(404)

    with (
        stalling_bucket(absent) as url,
        pytest.raises(TimeoutError, match=r"cannot be written: no answer in 0\.2 s"),
    ):
        archive.split(STACK, f"{url}/x", f"{url}/y")


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "URL/m.ptl"),
        ("report", "URL/m.ptl", "-o", "-"),
        ("symbolicate", "--store", "URL", "42"),
        ("store", "ls", "--store", "URL"),
        ("verify", "URL/"),
    ],
)
def test_a_command_ends_in_one_line_that_names_the_place(words: tuple[str, ...]) -> None:
    with stalling_bucket(silent) as url:
        done = run(*(word.replace("URL", url) for word in words))
    (line,) = done.stderr.decode().splitlines()
    assert done.returncode == 2
    assert line.startswith(f"debug-archive: {url}")
    assert "no answer in 0.2 s" in line


def test_an_http_answer_has_not_the_five_minutes_of_aiohttp() -> None:
    HTTPFileSystem.clear_instance_cache()
    with (
        mock.patch("aiohttp.client.DEFAULT_TIMEOUT", ClientTimeout(total=0.1)),
        served({"/m.ptl": STACK.read_bytes()}) as server,
    ):
        server.before = lambda _: sleep(0.2)
        with archive.open(f"{server.url}/m.ptl") as opened:
            assert opened.handles
    HTTPFileSystem.clear_instance_cache()


def test_work_under_a_deadline_waits_no_longer_for_a_bucket() -> None:
    for answer, drips in ((silent, False), (body_alone, True)):
        with stalling_bucket(answer, drips=drips) as url, pytest.raises(LateError), ending_in(0.2):
            opened_remote(Location(f"{url}/m.ptl")).read(0, 1 << 16)


def test_what_is_configured_to_be_shorter_is_not_called_ours() -> None:
    with (
        stalling(silent) as url,
        mock.patch.dict(conf, {"http": {"timeout": 0.1}}),
        pytest.raises(OSError, match="cannot be read: FSTimeoutError"),
    ):
        archive.open(f"{url}/m.ptl")
