"""Commands take URLs where they take files, and show no secrets of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import fsspec
import pytest

from archive.io.places import below
from tests.support.commands import WELL, run
from tests.support.corpus import ORACLES
from tests.support.documents import files_of
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
        ("sizes", "FILE", "--base", STACK),
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


@pytest.fixture
def folder() -> Generator[str]:
    """A folder elsewhere with three archives, a text, and a folder in it."""
    store = fsspec.filesystem("memory")
    for name, path in (("a.ptl", STACK), ("b.pt", ORACLES / "lowered_ok.pt"), ("sub/c.ptl", STACK)):
        store.pipe_file(f"/in/{name}", path.read_bytes())
    store.pipe_file("/in/notes.txt", b"notes")
    yield "memory://in"
    store.store.clear()
    store.pseudo_dirs[:] = [""]


def held(url: str) -> dict[str, bytes]:
    """The files in a folder elsewhere."""
    found = {}
    for file, name in below(url):
        with fsspec.open(file) as opened:
            found[name] = opened.read()
    return found


def test_a_folder_elsewhere_becomes_another_and_back(folder: str) -> None:
    small, debug, back = "memory://small", "memory://debug", "memory://back"
    done = run("split", folder, "-o", small, "-c", debug, "-j", 1)
    assert (done.returncode, done.stdout.splitlines()[-1].split(b";")[0]) == (0, b"3 files: 3 done")
    assert b"skipped, files of other kinds: 1 (text: 1)" in done.stderr
    assert sorted(held(debug)) == ["a.ptl.ptdbg", "b.pt.ptdbg", "manifest.jsonl", "sub/c.ptl.ptdbg"]
    again = run("split", folder, "-o", small, "-c", debug, "-j", 1)
    assert (again.returncode, again.stdout.splitlines()[-1].split(b";")[0]) == (0, b"3 files: 3 same")
    assert run("join", small, "-c", debug, "-o", back, "-j", 1).returncode == 0
    before, after = held(folder), held(back)
    assert {name: after[name] for name in before if name != "notes.txt"} == {
        name: data for name, data in before.items() if name != "notes.txt"
    }
    lines = held(debug).pop("manifest.jsonl").splitlines()
    assert [json.loads(line)["outputs"][0]["path"] for line in lines] == [
        f"{small}/{name}" for name in ("a.ptl", "b.pt", "sub/c.ptl")
    ]


def test_a_second_run_does_what_has_changed_and_finds_what_was_not_told(folder: str) -> None:
    out = "memory://out"
    assert run("shrink", folder, "-o", out, "-j", 1).returncode == 0
    store = fsspec.filesystem("memory")
    store.pipe_file("/in/a.ptl", (ORACLES / "lowered_ok.ptl").read_bytes())
    store.pipe_file("/out.manifest.jsonl", store.cat("/out.manifest.jsonl").splitlines(keepends=True)[0])
    done = run("shrink", folder, "-o", out, "-j", 1)
    assert done.returncode == 0
    changed, *found, _ = done.stdout.splitlines()
    assert changed.startswith(b"memory://in/a.ptl: 13,122 -> ")
    assert changed.endswith(b"; done again: the input has changed")
    assert [line.split(b": ")[1] for line in found] == [
        b"8,198 -> 6,426 bytes (78.4%)",
        b"12,466 -> 9,078 bytes (72.8%)",
    ]


def test_globs_elsewhere(folder: str) -> None:
    assert (
        run("verify", f"{folder}/*.ptl").stdout
        == f"memory://in/a.ptl: {WELL}\n1 file: 1 well, 0 with findings, 0 not checked\n".encode()
    )
    found = files_of(run("sizes", f"{folder}/**/*.ptl", "--json").stdout)
    assert [one["file"] for one in found] == ["memory://in/a.ptl", "memory://in/sub/c.ptl"]
    done = run("verify", f"{folder}/*.onnx")
    assert (done.returncode, done.stderr) == (2, b"debug-archive: memory://in/*.onnx: nothing matches\n")


def test_an_output_among_the_inputs_is_no_input(folder: str) -> None:
    assert run("shrink", folder, "-o", f"{folder}/small", "-j", 1).returncode == 0
    again = run("shrink", folder, "-o", f"{folder}/small", "-j", 1)
    assert again.stdout.splitlines()[-1].startswith(b"3 files: 3 same")


def test_a_target_elsewhere_is_no_input_and_is_not_replaced(folder: str) -> None:
    file = f"{folder}/a.ptl"
    done = run("shrink", file, "-o", file)
    assert (done.returncode, done.stderr) == (
        2,
        f"debug-archive: {file}: is an input, too; nothing is written\n".encode(),
    )
    assert held(folder)["a.ptl"] == STACK.read_bytes()


def test_a_file_elsewhere_goes_to_standard_output(folder: str) -> None:
    done = run("shrink", f"{folder}/a.ptl", "-o", "-")
    assert done.stdout.startswith(b"PK")
    run("shrink", f"{folder}/a.ptl", "-o", "memory://small.ptl")
    assert held("memory://")["small.ptl"] == done.stdout


def test_http_takes_no_folders_either(folder: str, url: str) -> None:
    done = run("shrink", folder, "-o", url.replace("m.ptl", "out/"))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"out.manifest.jsonl: HTTP is for reading; write a file here and upload it\n" in done.stderr


def test_what_cannot_be_read_is_told_and_the_other_files_are_read(url: str) -> None:
    gone = url.replace("m.ptl", "gone.ptl")
    done = run("verify", url, gone, "--json")
    found = files_of(done.stdout)
    assert done.returncode == 2
    assert [one["file"] for one in found] == [url, gone]
    assert [one["message"] for file in found for one in file["diagnostics"]] == ["No such file or directory"]
