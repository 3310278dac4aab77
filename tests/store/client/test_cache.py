"""Companions that were fetched once are not fetched again, whatever becomes of the cache."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from archive.base.digests import digest_of
from archive.store.client.cache import Cache, folder_of
from archive.store.entries import COMPANIONS, LINES
from tests.failures.models.test_three_models import FLEET
from tests.store.client.test_lies import HONEST, LOG, server_of, truth  # noqa: F401 (a fixture)
from tests.support.commands import explained_by, run
from tests.support.servers import Said, saying

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

    from tests.store.client.test_lies import Facts


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEBUG_ARCHIVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Counting:
    """An honest server, and what it was asked for."""

    def __init__(self, entries: list[Facts]) -> None:
        self._honest = server_of(entries, HONEST)
        self.asked: Counter[str] = Counter()

    def __call__(self, path: str, request: BaseHTTPRequestHandler) -> Said:
        said = self._honest(path, request)
        if request.headers["If-None-Match"] == f'"{digest_of(said.data).hex()}"':
            self.asked[f"unchanged {path}"] += 1
            return Said(304)
        self.asked[path] += 1
        return said


def test_what_was_fetched_is_not_fetched_again(truth: list[Facts], cache: Path) -> None:  # noqa: F811
    with saying(counting := Counting(truth)) as url:
        for _ in range(3):
            assert run("symbolicate", "--store", url, stdin=LOG).stdout == explained_by(FLEET, LOG)
    asked = {path: times for path, times in counting.asked.items() if not path.endswith(LINES)}  # it has none
    assert set(asked.values()) == {1, 2}
    assert asked[f"unchanged {COMPANIONS}"] == 2
    assert len(asked) == 5
    assert cache.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("change", [bytes.swapcase, lambda data: data[:-1], lambda _: b""])
def test_a_file_that_was_changed_is_fetched_again(change: object, truth: list[Facts], cache: Path) -> None:  # noqa: F811
    assert callable(change)
    with saying(counting := Counting(truth)) as url:
        run("symbolicate", "--store", url, stdin=LOG)
        before = {file.name: file.read_bytes() for file in cache.iterdir()}
        for file in cache.iterdir():
            file.write_bytes(change(file.read_bytes()))
        assert run("symbolicate", "--store", url, stdin=LOG).stdout == explained_by(FLEET, LOG)
    assert set(counting.asked.values()) == {2}
    assert {file.name: file.read_bytes() for file in cache.iterdir()} == before


def test_without_a_cache_all_is_fetched(truth: list[Facts], cache: Path) -> None:  # noqa: F811
    """A file is in its place."""
    cache.write_bytes(b"")
    with saying(Counting(truth)) as url:
        assert run("symbolicate", "--store", url, stdin=LOG).stdout == explained_by(FLEET, LOG)
    assert cache.read_bytes() == b""


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", 250)
    files = {f"{number:032x}": bytes([number]) * 100 for number in range(3)}
    for key in list(files)[:2]:
        cache.keep(key, files[key])
    first, second, third = files
    assert cache.get(first, digest_of(files[first]).hex()) == files[first]
    cache.keep(third, files[third])
    assert [cache.get(key, digest_of(files[key]).hex()) is not None for key in files] == [True, False, True]
    cache.keep("f" * 32, bytes(251))
    assert len(list((tmp_path / "cache").iterdir())) == 2
    assert cache.latest(second) is None


def test_a_new_file_takes_the_place_of_others_of_its_name(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    for data in (b"old", b"new"):
        cache.keep("a" * 32, data)
    assert cache.latest("a" * 32) == b"new"
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_the_folder_is_that_of_the_environment() -> None:
    home = Path.home() / ".cache" / "debug-archive"
    assert folder_of({}) == home
    assert folder_of({"XDG_CACHE_HOME": "relative"}) == home
    assert folder_of({"XDG_CACHE_HOME": "/x"}) == Path("/x/debug-archive")
    assert folder_of({"XDG_CACHE_HOME": "/x", "DEBUG_ARCHIVE_CACHE": "/y"}) == Path("/y")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are POSIX")
def test_a_pipe_where_others_may_write_is_no_file_of_the_cache(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"ab-{digest_of(b'').hex()}.kept")
    assert Cache(tmp_path).get("ab", digest_of(b"").hex()) is None


def test_a_file_that_is_longer_than_the_cache_is_not_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / f"ab-{digest_of(bytes(9)).hex()}.kept").write_bytes(bytes(9))
    assert Cache(tmp_path, most=9).get("ab", digest_of(bytes(9)).hex()) == bytes(9)
    assert Cache(tmp_path, most=4).get("ab", digest_of(bytes(9)).hex()) is None
