"""The same jobs on any executor: threads here, a cluster elsewhere, and workers that are lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any
from unittest import mock

import dask
import pytest
from distributed import Client, LocalCluster

import archive
from archive import ArchiveError
from archive.batches.jobs import CompanionUse, plan
from archive.batches.manifest import outcomes_of
from archive.batches.pool import SCHEDULER_GONE, dask_executor
from archive.batches.working import Task
from tests.support.commands import called, files
from tests.support.many_archives import MANIFEST, beside, kinds, make_archives, manifest, split_and_killed
from tests.support.processes import PATIENCE, becomes
from tests.support.sampling import Suite, whole_suite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from archive.batches.working import Made


class Losing(Executor):
    """An executor whose workers are lost with the first calls that they get."""

    def __init__(self, losses: int) -> None:
        self.left = losses

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:  # noqa: ANN401
        future: Future[Any] = Future()
        self.left -= 1
        if self.left >= 0:
            future.set_exception(RuntimeError("the worker is gone"))
        else:
            future.set_result(call(*arguments, **named))
        return future


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_archives(tmp_path / "models", 4)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_executor_gets_absolute_paths_and_outcomes_have_those_that_were_given(folder: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        found = archive.batch("split", "models", "out", "dbg", executor=threads)
        again = archive.batch("split", "models", "out", "dbg", executor=threads)
    assert (kinds(found), kinds(again)) == (["done"] * 4, ["same"] * 4)
    assert [one.file for one in found] == [f"models/000/{number:06}.ptl" for number in range(4)]
    alone = archive.batch("split", "models", "alone", "dbg2", jobs=1)
    assert [one.outputs for one in alone] == [one.outputs for one in found]
    assert len(manifest(folder / "dbg" / MANIFEST)) == 4


@pytest.mark.usefixtures("folder")
def test_work_whose_worker_is_lost_is_tried_again_and_told_when_that_never_helps() -> None:
    assert kinds(archive.batch("shrink", "models", "out", executor=Losing(2))) == ["done"] * 4
    found = archive.batch("shrink", "models", "other", executor=Losing(99))
    assert kinds(found) == ["failed"] * 4
    assert {one.reason for one in found} == {
        "no worker brought it to its end: RuntimeError: 'the worker is gone'"
    }


def test_an_executor_that_takes_no_calls_any_more_fails_the_rest(folder: Path) -> None:
    closed = ThreadPoolExecutor(1)
    closed.shutdown()
    found = archive.batch("shrink", "models", "out", executor=closed)
    assert kinds(found) == ["failed"] * 4
    assert "cannot schedule new futures after shutdown" in found[0].reason
    assert kinds(archive.batch("shrink", "models", "out", jobs=1)) == ["done"] * 4
    assert len(manifest(beside(folder / "out"))) == 8


# --- a cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """A worker process; two where they are killed, which are then started again."""
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=1 + Suite.whole, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as started:
        yield started


@whole_suite  # Dask has lost a call for good once, when its worker was killed
def test_of_a_cluster_whose_workers_are_killed_every_archive_is_done_once(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    made = make_archives(tmp_path / "models", 10)
    out, dbg = tmp_path / "out", tmp_path / "dbg"
    work = plan([str(tmp_path / "models")], str(out), str(dbg), CompanionUse.WRITTEN)
    task = Task("split", split_and_killed, {}, {}, many=True)
    found: list[Made] = []
    with Client(cluster) as client:  # type: ignore[no-untyped-call]
        working = partial(outcomes_of, work, task, 1, client.get_executor())
        thread = Thread(target=lambda: found.extend(working()), daemon=True)
        thread.start()
        thread.join(PATIENCE)
        assert not thread.is_alive(), "Dask has lost a call"
    assert sorted(path.name for path in tmp_path.glob("*.killed")) == ["000003.killed", "000006.killed"]
    assert [one.reason for one in found] == [""] * 10
    lines = manifest(dbg / MANIFEST)
    assert sorted(line["input"] for line in lines) == sorted(made)
    assert {line["outcome"] for line in lines} == {"done"}
    archive.batch("join", out, tmp_path / "back", dbg, jobs=1)
    assert {name: (tmp_path / "back" / name).read_bytes() for name in made} == made


def test_a_command_has_its_work_done_by_a_cluster(cluster: LocalCluster, folder: Path) -> None:
    done = called("shrink", "models", "-o", "out", "--dask", cluster.scheduler_address)
    assert done.exit_code == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()[:4]] == [
        f"models/000/{number:06}.ptl" for number in range(4)
    ]
    assert len(files(folder / "out")) == 4


class Gone(Exception):  # noqa: N818 (as Dask's own: no OSError, no RuntimeError)
    """The scheduler is gone."""


class DyingClient(AbstractContextManager["DyingClient"]):
    """A client of a cluster whose scheduler dies after two calls."""

    status = "running"

    def __init__(self, address: str) -> None:
        self.address, self.left = address, 2

    def __exit__(self, *_: object) -> None:
        """Close it, which fails as everything does."""

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **_: object) -> Future[Any]:  # noqa: ANN401
        self.left -= 1
        future: Future[Any] = Future()
        if self.left >= 0:
            future.set_result(call(*arguments))
        elif self.left == -1:
            future.set_exception(Gone("while the result was fetched"))
            self.status = "closed"
        else:
            raise Gone
        return future


def test_a_scheduler_that_dies_is_an_outage_and_the_same_command_goes_on(folder: Path) -> None:
    words = ("shrink", "models", "-o", "out")
    with mock.patch("distributed.Client", DyingClient):
        done = called(*words, "--dask", "tcp://127.0.0.1:9")
    assert isinstance(done.exception, ArchiveError)
    assert str(done.exception) == f"tcp://127.0.0.1:9: {SCHEDULER_GONE}"
    finished = files(folder / "out")
    assert len(finished) == 2
    found = archive.batch("shrink", "models", "out", jobs=1)
    assert sorted(kinds(found)) == ["done"] * 2 + ["same"] * 2
    assert set(finished) < set(files(folder / "out"))


def until_said(process: subprocess.Popen[str], what: str) -> str:
    """The first text of a pattern on a process's standard error."""
    assert process.stderr is not None
    return next(found[0] for line in process.stderr if (found := re.search(what, line)))


