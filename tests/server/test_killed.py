"""Servers and workers that are killed, and signals."""

from __future__ import annotations

import os
import signal
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest

from archive.server.spool import PREFIX, Spool
from tests.failures.models.test_three_models import FLEET
from tests.support.commands import explained_by
from tests.support.processes import PATIENCE, becomes
from tests.support.servers import TOKEN, Running, is_alive, store_of
from tools.load_server import load, samples, together

if TYPE_CHECKING:
    from pathlib import Path

PATH = "/v1/symbolicate"
LOG = b"".join((FLEET / "unique.log").read_bytes().splitlines(keepends=True)[:500])


@pytest.mark.parametrize("busy", [False, True])
def test_a_worker_that_is_killed_costs_no_request(busy: bool, server: Running) -> None:  # noqa: FBT001 (pytest's way)
    with ThreadPoolExecutor(1) as pool:
        reply = pool.submit(server.ask, "POST", PATH, LOG) if busy else None
        # A log that is done before anybody sees it was no worse off.
        assert not busy or becomes(
            lambda: bool(server.number("debug_archive_workers_busy")) or (reply is not None and reply.done())
        )
        assert server.workers
        for worker in server.workers:
            os.kill(worker, signal.SIGKILL)
        for one in (reply.result() if reply else None, server.ask("POST", PATH, LOG)):
            assert one is None or (one.status, one.data) == (200, explained_by(FLEET, LOG))
    assert server.number("debug_archive_workers_busy") == 0


def test_a_server_that_is_killed_leaves_nothing_that_matters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker ends, the store is whole, the next server removes what lay on the disk; clients go on."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("DEBUG_ARCHIVE_TOKEN", TOKEN)
    store = store_of(tmp_path / "store")

    def kill() -> None:
        assert "takes companions with the token" in first.said
        workers = first.workers
        first.ask("POST", PATH, LOG)
        first.end(signal.SIGKILL)
        (left,) = tmp_path.glob(f"{PREFIX}*")
        with Running(store, "--workers", 1, "--port", first.port) as second:
            assert not left.exists()
            assert becomes(lambda: not any(map(is_alive, workers)))
            assert second.ask("POST", PATH, LOG).data == explained_by(FLEET, LOG)
            assert second.end(signal.SIGTERM) == 0

    with Running(store, "--workers", 1) as first:
        seen = together(first.port, samples(1, 10), 4, kill)
    assert seen.wrong == 0
    assert seen.cut > 0
    assert len(seen.latencies) > 4
    assert list(tmp_path.glob(f"{PREFIX}*")) == []


def test_a_server_that_ends_says_so_to_those_who_keep_their_connections(tmp_path: Path) -> None:
    """Each request on a kept connection is answered, the last one with ``Connection: close``."""
    with Running(store_of(tmp_path / "store"), "--workers", 1) as running:
        kept = HTTPConnection("127.0.0.1", running.port, timeout=PATIENCE)
        with closing(kept), ThreadPoolExecutor(1) as ending:
            kept.request("GET", "/healthz")
            assert kept.getresponse().read()
            ended = ending.submit(running.end)
            closes = None
            while closes is None:
                kept.request("GET", "/healthz")
                answer = kept.getresponse()
                answer.read()
                assert answer.status == HTTPStatus.OK
                closes = answer.headers["Connection"]
            assert closes == "close"
            assert ended.result() == 0


def test_all_clients_get_the_right_answers(server: Running) -> None:
    for clients in (1, 8):
        seen = load(server.port, samples(1, 10), clients, 0.4)
        assert (seen.wrong, seen.cut, seen.refused) == (0, 0, 0)
        assert seen.latency(50) > 0


def test_the_folder_of_a_server_that_lives_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first = Spool(100)
    second = Spool(100)
    assert len(list(tmp_path.glob(f"{PREFIX}*"))) == 2
    first.close()
    second.close()
    assert list(tmp_path.glob(f"{PREFIX}*")) == []


def test_a_store_that_is_called_like_the_folder_of_a_server_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = store_of(tmp_path / f"{PREFIX}models")
    before = sorted(store.rglob("*"))
    assert store / "lock" in before
    Spool(100).close()
    assert sorted(store.rglob("*")) == before
