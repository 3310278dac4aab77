"""How a server ends, and what ``docs/how-to/server.md`` gives systemd and Kubernetes for it."""

from __future__ import annotations

import re
import shlex
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from configparser import ConfigParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pebble.common.types import CONSTS

from archive.cli.serve import command
from archive.server.settings import Settings
from tests.server.test_limits import CHOKING, PATH, connected, heading, received
from tests.support.processes import becomes
from tests.support.servers import Running, store_of

if TYPE_CHECKING:
    import click

PAGE = Path("docs/how-to/server.md").read_text("utf-8")
DRAINING = int(Settings(store="").seconds) + 1 + CONSTS.term_timeout
"""Seconds that a server takes to end, at most: its answers, then its workers."""
SLACK = 1
"""Seconds for what takes no time."""


def block(language: str) -> str:
    (found,) = re.findall(rf"(?s)```{language}\n(.*?)```", PAGE)
    return str(found)


def options_of(words: list[str]) -> click.Context:
    """The options of the command ``serve``, if all of them exist."""
    return command.make_context("serve", words)


# --- ending


def refuses(running: Running) -> bool:
    """Whether a server takes no connection any more."""
    try:
        socket.create_connection(("127.0.0.1", running.port)).close()
    except ConnectionRefusedError:
        return True
    return False


def test_what_has_begun_is_finished_and_nothing_begins(tmp_path: Path) -> None:
    line = b"all is well\n"
    with Running(store_of(tmp_path / "store"), "--workers", 1) as running:
        half = connected(running, heading(len(line)) + line[:4])
        assert becomes(lambda: running.number("debug_archive_requests_in_flight") == 2)
        running.process.send_signal(signal.SIGTERM)
        assert becomes(lambda: refuses(running))
        half.sendall(line[4:])
        answer = received(half)
        half.close()
        assert running.process.wait(DRAINING) == 0
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(line)
    assert running.lines == []


def test_an_idle_server_ends_soon(tmp_path: Path) -> None:
    """A connection that is kept does not hold it up."""
    with Running(store_of(tmp_path / "store"), "--workers", 1) as running:
        kept = connected(running, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert kept.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        start = time.monotonic()
        assert running.end() == 0
        kept.close()
        assert time.monotonic() - start < DRAINING / 2
    assert running.lines == []


def test_a_server_that_waits_no_longer_says_so_to_who_is_still_asking(tmp_path: Path) -> None:
    """A body and the work on it take longer than `--timeout` and a second: a refusal, not an error."""
    path, line = CHOKING
    with Running(store_of(tmp_path / "store"), "--workers", 1, "--timeout", 3) as running:
        head = heading(len(line)).replace(PATH.encode(), path.encode())
        with connected(running, head + line[:4]) as slow, ThreadPoolExecutor(1) as pool:
            assert becomes(lambda: running.number("debug_archive_requests_in_flight") == 2)
            ended = pool.submit(running.end)
            time.sleep(2.6)  # what is left is less than a pattern may take
            slow.sendall(line[4:])
            answer = received(slow)
            assert ended.result() == 0
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"the server ends; try again" in answer
    assert b"retry-after: 2\r\n" in answer.lower()
    said = "".join(running.lines)
    assert said.count("503 POST /v1/symbolicate: the server ends; try again") == 1
    assert said.count("was killed: the server ended, and had waited for its work") == 1
    assert "Traceback" not in said


def test_a_second_interrupt_ends_it_at_once(tmp_path: Path) -> None:
    path, line = CHOKING
    with Running(store_of(tmp_path / "store"), "--workers", 1) as running:
        head = heading(len(line)).replace(PATH.encode(), path.encode())
        with connected(running, head + line) as working:
            assert becomes(lambda: running.number("debug_archive_workers_busy") == 1)
            start = time.monotonic()
            running.process.send_signal(signal.SIGTERM)
            assert becomes(lambda: refuses(running))
            assert running.end(signal.SIGINT) == 0
            assert time.monotonic() - start < DRAINING / 2
            assert received(working).startswith(b"HTTP/1.1 503 ")
    assert "Traceback" not in "".join(running.lines)


def test_a_client_that_does_not_read_is_one_line(tmp_path: Path) -> None:
    line = b"x" * 999 + b"\n"
    with Running(store_of(tmp_path / "store"), "--workers", 1, "--timeout", 1) as running:
        with connected(running, heading(len(line) * 9_000) + line * 9_000, room=4096):
            assert becomes(lambda: bool(running.lines))
            # The client has not left, and still its connection is gone.
            assert becomes(lambda: running.number("debug_archive_connections") == 1)
        assert running.ask("GET", "/livez").status == 200
    assert running.lines == [
        "debug-archive: a client did not take a piece of its answer in 1 s; its connection is closed\n"
    ]


# --- systemd and Kubernetes


def test_the_unit_is_one_that_the_command_takes() -> None:
    unit = ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]  # as systemd: cases differ
    unit.read_string(block("ini").replace("\\\n", " "))
    program, name, *words = shlex.split(unit["Service"]["ExecStart"])
    assert (Path(program).name, name) == ("debug-archive", "serve")
    params = options_of(words).params
    assert params["names"] == ("symbols.example.com",)
    state = f"/var/lib/{unit['Service']['StateDirectory']}/"
    assert params["store"].startswith(state)
    credential, _, _ = unit["Service"]["LoadCredential"].partition(":")
    assert params["token_file"] == f"${{CREDENTIALS_DIRECTORY}}/{credential}"
    assert unit["Service"]["KillMode"] == "mixed"
    assert int(unit["Service"]["TimeoutStopSec"]) >= DRAINING + SLACK


