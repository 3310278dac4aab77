"""What `inspect` prints of files of tensors: metadata, classes, files beside them, and what is missing."""

from __future__ import annotations

import pickle
import struct
from typing import TYPE_CHECKING

from tests.attacks.pieces import pickled, several, text
from tests.support.commands import told, well
from tests.support.protobuf import field, onnx_entry, onnx_model, onnx_outside, onnx_tensor

if TYPE_CHECKING:
    from pathlib import Path

MODULE = several(text("module"), b"cmodels\nNet\n", text("models/net.py"), text("class Net:\n")) + b"Q"


def whole_module() -> bytes:
    """What ``torch.save`` wrote of a module before 1.6: its class stands with the source."""
    state = b"}(" + text("_parameters") + b"}" + text("_modules") + b"}u"
    facts: tuple[object, ...] = (0x1950A86A20F9469CFC6C, 1001, {})
    value = pickled(MODULE, b")\x81", state, b"b")
    return b"".join([*(pickle.dumps(fact, 2) for fact in facts), value, pickled(b"]")])


def test_classes_are_told_with_their_files(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    path.write_bytes(whole_module())
    lines = [line.rstrip() for line in well("inspect", path).splitlines()]
    what = "a whole module of class models.Net, saved by torch.save in its format before PyTorch 1.6"
    assert lines[0] == f"{path}: {len(whole_module())} bytes, {what}"
    assert "models.Net                11   models/net.py" in lines
    assert told("inspect", path)["sources"] == [{"name": "models.Net", "file": "models/net.py", "bytes": 11}]


def test_files_beside_a_model_are_told_and_those_that_are_not_there(tmp_path: Path) -> None:
    path, there = tmp_path / "m.onnx", tmp_path / "there.bin"
    there.write_bytes(struct.pack("<2f", 1, 2))
    files = (onnx_tensor(name, 1, (2,), onnx_outside(f"{name}.bin")) for name in ("there", "gone"))
    model = onnx_model(*files) + field(14, onnx_entry("note", "a" * 100))
    path.write_bytes(model)
    lines = [line.rstrip() for line in well("inspect", path).splitlines()]
    assert lines[2] == f"in 2 files: {path} ({len(model)} bytes), {there} (8 bytes)"
    assert lines[3] == "not there: gone.bin; tensors in it have no storage here"
    assert f"metadata_props.note   '{'a' * 78}…" in lines
    assert "there    float32   2           8   there.bin!/data:0-8" in lines
    assert "gone     float32   2           8" in lines
    facts = told("inspect", path)
    assert facts["files"] == {str(path): len(model), str(there): 8}
    assert facts["missing"] == ["gone.bin"]
    assert facts["metadata"] == {"ir_version": 9, "metadata_props.note": "a" * 100}
