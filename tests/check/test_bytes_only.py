"""``verify`` of files that it does not look into: flipped bits are found, and it says how far it looked."""

from __future__ import annotations

import json
import shutil
import zipfile
from typing import TYPE_CHECKING

import pytest

from archive.base.limits import Limits
from archive.check.verify import verification, verify
from archive.container.container import Container
from archive.reader.recognition.kinds import PARSED_KINDS, FileKind, claims
from tests.support.commands import called
from tests.support.corpus import FIXTURES, KINDS, NAMED
from tests.support.zips import with_flipped_bit

if TYPE_CHECKING:
    from pathlib import Path

SAVED = [
    *("state_dict.pt", "checkpoint.pt", "module.pt", "tensor.pt", "object.pt", "package_python.pt"),
    "repository.zip",
]
TENSORS = ["legacy.pt", "model.gguf", "tensors.safetensors", "program.pte"]


@pytest.mark.parametrize("name", SAVED)
def test_a_flipped_bit_of_any_record_is_found_in_it(name: str) -> None:
    path = KINDS / name
    assert NAMED[name][0] not in PARSED_KINDS
    assert not verify(path)
    with Container.open(path) if name != "repository.zip" else _loose(path) as container:
        records = [record for record in container.records.values() if record.stored_size]
        for record in records:
            at = record.place.data + record.stored_size // 2
            (finding,) = verify(with_flipped_bit(path, at))
            assert (finding.severity, finding.record) == ("error", record.name)
        checked = verification(path).checked
        assert checked[0] == f"{len(container.records)} records read whole"
        assert checked[1] == f"{len(container.records)} checksums compared"


def _loose(path: Path) -> Container:
    from archive.io.mapped import Mapped  # noqa: PLC0415 (for a zip without a root)

    return Container(Mapped(path), rooted=False)


@pytest.mark.parametrize("name", [*SAVED, *TENSORS, "model.onnx"])
def test_what_is_well_is_said_with_what_was_not_looked_at(name: str, tmp_path: Path) -> None:
    path = shutil.copy(KINDS / name, tmp_path)
    found = verification(path)
    assert (found.diagnostics, len(found.unchecked)) == ([], 1)
    line = called("verify", path).stdout
    assert line.startswith(f"{path}: well")
    assert line.endswith(f"; not looked at: {found.unchecked[0]}\n")
    (facts,) = json.loads(called("verify", path, "--json").stdout)["files"]
    assert facts["unchecked"] == list(found.unchecked)
    if name != "repository.zip":
        assert called("verify", tmp_path).stdout.splitlines()[-1].startswith("1 file: 1 well, ")


@pytest.mark.parametrize("name", TENSORS)
def test_a_file_without_checksums_says_so_and_a_short_one_is_not_well(name: str) -> None:
    data = (KINDS / name).read_bytes()
    assert "no checksums" in verification(data).unchecked[0]
    assert {finding.severity for finding in verify(data[:-40])} <= {"error", "not checked"}
    assert verify(data[:-40])


def test_a_model_without_its_file_of_weights_is_not_well(tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "zoo" / "outside.onnx", tmp_path)
    (finding,) = verify(tmp_path / "outside.onnx")
    assert (finding.severity, finding.record) == ("error", "outside.bin")
    shutil.copy(FIXTURES / "zoo" / "outside.bin", tmp_path)
    assert not verify(tmp_path / "outside.onnx")


def test_shards_that_are_zips_are_compared_with_their_checksums(tmp_path: Path) -> None:
    shard, index = tmp_path / "pytorch_model-1.bin", tmp_path / "pytorch_model.bin.index.json"
    shutil.copy(KINDS / "state_dict.pt", shard)
    with Container.open(shard) as container:
        place = container.records["data/0"].place.data
    names = ["fc.weight", "fc.bias", "scale"]
    index.write_text(json.dumps({"metadata": {}, "weight_map": dict.fromkeys(names, shard.name)}))
    assert not verify(index)
    shard.write_bytes(with_flipped_bit(shard, place))
    (finding,) = verify(index)
    assert finding.record == f"{shard.name}!/data/0"


def test_no_record_is_kept_however_long_it_is_inflated(tmp_path: Path) -> None:
    path = tmp_path / "long.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name in "abc":
            made.writestr(f"folder/{name}", bytes(1 << 24))
    assert not verify(path, limits=Limits(memory=1 << 20))


def test_a_zip_that_is_to_be_made_otherwise_is_not_called_well() -> None:
    (finding,) = verify(KINDS / "loose.zip")
    assert (finding.severity, NAMED["loose.zip"][0]) == ("not checked", FileKind.ZIP)


@pytest.mark.parametrize("name", ["model.pt", "a.PTL", "pytorch_model.bin", "model.safetensors", "files.zip"])
def test_a_zip_that_is_named_like_a_model_and_is_none_is_not_called_well(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("a.txt", "hello")
    findings = verify(path)
    assert [finding.severity for finding in findings] == ["not checked"] * claims(name)
    assert called("verify", path).exit_code == 2 * claims(name)
