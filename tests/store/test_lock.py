"""One process at a time changes a store: who waits for it says so once, and not for ever."""

from __future__ import annotations

import fcntl
import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from archive.base.errors import ArchiveError
from archive.store.folder import MOST_SECONDS, Waiting
from archive.store.store import Store
from tests.support.commands import run
from tests.support.faults import in_child
from tests.support.kin import id_of, kin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    with Store.open(tmp_path / "store", create=True) as opened:
        for number in range(2):
            opened.add(kin(number))
    (tmp_path / "new.ptdbg").write_bytes(kin(9))
    return opened


@contextmanager
def held(store: Store) -> Iterator[None]:
    """The lock, held by somebody else."""
    handle = os.open(store.folder.path / "lock", os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


class Clock:
    """A clock that goes on only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


CHANGES: dict[str, Callable[[Store], object]] = {
    "add": lambda store: store.add(kin(9)),
    "remove": lambda store: store.remove(id_of(0)),
    "gc": lambda store: store.gc(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_waiting_is_told_once_and_bounded(change: str, store: Store) -> None:
    clock, told = Clock(), list[str]()
    waiting = Waiting(MOST_SECONDS, told.append, clock=clock, sleep=clock.sleep)
    again = Store.open(store.file, waiting=waiting)
    with held(store):
        for _ in range(2):
            began = clock.now
            with pytest.raises(
                ArchiveError, match="lock: another process has been changing the store for 60 s"
            ):
                CHANGES[change](again)
            assert MOST_SECONDS <= clock.now - began < MOST_SECONDS + 1
    assert told == [f"{store.file}/lock: another process changes the store; waiting for up to 60 s"]
    assert len(again.entries()) == 2
    CHANGES[change](again)


def test_a_lock_that_comes_free_is_taken() -> None:
    clock, told = Clock(), list[str]()
    waiting = Waiting(60, told.append, clock=clock, sleep=clock.sleep)
    waiting.until(lambda: clock.now > 1005.0, "lock")
    assert len(told) == 1
    assert clock.now < 1006


def test_a_moment_of_waiting_is_not_told() -> None:
    clock, told = Clock(), list[str]()
    waiting = Waiting(60, told.append, clock=clock, sleep=clock.sleep)
    waiting.until(lambda: clock.now > 1000.5, "lock")
    assert told == []


@pytest.mark.parametrize(
    "words", [("add", "new.ptdbg", "-j", 1), ("rm", id_of(0)), ("gc",)], ids=lambda one: one[0]
)
def test_commands_wait_as_long_as_they_are_told(
    words: tuple[object, ...], store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    verb, *more = words
    with held(store):
        ended = run("store", verb, *more, "--store", "store", "--wait", "0.1")
        assert ended.returncode == 2
        told, error = ended.stderr.decode().splitlines()
        assert told == (
            "debug-archive: store/lock: another process changes the store; waiting for up to 0.1 s"
        )
        assert error == (
            "debug-archive: store/lock: another process has been changing the store for 0.1 s; "
            "try again, or wait longer: --wait SECONDS"
        )
        for reading in (("ls",), ("check",), ("get", id_of(1), "-o", "-")):
            assert run("store", *reading, "--store", "store").returncode == 0
    assert run("store", verb, *more, "--store", "store", "--wait", "0").returncode == 0


def test_the_lock_of_a_dead_process_holds_nobody_up(store: Store) -> None:
    def die() -> None:
        with Store.open(store.file).folder.locked():
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(die) == signal.SIGKILL
    assert (store.folder.path / "lock").exists()
    assert Store.open(store.file, waiting=Waiting(0)).add(kin(9)).outcome == "added"


KINDS: dict[str, Callable[[Path], object]] = {
    "link": lambda path: path.symlink_to(path.parent.parent / "mine"),
    "pipe": os.mkfifo,
    "folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_lock_is_a_regular_file(kind: str, store: Store, tmp_path: Path) -> None:
    path = store.folder.path / "lock"
    path.unlink()
    KINDS[kind](path)
    with pytest.raises(ArchiveError, match=f"lock: is a {kind}, not a file of a store"):
        store.add(kin(9))
    assert not (tmp_path / "mine").exists()
