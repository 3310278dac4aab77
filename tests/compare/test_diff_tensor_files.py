"""``diff`` of files of tensors that are no zips, with each other and with checkpoints."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save as safetensors_of

import archive
from archive.compare.changes import Status, TensorChange
from archive.compare.sameness import Level
from tests.support import onnx_bytes
from tests.support.commands import run
from tests.support.corpus import KINDS
from tests.support.onnx_bytes import entry, field
from tests.support.sampling import examples

if TYPE_CHECKING:
    from pathlib import Path

    from archive.compare.changes import Diff
    from archive.io.mapped import Source

ARRAYS: dict[str, np.ndarray] = {
    "fc.weight": np.arange(6, dtype=np.float32).reshape(3, 2),
    "scale": np.ones(2, np.float64),
}


def rows(old: Source, new: Source) -> dict[tuple[str, str], tuple[Level, str]]:
    """The level and words of each row, by what and name; but for the kinds of files."""
    changes = archive.diff(old, new).changes
    return {(row.what, row.name): (row.level, row.in_words) for row in changes if row.what != "file"}


@given(st.sampled_from(sorted(ARRAYS)), st.data())
@settings(max_examples=examples(30), deadline=None)
def test_one_bit_is_a_row_in_any_two_formats(name: str, data: st.DataObject) -> None:
    flipped = bytearray(ARRAYS[name].tobytes())
    flipped[data.draw(st.integers(0, len(flipped) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    changed = np.frombuffer(bytes(flipped), ARRAYS[name].dtype).reshape(ARRAYS[name].shape)
    for old in (safetensors_of(ARRAYS), onnx_bytes.model(ARRAYS)):
        arrays = dict(ARRAYS)
        arrays[name] = changed
        found = archive.diff(old, safetensors_of(arrays))
        assert [row.name for row in found.changes if isinstance(row, TensorChange)] == [name]
        (row,) = (row for row in found.changes if isinstance(row, TensorChange))
        assert (row.changed, row.bits, found.same_model) == (1, 1, False)


def test_tensors_come_go_and_change_their_kind() -> None:
    new: dict[str, np.ndarray] = {"scale": np.ones(2, np.float16), "fc.bias": np.zeros(3, np.float32)}
    assert rows(safetensors_of(ARRAYS), safetensors_of(new)) == {
        ("tensor", "scale"): (Level.MODEL, "float64 [2] → float16 [2]"),
        ("tensor", "fc.weight"): (Level.MODEL, "gone, float32 [3, 2]"),
        ("tensor", "fc.bias"): (Level.MODEL, "added, float32 [3]"),
    }


@pytest.mark.torch
@pytest.mark.parametrize("zipped", [True, False])
def test_a_state_dict_and_its_safetensors_are_the_same_model(zipped: bool) -> None:  # noqa: FBT001
    import torch  # noqa: PLC0415 (a test of PyTorch)

    weight, file = torch.from_numpy(ARRAYS["fc.weight"].T.copy()).T, io.BytesIO()
    scale = torch.from_numpy(ARRAYS["scale"].copy())
    tensors = {"fc.weight": torch.nn.Parameter(weight), "scale": scale}
    torch.save(tensors, file, _use_new_zipfile_serialization=zipped)
    found = archive.diff(file, safetensors_of(ARRAYS))
    assert found.same_model
    assert [row.what for row in found.changes] == ["file"]


@pytest.mark.torch
def test_what_a_checkpoint_has_besides_tensors_is_told() -> None:
    import torch  # noqa: PLC0415 (a test of PyTorch)

    file = io.BytesIO()
    torch.save({"scale": torch.ones(2), "epoch": 3}, file)
    found = archive.diff(file, safetensors_of({"scale": np.ones(2, np.float32)}))
    assert not found.same_model
    assert [line.partition(":")[0] for line in found.unchecked] == ["code, attributes and other values"]


@pytest.mark.torch
def test_attributes_of_tensors_and_keys_that_are_no_texts_are_told() -> None:
    import torch  # noqa: PLC0415 (a test of PyTorch)

    noted = torch.ones(2)
    noted.note = "a"
    for value, plain in (({"1": noted}, False), ({1: torch.ones(2)}, False), ({"1": torch.ones(2)}, True)):
        file = io.BytesIO()
        torch.save(value, file)
        assert archive.diff(file, safetensors_of({"1": np.ones(2, np.float32)})).same_model is plain


@pytest.mark.torch
def test_objects_are_compared_in_both_formats_of_torch_save(tmp_path: Path) -> None:
    import torch  # noqa: PLC0415 (a test of PyTorch)

    files = {zipped: tmp_path / f"{zipped}.pt" for zipped in (True, False)}
    for zipped, file in files.items():
        value = {"epoch": 3, "model": {"a": torch.ones(2), "b": torch.ones(3)}}
        torch.save(value, file, _use_new_zipfile_serialization=zipped)
    other = io.BytesIO()
    torch.save({"epoch": 4, "model": {"a": torch.ones(2), "b": torch.zeros(3)}}, other)
    assert archive.diff(files[False], files[True]).same_model
    assert set(rows(files[False], other)) > {("value", "epoch"), ("tensor", "model.b")}
    again = io.BytesIO()
    torch.save(
        {"epoch": 3, "model": {"a": torch.ones(2), "b": torch.ones(3)}},
        again,
        _use_new_zipfile_serialization=False,
    )
    assert archive.diff(files[False], again).same_model


def test_metadata_of_safetensors_are_extras() -> None:
    old, new = ({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"})
    found = rows(safetensors_of(ARRAYS, old), safetensors_of(ARRAYS, new))
    assert found == {
        ("metadata", "b"): (Level.EXTRAS, "2 → 3"),
        ("metadata", "c"): (Level.EXTRAS, "added, 4"),
    }


def gguf_of(path: Path, tokens: list[str], heads: int = 8) -> Path:
    """A model in GGUF."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_token_list(tokens)
    writer.add_head_count(heads)
    writer.add_tensor("scale", ARRAYS["scale"].copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_keys_of_gguf_are_of_the_model_also_the_items_of_arrays(tmp_path: Path) -> None:
    old = gguf_of(tmp_path / "old.gguf", ["a", "bc"])
    assert rows(old, gguf_of(tmp_path / "new.gguf", ["a", "bd"], 9)) == {
        ("metadata", "llama.attention.head_count"): (Level.MODEL, "8 → 9"),
        ("metadata", "tokenizer.ggml.tokens"): (Level.MODEL, "2 texts → others"),
    }


def test_the_type_of_a_value_of_gguf_is_of_the_model(tmp_path: Path) -> None:
    files = [tmp_path / "old.gguf", tmp_path / "new.gguf"]
    for file, add in zip(files, (gguf.GGUFWriter.add_uint32, gguf.GGUFWriter.add_int32), strict=True):
        writer = gguf.GGUFWriter(file, "llama")
        add(writer, "a.b", 1)
        writer.add_tensor("scale", ARRAYS["scale"].copy())
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    assert rows(*files) == {("metadata", "a.b"): (Level.MODEL, "1 → others")}


def blocks_of(path: Path, blocks: np.ndarray, kind: gguf.GGMLQuantizationType) -> Path:
    """A GGUF of one tensor in blocks."""
    writer = gguf.GGUFWriter(path, "none")
    writer.add_tensor("w", blocks, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("kind", [gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.Q6_K])
def test_quantised_tensors_differ_by_blocks(tmp_path: Path, kind: gguf.GGMLQuantizationType) -> None:
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    count = (1 << 20) // size + 10  # more than are compared at a time
    blocks = np.zeros((count, size), np.uint8)
    old = blocks_of(tmp_path / "old.gguf", blocks, kind)
    blocks[0, -1] = 3
    blocks[count - 2, 0] = blocks[count - 2, 1] = 1
    told = f"2 of {count:,} blocks of {elements} elements differ, 4 bits"
    assert rows(old, blocks_of(tmp_path / "new.gguf", blocks, kind)) == {("tensor", "w"): (Level.MODEL, told)}


@pytest.mark.parametrize(
    ("dtype", "elements", "size", "per_block"), [("F4", 6, 3, 2), ("F6_E2M3", 8, 6, 4), ("F6_E3M2", 4, 3, 4)]
)
def test_elements_of_less_than_a_byte_differ_by_blocks(
    dtype: str, elements: int, size: int, per_block: int
) -> None:
    header = json.dumps({"w": {"dtype": dtype, "shape": [elements], "data_offsets": [0, size]}}).encode()
    start = len(header).to_bytes(8, "little") + header
    told = f"1 of {elements // per_block} blocks of {per_block} elements differ, 2 bits"
    assert rows(start + bytes(size), start + bytes(size - 1) + b"\x81") == {
        ("tensor", "w"): (Level.MODEL, told)
    }


def test_of_onnx_the_writer_is_format_and_the_graph_is_the_model() -> None:
    def model(producer: str, node: str, note: str) -> bytes:
        more = field(2, producer) + field(14, entry("note", note))
        return onnx_bytes.model(ARRAYS, nodes=[field(4, node)], more=more)

    found = rows(model("pytorch", "Relu", "x"), model("other", "Tanh", "y"))
    assert {key: level for key, (level, _) in found.items()} == {
        ("metadata", "producer_name"): Level.FORMAT,
        ("metadata", "metadata_props.note"): Level.EXTRAS,
        ("graph", "graph"): Level.MODEL,
    }


def outside(folder: Path, data: bytes | None) -> Path:
    """A model whose weight is in a file beside it."""
    folder.mkdir()
    weight = field(1, 2) + field(2, 1) + field(8, "w") + field(13, entry("location", "w.bin")) + field(14, 1)
    (folder / "model.onnx").write_bytes(onnx_bytes.model({}, graph=field(5, weight)))
    if data is not None:
        (folder / "w.bin").write_bytes(data)
    return folder / "model.onnx"


def test_files_beside_a_model_count(tmp_path: Path) -> None:
    one, same, other, lacking = (
        outside(tmp_path / f"{at}", data) for at, data in enumerate((bytes(8), bytes(8), b"\1" * 8, None))
    )
    assert archive.diff(one, same).identical
    found = archive.diff(one, other)
    assert (found.identical, [row.name for row in found.changes]) == (False, ["w"])
    assert not archive.diff(one, lacking).same_model
    assert not archive.diff(lacking, lacking).same_model
    assert b"identical, to the byte\nnot compared: what is in w.bin" in run("diff", lacking, lacking).stdout


def sharded(folder: Path, *parts: list[str]) -> Path:
    """The weights in shards with an index."""
    folder.mkdir()
    for at, names in enumerate(parts):
        (folder / f"{at}.safetensors").write_bytes(safetensors_of({name: ARRAYS[name] for name in names}))
    weights = {name: f"{at}.safetensors" for at, names in enumerate(parts) for name in names}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
    return folder / "model.safetensors.index.json"


def test_shards_are_one_model(tmp_path: Path) -> None:
    both, one = (
        sharded(tmp_path / "both", *([name] for name in ARRAYS)),
        sharded(tmp_path / "one", list(ARRAYS)),
    )
    found: Diff = archive.diff(both, safetensors_of(ARRAYS))
    assert found.same_model
    assert [row.status for row in found.changes] == [Status.CHANGED]  # the kind of file
    assert archive.diff(both, one).same_model
    assert archive.diff(both, both).identical


def test_files_of_any_two_kinds_are_compared() -> None:
    names = ("legacy.pt", "state_dict.pt", "tensors.safetensors", "model.gguf", "model.onnx", "checkpoint.pt")
    for old in names:
        for new in names:
            done = run("diff", KINDS / old, KINDS / new)
            assert done.returncode == (old != new), (old, new, done.stderr)