@pytest.fixture(scope="module")
def container() -> dict[str, Any]:
    """The container of the deployment."""
    (one,) = yaml.safe_load(block("yaml"))["spec"]["template"]["spec"]["containers"]
    return dict(one)


def test_the_probes_are_answered_as_the_page_says(container: dict[str, Any], tmp_path: Path) -> None:
    program, name, store = container["command"]
    assert (program, name) == ("debug-archive", "serve")
    params = options_of([store, *container["args"]]).params
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == [store]
    folder = store_of(tmp_path / "store")
    with Running(folder, *container["args"]) as running:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container[probe]["httpGet"]
            assert asked["port"] == params["port"] == container["ports"][0]["containerPort"]
            headers = {one["name"]: one["value"] for one in asked["httpHeaders"]}
            assert running.ask("GET", asked["path"], headers=headers).status == 200
            # As a kubelet asks by itself: by the address of the pod.
            assert running.ask("GET", asked["path"], headers={"Host": "10.0.0.7:8080"}).status == 421
        folder.rename(tmp_path / "away")
        alive, ready = (
            running.ask("GET", container[probe]["httpGet"]["path"], headers=headers).status
            for probe in ("livenessProbe", "readinessProbe")
        )
        assert (alive, ready) == (200, 503)


def test_without_allowed_hosts_probes_need_none(tmp_path: Path) -> None:
    with Running(store_of(tmp_path / "store"), "--workers", 1, "--host", "0.0.0.0") as running:  # noqa: S104 (as in a pod)
        assert running.ask("GET", "/livez", headers={"Host": "10.0.0.7:8080"}).status == 200


def test_the_pod_is_given_the_time_that_draining_takes(container: dict[str, Any]) -> None:
    spec = yaml.safe_load(block("yaml"))["spec"]["template"]["spec"]
    program, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert program == "sleep"
    assert spec["terminationGracePeriodSeconds"] >= int(seconds) + DRAINING + SLACK
    words = " ".join(PAGE.split())
    assert f"So give it {int(DRAINING) + SLACK} s from the signal to the kill." in words
    assert f"after `--timeout` and one second, {int(Settings(store='').seconds) + 1} s by default," in words
    labels = yaml.safe_load(block("yaml"))["spec"]["selector"]["matchLabels"]
    assert labels == yaml.safe_load(block("yaml"))["spec"]["template"]["metadata"]["labels"]
