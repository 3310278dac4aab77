"""Handles that a server looks up: it says of each kind of files what the command prints of the same file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive.base.errors import ArchiveError
from archive.reader.recognition.kinds import COMMAND_KINDS
from archive.server import work
from archive.store.store import Store
from tests.support.commands import run
from tests.support.corpus import KINDS, NAMED, ORACLES
from tests.support.documents import file_of
from tests.support.exported import EXPORTED

if TYPE_CHECKING:
    from pathlib import Path

LOOKED_UP = COMMAND_KINDS["store"] & COMMAND_KINDS["symbolicate"]
SAMPLES = [
    *(KINDS / name for name, (kind, _) in NAMED.items() if kind in LOOKED_UP),
    *(ORACLES / name for name in ("plain_stack.pt", "plain_stack.ptl")),
    EXPORTED / "shop.pt2",
]
CHAINS = [[0], [1], [2], [17], [1, 2], [99_999_999]]


def answered(folder: Path, file: Path, handles: list[int]) -> dict[str, Any]:
    """What a server of a store with one file says of handles."""
    with archive.open(file) as opened:
        archive_id = opened.archive_id.hex()
    with Store.open(folder / "store", create=True) as store:
        store.add(file)
    work.prepare(str(folder / "store"), 1 << 24)
    body, answer = folder / "body", folder / "answer"
    body.write_text(json.dumps({"handles": handles, "archive": archive_id}), "utf-8")
    assert work.explain_json(body, answer) is None
    facts = json.loads(answer.read_bytes())
    assert facts.pop("archive") == archive_id
    assert isinstance(facts, dict)
    return facts


def check(folder: Path, file: Path, handles: list[int]) -> bool:
    """Compare a server with the command; whether they know the handles."""
    said, word, companion = answered(folder, file, handles), ",".join(map(str, handles)), folder / "c.ptdbg"
    archive.split(file, folder / "small", companion, force=True)
    done, model = run("symbolicate", companion, word, "--json"), said.pop("model")
    shown = file_of(done.stdout)["symbolications"]
    notes = said.pop("notes")
    assert said["found"] == (done.returncode == 0) == (not notes)
    assert said["handles"] == handles
    for note in notes:
        why = note.removeprefix(model)
        assert why != note
        assert why in done.stderr.decode()
    if "symbolications" in said:
        assert said["symbolications"] == shown
        assert said["text"] == "\n".join(one["text"] for one in shown)
    else:
        assert [said] == shown
    return bool(said["found"])


@pytest.mark.parametrize("file", SAMPLES, ids=lambda file: file.name)
def test_a_server_says_of_handles_what_the_command_prints(file: Path, tmp_path: Path) -> None:
    known = [handles for handles in CHAINS if check(tmp_path, file, handles)]
    with archive.open(file) as opened:
        assert known == [handles for handles in CHAINS if opened.handles.keys() >= set(handles)]


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")  # export warns of much
def test_a_server_knows_the_nodes_of_programs_that_were_lowered_in_parts(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", exc_type=ImportError)
    from torch.export.pt2_archive._package import package_pt2  # noqa: PLC0415 (needs PyTorch)

    from archive.backend import lower  # noqa: PLC0415 (the same)
    from tests.backend.partitioned import Failing, exported  # noqa: PLC0415 (the same)

    program = lower(exported(Failing(), torch.arange(3)), "aten")
    one, several = tmp_path / "one.pt2", tmp_path / "several.pt2"
    torch.export.save(program, one)
    package_pt2(several, exported_programs={"left": program, "right": program})
    known = [handles for handles in CHAINS if check(tmp_path, one, handles)]
    assert known == [[0], [1], [2]]
    (tmp_path / "two").mkdir()
    both = answered(tmp_path / "two", several, [1])
    assert [node["program"] for node in both["symbolications"]] == ["left", "right"]
    assert both["text"].count("return x.relu() + 1") == 2
    assert check(tmp_path / "two", several, [1])
    with archive.open(one) as opened, pytest.raises(ArchiveError, match="node"):
        opened.symbolicate(1)
