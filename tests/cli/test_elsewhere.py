"""Commands take URLs where they take files, and show no secrets of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.commands import run
from tests.support.corpus import ORACLES
from tests.support.range_server import served

if TYPE_CHECKING:
    from collections.abc import Generator

STACK = ORACLES / "plain_stack.ptl"


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with served(
        {"/m.ptl": STACK.read_bytes(), "/other.ptl": (ORACLES / "lowered_ok.ptl").read_bytes()}
    ) as state:
        yield f"{state.url}/m.ptl"


@pytest.mark.parametrize(
    "words",
    [
        ("symbolicate", "FILE", "1452"),
        ("symbolicate", "FILE", "1452", "--json"),
        ("inspect", "FILE"),
        ("inspect", "FILE", "--json"),
        ("sizes", "FILE"),
        ("sizes", "FILE", "--by", "record", "--no-map"),
        ("sizes", "FILE", STACK),
        ("sizes", "FILE", "--budget", "debug=1KB"),
        ("verify", "FILE"),
        ("verify", "FILE", "--no-map", "--json"),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_reading_commands_say_the_same_of_a_url_as_of_a_file(words: tuple[object, ...], url: str) -> None:
    secret = f"{url}?token=SECRET".replace("//", "//user:SECRET@")
    here = run(*(STACK if word == "FILE" else word for word in words))
    there = run(*(secret if word == "FILE" else word for word in words))
    assert there.returncode == here.returncode
    for printed, expected in ((there.stdout, here.stdout), (there.stderr, here.stderr)):
        assert b"SECRET" not in printed
        assert printed.replace(f"{url}?…".encode(), str(STACK).encode()) == expected


def test_a_log_is_explained_by_several_models_elsewhere(url: str) -> None:
    models = (url, url.replace("m.ptl", "other.ptl"))
    log = b"RuntimeError: no handles here\n"
    done = run("symbolicate", *models, stdin=log)
    assert (done.returncode, done.stdout) == (0, log)
    assert b"2 models" in done.stderr


def test_what_cannot_be_read_is_told_and_the_other_files_are_read(url: str) -> None:
    gone = url.replace("m.ptl", "gone.ptl")
    done = run("verify", url, gone, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 2
    assert found[url] == []
    assert [one["message"] for one in found[gone]] == ["No such file or directory"]
