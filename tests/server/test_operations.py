"""The server for those who run it: its numbers, its probes, and its lines on standard error."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

import archive
from archive.server import lines
from archive.server.connections import Connections
from archive.server.lines import Lines
from archive.server.problems import Reason, busy
from archive.server.settings import MOST_CONNECTIONS, MOST_LINES, MOST_OF_A_CLIENT
from archive.store.entries import COMPANIONS
from archive.store.store import Store
from tests.server.test_limits import CHOKING, LOG, PATH, check_works, connected, heading
from tests.support.processes import becomes
from tests.support.servers import Running, store_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.metrics_core import Metric

SERVER = Path("archive/server")
PAGE = Path("docs/how-to/server.md").read_text("utf-8")
NAME = re.compile(r"(process|debug_archive)_[a-z_]+")
OPEN_METRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


# --- numbers


@pytest.mark.parametrize(("headers", "parse"), [({}, plain_text), (OPEN_METRICS, open_metrics)])
def test_numbers_are_what_prometheus_reads(
    headers: dict[str, str], parse: Callable[[str], Iterable[Metric]], server: Running
) -> None:
    assert server.ask("GET", "/livez").status == 200
    reply = server.ask("GET", "/metrics", headers=headers)
    kind = "application/openmetrics-text; version=1.0.0" if headers else "text/plain; version=0.0.4"
    assert reply.headers["content-type"].startswith(kind)
    families = list(parse(reply.data.decode()))
    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert NAME.fullmatch(family.name), family.name
        assert family.documentation.endswith(".")
        assert family.type in {"counter", "gauge", "histogram", "info"}
        samples = [(sample.name, *sorted(sample.labels.items())) for sample in family.samples]
        assert samples, family.name
        assert len(set(samples)) == len(samples)


def test_the_numbers_of_the_process_are_those_of_the_system(server: Running) -> None:
    pages = int(Path(f"/proc/{server.process.pid}/statm").read_text("ascii").split()[1])
    size = pages * os.sysconf("SC_PAGE_SIZE")
    assert 0.5 * size < server.number("process_resident_memory_bytes") < 2 * size
    assert server.number("process_cpu_seconds_total") > 0
    assert server.number("process_open_fds") > 0
    version = re.escape(archive.__version__)
    text = server.ask("GET", "/metrics").data.decode()
    assert re.search(
        rf'(?m)^debug_archive_build_info{{python="3\.\d+\.\d+",version="{version}"}} 1\.0$', text
    )


def test_memory_and_cpu_time_of_workers_are_summed(tmp_path: Path) -> None:
    with Running(store_of(tmp_path / "store"), "--workers", 2) as running:
        assert running.number("debug_archive_workers") == 2
        size = sum(
            int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
            for pid in running.workers
        )
        assert 0.5 * size < running.number("debug_archive_workers_resident_memory_bytes") < 2 * size
        name = "debug_archive_workers_cpu_seconds_total"
        before = running.number(name)
        assert before > 0
        for worker in running.workers:
            os.kill(worker, signal.SIGKILL)
        assert running.number(name) >= before
        # Also while none of them lives, and again once others work.
        assert becomes(lambda: running.number(name) > before)
        assert becomes(lambda: running.number("debug_archive_workers") == 2)


def test_connections_and_requests_are_counted(server: Running) -> None:
    def connections() -> float:
        return server.number("debug_archive_connections")

    assert becomes(lambda: connections() == 1)
    assert server.number("debug_archive_requests_in_flight") == 1
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        assert becomes(lambda: connections() == 6)
        half = stack.enter_context(connected(server, heading(100) + b"half"))
        assert becomes(lambda: server.number("debug_archive_requests_in_flight") == 2)
        half.close()
    assert becomes(lambda: connections() == 1)
    assert becomes(lambda: server.number("debug_archive_requests_in_flight") == 1)


def test_the_size_of_the_store_is_that_of_its_files(tmp_path: Path) -> None:
    folder = store_of(tmp_path / "store")
    with Store.open(folder) as store:
        sizes = [entry.kept_size for entry in store.entries()]
    with Running(folder, "--workers", 1) as running:
        assert running.number("debug_archive_store_models") == 3
        assert running.number("debug_archive_store_bytes") == sum(sizes) > 0
        assert running.number("debug_archive_store_unread_models") == 0
        broken = next(file for file in folder.rglob("*") if file.is_file() and file.stat().st_size in sizes)
        (tmp_path / "broken").write_bytes(b"broken")
        (tmp_path / "broken").replace(broken)
        assert running.number("debug_archive_store_models") == 2
        assert running.number("debug_archive_store_unread_models") == 1
        assert running.number("debug_archive_store_readable") == 1
        folder.rename(tmp_path / "away")
        assert running.number("debug_archive_store_readable") == 0
        assert b"debug_archive_store_bytes" not in running.ask("GET", "/metrics").data


def test_a_server_without_its_store_lives_and_is_not_ready(tmp_path: Path) -> None:
    folder = store_of(tmp_path / "store")
    with Running(folder, "--workers", 1) as running:
        assert running.ask("GET", "/livez").status == running.ask("GET", "/healthz").status == 200
        folder.rename(tmp_path / "away")
        assert running.ask("GET", "/livez").status == 200
        for path in ("/healthz", "/models", "/v1/companions"):
            assert running.ask("GET", path).status == 503
        assert running.ask("POST", PATH, b"x\n").status == 503
        assert running.number('debug_archive_refused_total{reason="store"}') == 4
    said = [line for line in running.lines if "503" in line]
    assert [line.partition(": ")[2].partition(": ")[0] for line in said] == [
        "503 GET /healthz",
        "503 GET /models",
        "503 GET /v1/companions",
        "503 POST /v1/symbolicate",
    ]
    assert all("No such file" in line for line in said)


def test_a_server_maps_nothing_of_its_store(server: Running) -> None:
    """As the page says of what monitoring shows."""
    assert server.ask("POST", PATH, LOG).status == 200
    for process in (server.process.pid, *server.workers):
        mapped = Path(f"/proc/{process}/maps").read_text("utf-8")
        assert "/python" in mapped
        assert str(server.store) not in mapped


def test_every_number_stands_on_the_page(server: Running) -> None:
    assert server.ask("GET", "/livez").status == 200
    text = server.ask("GET", "/metrics", headers=OPEN_METRICS).data.decode()
    parse: Callable[[str], Iterable[Metric]] = open_metrics
    for family in parse(text):
        kinds = {"counter": "_total", "info": "_info"}
        name = family.name + kinds.get(family.type, "")
        assert name in PAGE or family.name.startswith("process_"), name
    for reason in (*Reason, "late", "left", "died", "ended"):
        assert f"`{reason}`" in PAGE
    named = set(re.findall(r"`((?:debug_archive|process)_\w+)", PAGE))
    assert all(name in text for name in named), named


def test_connections_are_bounded_in_all_and_of_an_address() -> None:
    refused: list[tuple[Reason, str]] = []
    connections = Connections(lambda reason, why: refused.append((reason, why)))
    addresses = [f"10.0.0.{number // MOST_OF_A_CLIENT}" for number in range(MOST_CONNECTIONS)]
    assert all(map(connections.opened, addresses))
    assert not connections.opened("10.0.0.0")
    assert not connections.opened("10.0.1.1")
    assert connections.open == MOST_CONNECTIONS + 2  # until they are closed
    assert refused == [
        (Reason.ADDRESS, "10.0.0.0 has 256 connections already"),
        (Reason.CONNECTIONS, "1,024 connections are open already"),
    ]
    for address in (*addresses, "10.0.0.0", "10.0.1.1"):
        connections.closed(address)
    assert connections.open == 0
    assert connections.opened("10.0.0.0")


@pytest.mark.parametrize(
    "path", ["/", "/docs", "/healthz", "/livez", "/models", "/openapi.json", "/report", COMPANIONS]
)
def test_head_gives_the_headers_of_get(path: str, server: Running) -> None:
    head, whole = server.ask("HEAD", path), server.ask("GET", path)
    assert head.status == whole.status == 200
    assert not head.data
    assert whole.data
    dated = {"date": ""}
    assert {**head.headers, **dated} == {**whole.headers, **dated}


# --- lines


def said(running: Running, part: str) -> int:
    return sum(part in line for line in list(running.lines))


def test_a_worker_that_dies_is_counted_and_has_a_line(tmp_path: Path) -> None:
    """While it is idle, and nobody asks; while it works; when its time is out; when its client leaves."""
    path, line = CHOKING
    with Running(store_of(tmp_path / "store"), "--workers", 1, "--timeout", 2) as running:

        def killed(reason: str) -> float:
            return running.number(f'debug_archive_workers_killed_total{{reason="{reason}"}}')

        (worker,) = running.workers
        os.kill(worker, signal.SIGKILL)
        assert becomes(lambda: killed("died") == 1)
        assert said(running, f"worker {worker} died while it was idle") == 1
        check_works(running)

        (worker,) = running.workers
        assert running.ask("POST", path, line).status == 504
        assert killed("late") == 1
        assert said(running, f"worker {worker} was killed: its work took more than 2 s") == 1
        check_works(running)

        (worker,) = running.workers
        connected(running, heading(len(line)).replace(PATH.encode(), path.encode()) + line).close()
        assert becomes(lambda: killed("left") == 1)
        assert said(running, f"worker {worker} was killed: its client had left") == 1
        check_works(running)

        (worker,) = running.workers
        with connected(running, heading(len(line)).replace(PATH.encode(), path.encode()) + line):
            assert becomes(lambda: running.number("debug_archive_workers_busy") == 1)
            os.kill(worker, signal.SIGKILL)
            assert becomes(lambda: killed("died") == 2)
            # Which of both, the system decides: it may not have begun.
            assert said(running, f"worker {worker} died ") == 1
    assert said(running, "worker") == len(running.lines)


def test_each_refusal_for_now_is_counted_and_has_a_line(tmp_path: Path) -> None:
    options = ("--workers", 1, "--queue", 1, "--timeout", 2)
    with Running(store_of(tmp_path / "store"), *options) as running:

        def refused(reason: Reason) -> float:
            return running.number(f'debug_archive_refused_total{{reason="{reason}"}}')

        with ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda _: running.ask("POST", PATH, LOG), range(8)))
        count = sum(reply.status == 503 for reply in replies)
        assert refused(Reason.QUEUE) + refused(Reason.WAIT) == count > 0
        lines_of_queue = said(running, "503 POST /v1/symbolicate: 1 requests wait already; try again")
        assert lines_of_queue == refused(Reason.QUEUE)

        with ExitStack() as stack:
            for _ in range(MOST_OF_A_CLIENT):
                stack.enter_context(socket.create_connection(("127.0.0.1", running.port)))
            socket.create_connection(("127.0.0.1", running.port)).close()
            assert becomes(lambda: said(running, "503 127.0.0.1 has 256 connections already") == 1)
        assert becomes(lambda: _number(running, Reason.ADDRESS) == 1)
        assert refused(Reason.CONNECTIONS) == 0


def _number(running: Running, reason: Reason) -> float:
    """A number, once there is a connection to ask on."""
    try:
        return running.number(f'debug_archive_refused_total{{reason="{reason}"}}')
    except (OSError, ValueError):
        return 0


def test_a_flood_of_lines_is_cut_and_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "SECONDS_OF_LINES", 0.05)

    async def flood() -> None:
        written = Lines()
        for number in range(MOST_LINES + 7):
            written.write("a kind", f"line {number}")
        written.write("another kind", "other line")
        await asyncio.sleep(0.1)
        written.write("a kind", "last line")
        written.close()

    with caplog.at_level(logging.WARNING, lines.LOG.name):
        asyncio.run(flood())
    assert caplog.messages == [
        *(f"line {number}" for number in range(MOST_LINES)),
        "other line",
        "a kind: 7 more in 0.05 s",
        "last line",
    ]


def test_every_refusal_for_now_has_a_reason() -> None:
    """Only one function makes them."""
    texts = {file.name: file.read_text("utf-8") for file in SERVER.glob("*.py")}
    for name, text in texts.items():
        assert not re.search(r"HttpProblem\(\s*(503|507)", text), name
        if name != "problems.py":
            assert not re.search(r"SERVICE_UNAVAILABLE|INSUFFICIENT_STORAGE", text), name
    for reason in Reason:
        assert any(f"Reason.{reason.name}" in text for text in texts.values()), reason
        assert busy(reason, "why").status == (507 if reason is Reason.DISK else 503)
        assert busy(reason, "why").headers["Retry-After"] == "2"