@pytest.fixture
def scheduler() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A scheduler in a process of its own, with a worker; and its address."""
    local = ("--host", "127.0.0.1", "--no-dashboard")
    with ExitStack() as stack:

        def started(name: str, *arguments: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *arguments, *local]
            process = stack.enter_context(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            return process

        process = started("scheduler", "--port", "0")
        address = until_said(process, r"tcp://127\.0\.0\.1:\d+")
        started("worker", address, "--no-nanny", "--nthreads", "1")
        yield process, address


@whole_suite  # a cluster of processes of its own
def test_a_scheduler_that_is_killed_leaves_one_line_and_work_to_go_on_with(
    scheduler: tuple[subprocess.Popen[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_archives(tmp_path / "models", 60)
    monkeypatch.chdir(tmp_path)
    process, address = scheduler
    command = [sys.executable, "-m", "archive", "shrink", "models", "-o", "out"]
    quickly = {**os.environ, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s"}
    with subprocess.Popen(
        [*command, "--dask", address], env=quickly, stderr=subprocess.PIPE, text=True
    ) as run:
        assert becomes(lambda: len([*tmp_path.glob("out/**/*.ptl")]) > 1)
        process.kill()
        _, errors = run.communicate(timeout=PATIENCE)
    assert run.returncode == 2
    assert errors.splitlines() == [f"debug-archive: {address}: {SCHEDULER_GONE}"]
    assert 0 < len(manifest(beside(tmp_path / "out"))) < 60
    assert called(*command[3:]).exit_code == 0
    assert len(files(tmp_path / "out")) == 60


def test_a_single_file_is_no_work_for_a_cluster(folder: Path) -> None:
    done = called("shrink", folder / "models/000/000000.ptl", "-o", "out", "--dask", "tcp://127.0.0.1:9")
    assert str(done.exception).endswith("000000.ptl: --dask is for several files")


def test_without_the_extra_a_line_says_which_to_install() -> None:
    expected = pytest.raises(ArchiveError, match=r"pip install '\.\[fleet\]' in the checkout")
    with mock.patch.dict(sys.modules, {"distributed": None}), expected, dask_executor("tcp://127.0.0.1:9"):
        pytest.fail("there is no cluster")


def test_an_address_at_which_no_scheduler_answers_is_told() -> None:
    expected = pytest.raises(ArchiveError, match=r"^tcp://127\.0\.0\.1:9: no Dask scheduler answers there$")
    quickly = dask.config.set({"distributed.comm.timeouts.connect": "0.1s"})
    with quickly, expected, dask_executor("tcp://127.0.0.1:9"):
        pytest.fail("there is no cluster")
