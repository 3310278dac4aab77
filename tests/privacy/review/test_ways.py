"""What is said of a way out is true: its options fit the file, and with them the row is gone."""

from __future__ import annotations

import io
import json
import pickle
import re
from typing import TYPE_CHECKING, Any

import pytest
from safetensors.numpy import save

import archive
from archive.privacy.review.ways import OTHERWISE, WAYS, ways_out
from archive.reader.recognition import FileKind
from archive.reader.recognition.kinds import COMMAND_KINDS
from tests.privacy.review.planting import saved
from tests.support.canaries import CANARIES
from tests.support.commands import called
from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

KINDS = [
    *(FIXTURES / "kinds" / name for name in ("checkpoint.pt", "state_dict.pt", "object.pt", "module.pt")),
    *(
        FIXTURES / "kinds" / name
        for name in ("package.pt", "exported.pt2", "tensors.safetensors", "compiled.pt2")
    ),
    *(CANARIES / name for name in ("scripted.ptl", "exported.pt2", "record.etrecord", "checkpoint.pt")),
]
OPTION = re.compile(r"--[a-z]+(?: (?:[a-z]+\b|[A-Z]+=[A-Z]+))?|(?<![\w-])-c\b")
USAGE = 2
CHOICES = {"--names hash", "--paths basename", "--paths none", "--source none", "--for publish"}
ASKED = [
    *([], ["--for", "publish"], ["-c"], ["--replace", "zqx=b"], ["--replace", "zqx=b", "-c"]),
    *(["-c", "--for", "publish"], ["--names", "hash"], ["-c", "--names", "hash"], ["-c", "--paths", "none"]),
]


def run(path: Path, folder: Path, *options: str) -> Any:  # noqa: ANN401 (of click)
    """``redact`` of a file with a review."""
    given: list[object] = []
    for option in options:
        given += [option, folder / "c.ptdbg"] if option == "-c" else [option]
    review = ("--review", folder / "review.jsonl")
    return called("redact", path, "-o", folder / "out", *given, *review, "--force")


def test_each_kind_that_is_reviewed_has_a_way() -> None:
    for kind in COMMAND_KINDS["leaks"]:
        assert len(ways_out(kind, ["name", "key", "value"])) == 2
    assert ways_out(FileKind.ZIP, ["key"]) == [f"another text that must not be: {OTHERWISE[1]}"]
    assert ways_out(FileKind.ZIP, []) == []
    assert WAYS.keys() >= COMMAND_KINDS["redact"] - {FileKind.SPLIT}


@pytest.mark.parametrize("path", KINDS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_no_message_names_an_option_that_the_command_refuses_for_the_file(path: Path, tmp_path: Path) -> None:
    kind = archive.open(path).recognised.kind if path.suffix != ".safetensors" else FileKind.SAFETENSORS
    needs_companion = kind is not FileKind.SAFETENSORS
    tried = set()
    for asked in ASKED:
        for line in run(path, tmp_path, *asked).output.splitlines():
            if line.startswith(("Usage", "Try")) or "--accept-names" in line or "--partial" in line:
                continue
            told = line.partition(" instead of ")[0]
            for option in set(OPTION.findall(told)) & (
                CHOICES | {"--replace VALUE=TEXT", "--replace KEY=TEXT"}
            ):
                name, _, value = option.partition(" ")
                value = value.replace("VALUE=TEXT", "zqx=b").replace("KEY=TEXT", "zqx=b")
                if (name, value) in tried:
                    continue
                tried.add((name, value))
                companion = ["-c"] if needs_companion and name != "--replace" else []
                again = run(path, tmp_path, *companion, name, value)
                refused = re.search(r"leave out|stay \(|is for |applies to|goes without", again.output)
                assert (again.exit_code != USAGE, refused) == (True, None), (line, again.output)


def texts(data: bytes) -> set[str]:
    return {row.text for row in archive.review(data).rows}


def test_texts_of_a_checkpoint_go_by_replacing_them() -> None:
    data = saved(
        pickle.dumps({"Zephyrine": "Osterhagn AG", "note": ["by Kirkpatrick"], "Mueller.weight": 1.5})
    )
    before, out = texts(data), io.BytesIO()
    planted = {"Zephyrine", "Osterhagn AG", "by Kirkpatrick", "Mueller.weight"}
    assert planted <= before
    archive.redact_checkpoint(data, out, replace=[f"{text}=x{number}" for number, text in enumerate(planted)])
    assert not planted & texts(out.getvalue())


def test_texts_of_safetensors_metadata_go_by_replacing_them() -> None:
    data, out = save({}, {"Zephyrine": "Osterhagn AG"}), io.BytesIO()
    assert {"Zephyrine", "Osterhagn AG"} <= texts(data)
    archive.redact_metadata(data, out, replace=["Zephyrine=x", "Osterhagn AG=y"])
    assert not {"Zephyrine", "Osterhagn AG"} & texts(out.getvalue())


@pytest.mark.parametrize("name", ["scripted.ptl", "exported.pt2"])
def test_names_of_classes_go_by_hashing_and_lines_by_leaving_them_out(name: str) -> None:
    path, out = CANARIES / name, io.BytesIO()
    before = texts(path.read_bytes())
    archive.redact(
        path, out, io.BytesIO(), names="hash", text="none", paths="none", inputs=False, partial=True
    )
    after = texts(out.getvalue())
    assert "zqclassxz" in before - after
    lines = {row.text for row in archive.review(path).rows if "return " in row.text}
    assert lines
    assert not lines & after


def test_a_name_by_itself_does_not_go_with_a_path() -> None:
    alone = saved(pickle.dumps({"author": "Hans Osterhagn"}))
    both = saved(pickle.dumps({"path": "/home/zquserxz/net.pt", "user": "zquserxz"}))
    carried = saved(pickle.dumps({"path": "/home/zquserxz/net.pt"}))
    ways = [
        {one.remedy for one in archive.leaks(data).findings if one.kind == "user name"}
        for data in (alone, both, carried)
    ]
    part = "goes with the path or address that it is part of"
    assert all(len(some) == 1 for some in ways)
    (first,), (second,), (third,) = ways
    assert first.startswith("`redact --replace VALUE=TEXT` changes it")
    assert second == f"{part}; by itself: {first}"
    assert third == part


def test_the_review_of_a_whole_module_names_no_option(tmp_path: Path) -> None:
    path = FIXTURES / "kinds" / "module.pt"
    done = called("leaks", path, "--review", tmp_path / "review.jsonl")
    lines = [line for line in done.stdout.splitlines() if "that must not be" in line]
    assert all("`state_dict()`" in line and "redact" not in line for line in lines)
    assert json.loads((tmp_path / "review.jsonl").read_text().splitlines()[0])["rows"] == 0 or lines


def test_names_that_carry_a_persons_are_not_said_to_be_hashed_where_they_stay(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(saved(pickle.dumps({"path": "/home/zquserxz/x.pt", "ZquserxzNet.weight": 1.5})))
    done = run(path, tmp_path, "-c", "--for", "publish")
    assert "names that carry that of a person or a machine: ZquserxzNet" in done.output
    assert "--names hash" not in done.output
