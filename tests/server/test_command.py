"""``serve``: what it refuses before it listens."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

import pytest

from archive.cli.serve import SHORTEST_TOKEN, token_of
from tests.support.commands import called, run
from tests.support.servers import store_of

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folder_that_is_no_store_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        done = run("serve", folder)
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert b"isn't a store" in run("serve", tmp_path).stderr


def test_an_address_that_is_taken_or_none_is_refused(tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", [])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", store, "--port", port)
    assert done.returncode == 2
    assert f"127.0.0.1:{port}: cannot listen: ".encode() in done.stderr
    assert b"`--port` chooses another one" in done.stderr
    assert run("serve", store, "--host", "192.0.2.1", "--port", 0).returncode == 2


@pytest.mark.parametrize(
    "token", ["", "short", "x" * (SHORTEST_TOKEN - 1), "a token\nof two lines", "ä" * 20]
)
def test_a_token_that_is_no_secret_or_no_line_is_refused(
    token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text(token, "utf-8")
    for words in (["--token-file", tmp_path / "token"], []):
        monkeypatch.setenv("DEBUG_ARCHIVE_TOKEN", token)
        done = run("serve", tmp_path, *words)
        assert done.returncode == 2
        assert b"a token has 16 printable characters" in done.stderr
        assert not token or token.encode() not in done.stderr


def test_the_token_is_that_of_the_file_then_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEBUG_ARCHIVE_TOKEN", raising=False)
    assert token_of(None) is None
    monkeypatch.setenv("DEBUG_ARCHIVE_TOKEN", "that of the environment")
    (tmp_path / "token").write_text("that of the file\n")
    assert token_of(None) == "that of the environment"
    assert token_of(str(tmp_path / "token")) == "that of the file"


@pytest.mark.parametrize("size", ["0", "-1", "1X", "", "16MBit", "9" * 20])
def test_a_size_that_is_none_is_refused(size: str, tmp_path: Path) -> None:
    done = called("serve", tmp_path, "--max-body", size)
    assert done.exit_code == 2
    assert "expected bytes like 500K or 16M" in done.stderr


def test_without_the_extra_the_command_says_which_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pebble", None)
    done = called("serve", tmp_path)
    assert done.exit_code == 2
    assert "pip install '.[server]'" in done.stderr
