"""Messages of rsyslog's mmexternal: one answer for each, with failures explained, by rsyslog itself, too."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.failures.rsyslog import MOST_BYTES, NOTHING, MessageFilter
from tests.support.commands import run
from tests.support.corpus import FIXTURES
from tests.support.reports import case

if TYPE_CHECKING:
    from collections.abc import Callable

JIT, LITE = case("plain_free_functions.jit"), case("plain_unicode")
FLEET = FIXTURES / "fleet"
MODULES = [*Path("/usr/lib").glob("*/rsyslog/mmexternal.so"), *Path("/usr/lib/rsyslog").glob("mmexternal.so")]
RSYSLOG = shutil.which("rsyslogd", path="/usr/sbin:/usr/bin:/sbin")


def answers(*records: bytes, models: Path = JIT.path) -> tuple[list[dict[str, str]], int, str]:
    done = run("symbolicate", models, "--filter", "rsyslog", stdin=b"".join(records))
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode, done.stderr.decode()


def record(message: str) -> bytes:
    return json.dumps({"msg": message, "rawmsg": f"<3>{message}", "hostname": "web-1"}).encode() + b"\n"


def test_a_failure_is_answered_by_its_explanation_and_all_else_by_nothing() -> None:
    caveat = "nothing in the log names the model: 1 failure is explained because nothing contradicts it"
    for report in (JIT, LITE):
        said, status, notes = answers(
            record("starting"), record(report.stripped.decode()), record("going on"), models=report.path
        )
        assert said == [{}, {"msg": report.full.decode()}, {}]
        expected = f"debug-archive: record 2: {caveat}\ndebug-archive: 1 failure: 1 explained\n"
        assert (status, notes) == (0, expected)


def test_each_message_is_explained_by_itself() -> None:
    one, other, *_ = json.loads((FLEET / "failures.json").read_bytes())
    said, status, _ = answers(record(one["unique"]), record(other["unique"]), models=FLEET)
    assert [answer["msg"] for answer in said] == [one["explained"], other["explained"]]
    assert status == 0


BROKEN = {
    "no JSON": b"Traceback of TorchScript (most recent call last):\n",
    "a list": b'["Traceback of TorchScript (most recent call last):"]\n',
    "no message": b'{"rawmsg": "Traceback of TorchScript (most recent call last):"}\n',
    "a number": b'{"msg": 1, "rawmsg": "Traceback of TorchScript (most recent call last):"}\n',
    "no UTF-8": b'{"msg": "\xff Traceback of TorchScript (most recent call last):"}\n',
    "nested": b'{"msg": "Traceback of TorchScript", "a": ' + b"[" * 100_000 + b"\n",
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_record_gets_an_answer_and_a_note(broken: bytes) -> None:
    said, status, notes = answers(record("a"), broken, record(JIT.stripped.decode()))
    assert (said, status) == ([{}, {}, {"msg": JIT.full.decode()}], 1)
    assert notes.endswith("debug-archive: 1 failure: 1 explained, 1 record not read\n")
    assert notes.startswith("debug-archive: record 2: ")
    assert notes.count("\n") == 3


@pytest.mark.parametrize("letters", [MOST_BYTES, 2 * MOST_BYTES + 1])
def test_so_does_one_that_is_too_long(letters: int) -> None:
    test_a_broken_record_gets_an_answer_and_a_note(
        b'{"msg": "Traceback of TorchScript ' + b"x" * letters + b'"}\n'
    )


def test_what_no_model_explains_stays_and_is_told() -> None:
    said, status, notes = answers(record(JIT.stripped.decode()), models=LITE.path)
    assert (said, status) == ([{}], 1)
    assert "debug-archive: record 1: line " in notes
    assert notes.endswith("debug-archive: 1 failure: 0 explained\n")


@given(st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"") + b"\n"), max_size=8))
def test_there_is_one_answer_for_each_line(lines: list[bytes]) -> None:
    messages = MessageFilter(lambda: pytest.fail("no failure is in it"), lambda _: None)
    assert [*messages.answers(BytesIO(b"".join(lines)))] == [NOTHING] * len(lines)


@pytest.mark.parametrize("words", [["--top", "3"], ["--json"], ["--log", "x"], ["--at", "a:1"], ["42"]])
def test_a_filter_takes_no_options_of_other_answers(words: list[str]) -> None:
    done = run("symbolicate", JIT.path, *words, "--filter", "rsyslog")
    assert done.returncode == 2
    assert b"--filter answers a log shipper" in done.stderr


def until(is_there: Callable[[], bool]) -> bool:
    """Wait for something, for a minute at most."""
    for _ in range(600):
        if is_there():
            return True
        time.sleep(0.1)
    return False


@pytest.mark.skipif(RSYSLOG is None or not MODULES, reason="needs rsyslog with mmexternal")
def test_rsyslog_writes_what_is_explained(tmp_path: Path) -> None:
    log, out = tmp_path / "in.log", tmp_path / "out.log"
    log.write_text("2026-01-01 starting\n2026-01-01 " + JIT.stripped.decode() + "2026-01-01 going on\n")
    command = f"{sys.executable} -m archive symbolicate {JIT.path} --filter rsyslog"
    (tmp_path / "conf").write_text(f"""
        global(workDirectory="{tmp_path}" maxMessageSize="64k")
        $EscapeControlCharactersOnReceive off
        module(load="imfile" mode="polling" pollingInterval="1")
        module(load="mmexternal")
        input(type="imfile" File="{log}" Tag="app" startmsg.regex="^2026" escapeLF="off" readTimeout="1")
        template(name="out" type="string" string="%msg%\\n")
        action(type="mmexternal" binary="{command}" interface.input="fulljson")
        action(type="omfile" file="{out}" template="out")
    """)
    assert RSYSLOG is not None
    words = [RSYSLOG, "-n", "-f", str(tmp_path / "conf"), "-i", str(tmp_path / "pid")]
    with subprocess.Popen(words, cwd=Path.cwd(), stderr=subprocess.DEVNULL) as rsyslog:
        try:
            assert until(lambda: out.exists() and "going on" in out.read_text())
        finally:
            rsyslog.send_signal(signal.SIGTERM)
    assert JIT.full.decode().rstrip("\n") in out.read_text()


@pytest.mark.skipif(shutil.which("tail") is None, reason="needs tail")
def test_tail_follows_a_log_that_is_rotated(tmp_path: Path) -> None:
    log, out = tmp_path / "app.log", tmp_path / "out.log"
    log.write_text("starting\n")
    follow = ["tail", "-n", "+1", "-F", str(log)]
    explain = [sys.executable, "-m", "archive", "symbolicate", str(JIT.path)]
    with (
        out.open("wb") as written,
        subprocess.Popen(follow, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as tail,
        subprocess.Popen(explain, stdin=tail.stdout, stdout=written),
    ):
        try:
            assert until(lambda: "starting" in out.read_text())
            log.rename(tmp_path / "app.log.1")
            log.write_text(JIT.stripped.decode() + "going on\n")
            assert until(lambda: "going on" in out.read_text())
        finally:
            tail.kill()
    assert out.read_text() == "starting\n" + JIT.full.decode() + "going on\n"
