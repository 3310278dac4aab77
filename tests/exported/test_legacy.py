"""What ``torch.export.save`` of PyTorch 2.1 to 2.7 wrote: told, inspected, and its nodes looked up."""

from __future__ import annotations

import io
import json
import traceback
import zipfile
from typing import TYPE_CHECKING

import pytest

import archive
from archive.base.errors import ArchiveError
from archive.formats.record_kinds import programs_in
from archive.reader.recognition import FileKind, recognise
from tests.support.commands import run
from tests.support.exported import EXPORTED

if TYPE_CHECKING:
    from pathlib import Path

LEGACY, SHOP = EXPORTED / "legacy" / "shop.pt2", EXPORTED / "shop.pt2"
READ = "`inspect`, `sizes`, `symbolicate`, `verify`, `leaks` and `redact` work on it"
TOLD = f"as PyTorch 2.1 to 2.7 saved them: {READ}"


def test_it_is_told_with_what_works_on_it_and_the_way_out(tmp_path: Path) -> None:
    found = recognise(LEGACY)
    assert found.kind is FileKind.LEGACY_EXPORTED
    assert TOLD in str(found)
    assert "once PyTorch 2.8 or later exports the model anew" in str(found)
    for verb in ("split", "shrink", "restore", "migrate --to latest"):
        done = run(*verb.split(), LEGACY, "-o", tmp_path / "out")
        assert (done.returncode, TOLD in done.stderr.decode()) == (2, True)
    assert not (tmp_path / "out").exists()


def test_its_nodes_are_looked_up_like_those_of_today() -> None:
    with archive.open(LEGACY) as legacy, archive.open(SHOP) as today:
        assert list(legacy.programs) == ["model"]
        assert list(legacy.programs["model"].sites) == list(today.programs["model"].sites)
    done = run("symbolicate", LEGACY, "embedding_1")
    assert done.stdout == run("symbolicate", SHOP, "embedding_1").stdout
    log = (EXPORTED / "shop.interpreter.stripped.txt").read_bytes()
    assert run("symbolicate", LEGACY, stdin=log).stdout == (EXPORTED / "shop.interpreter.txt").read_bytes()


def test_inspect_and_sizes_show_its_records() -> None:
    facts = json.loads(run("inspect", LEGACY, "--json").stdout)
    assert facts["programs"]["model"]["traced"] == 26
    assert {name: record["kind"] for name, record in facts["records"].items()} == {
        "serialized_exported_program.json": "exported program",
        "serialized_state_dict.pt": "tensor",
        "serialized_constants.pt": "tensor",
        "serialized_example_inputs.pt": "sample inputs",
        "version": "archive format",
        "extra_files/notes.txt": "extra file",
    }
    sizes = archive.sizes(LEGACY)
    assert sum(size.stored for size in sizes.by("kind").values()) == LEGACY.stat().st_size


def test_a_file_of_that_name_in_a_folder_is_none() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made, zipfile.ZipFile(LEGACY) as legacy:
        for name in legacy.namelist():
            made.writestr(f"m/{name}", legacy.read(name))
    assert recognise(out.getvalue()).kind is FileKind.ZIP
    assert programs_in(["serialized_exported_program.json"], "m") == {}


@pytest.mark.parametrize("program", [b"{}", b"[", b"\xff"])
def test_a_broken_program_is_told_with_its_record(program: bytes) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("serialized_exported_program.json", program)
    with (
        archive.open(out.getvalue(), name="m.pt2") as opened,
        pytest.raises(ArchiveError, match=r"m\.pt2: serialized_exported_program\.json"),
    ):
        _ = opened.programs["model"].sites


def changed(**contents: bytes | None) -> bytes:
    """The file with other contents of some records, by names without endings; None takes one out."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made, zipfile.ZipFile(LEGACY) as legacy:
        for name in legacy.namelist():
            content = contents.get(name.partition(".")[0], legacy.read(name))
            if content is not None:
                made.writestr(name, content)
    return out.getvalue()


def program(old: bytes, new: bytes) -> bytes:
    """The program with one place changed."""
    with zipfile.ZipFile(LEGACY) as legacy:
        data = legacy.read(f"{PROGRAM}.json")
    assert old in data
    return data.replace(old, new, 1)


PROGRAM = "serialized_exported_program"
REFUSED: dict[str, dict[str, bytes | None]] = {
    "expected a record version, found none": {"version": None},
    "expected 2 numbers, found '8'": {"version": b"8"},
    "expected a record serialized_state_dict.pt, found none": {"serialized_state_dict": None},
    "expected a record serialized_constants.pt, found none": {"serialized_constants": None},
    "expected a record serialized_example_inputs.pt, found none": {"serialized_example_inputs": None},
    "'other'": {PROGRAM: program(b'{"name": "first"}', b'{"name": "other"}')},
    "expected 8, found 7": {
        PROGRAM: program(b'"schema_version": {"major": 8', b'"schema_version": {"major": 7')
    },
    "signature": {PROGRAM: program(b'"signature"', b'"signatures"')},
}
"""Changed files, by a part of what is said of them."""


def test_a_sound_one_has_no_findings_but_pickles() -> None:
    assert {(one.severity, one.record) for one in archive.verify(LEGACY)} == {
        ("note", "serialized_state_dict.pt"),
        ("note", "serialized_constants.pt"),
    }


@pytest.mark.parametrize("why", REFUSED)
def test_what_pytorch_refuses_is_an_error(why: str) -> None:
    found = archive.verify(changed(**REFUSED[why]))
    assert any(one.severity == "error" and why in one.message for one in found)


@pytest.mark.torch
@pytest.mark.parametrize("why", REFUSED)
def test_pytorch_refuses_it_so(why: str) -> None:
    import torch  # noqa: PLC0415 (an extra)

    data = changed(**REFUSED[why])
    told = [one.message for one in archive.verify(data) if one.severity == "error"]
    try:
        torch.export.load(io.BytesIO(data))
    except Exception as error:  # noqa: BLE001 (of any kind)
        refused = "".join(traceback.format_exception_only(error))
    else:
        refused = ""
    assert any(message.partition('"')[2].rstrip('"') in refused for message in told if '"' in message)


@pytest.mark.torch
def test_another_schema_is_noted_and_pytorch_refuses_it() -> None:
    import torch  # noqa: PLC0415 (an extra)

    data = changed(version=b"7.3")
    found = archive.verify(data)
    assert {one.severity for one in found} == {"note"}
    assert any("of schema '7.3'; PyTorch 2.13 reads 8 alone" in one.message for one in found)
    with pytest.raises(RuntimeError, match="does not match our current schema version"):
        torch.export.load(io.BytesIO(data))


@pytest.mark.torch
def test_pytorch_loads_it() -> None:
    import torch  # noqa: PLC0415 (an extra)

    assert len(torch.export.load(LEGACY).graph_module.graph.nodes) > 26
