"""``digest --of weights``: one for a model's weights in every format that keeps their names."""

from __future__ import annotations

import hashlib
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
from archive.base.errors import ArchiveError
from archive.compare.digest.values import PIECE
from tests.support import onnx_bytes
from tests.support.commands import run
from tests.support.corpus import FIXTURES, KINDS, ORACLES
from tests.support.sampling import examples

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    Arrays = Mapping[str, np.ndarray]

ETRECORDS = [path for path in sorted(FIXTURES.rglob("*.etrecord")) if path.stem != "sized"]
"""Those with weights."""
DTYPES = ["float32", "float16", "float64", "int64", "int32", "int16", "int8"]
"""Those of all formats."""
PRINTED = "abz.é"
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@st.composite
def models(draw: st.DrawFn, letters: str = f"{PRINTED}\\\n\u2028") -> dict[str, np.ndarray]:
    """Weights by name, of random bytes."""
    names = draw(st.lists(st.text(letters, min_size=1, max_size=8), min_size=1, max_size=5, unique=True))
    weights = {}
    for name in names:
        dtype, shape = np.dtype(draw(st.sampled_from(DTYPES))), draw(SHAPES)
        size = dtype.itemsize * int(np.prod(shape))
        weights[name] = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), dtype).reshape(shape)
    return weights


def value(source: object, **options: str) -> str:
    """The digest of the weights of a file."""
    return archive.digest(source, of="weights", **options).value  # type: ignore[arg-type]


def expected(arrays: Arrays) -> str:
    """The digest as its specification has it."""
    lines = ["debug-archive weights 1"]
    for name, array in sorted(arrays.items()):
        data = array.tobytes()
        pieces = [hashlib.sha256(data[at : at + PIECE]).digest() for at in range(0, len(data), PIECE)]
        line = f"{array.dtype} {list(array.shape)}\n".encode()
        part = hashlib.sha256(line + hashlib.sha256(b"".join(pieces)).digest()).hexdigest()
        shown = name.replace("\\", r"\\").replace("\n", r"\n").replace("\u2028", r"\u2028")
        lines.append(f"{part}  {shown}")
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def gguf_of(arrays: Arrays, path: Path, *, big: bool) -> Path:
    """The weights in GGUF."""
    order = gguf.GGUFEndian.BIG if big else gguf.GGUFEndian.LITTLE
    writer = gguf.GGUFWriter(path, "none", endianess=order)
    for name, array in arrays.items():
        writer.add_tensor(name, array.copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def saved(arrays: Arrays, *, zipped: bool, turned: bool) -> io.BytesIO:
    """The weights in a file of ``torch.save``; ``turned``: the first dimension is the fastest."""
    import torch  # noqa: PLC0415 (a test of PyTorch asks)

    tensors = {}
    for name, array in arrays.items():
        tensor = torch.from_numpy(array.copy())
        order = tuple(reversed(range(tensor.ndim)))
        tensors[name] = tensor.permute(order).contiguous().permute(order) if turned else tensor
    file = io.BytesIO()
    torch.save(tensors, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    return file


def sharded(arrays: Arrays, folder: Path) -> Path:
    """The weights in two shards with an index."""
    names = list(arrays)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in parts.items():
        (folder / file).write_bytes(safetensors_of({name: arrays[name] for name in part}))
    index = folder / "model.safetensors.index.json"
    index.write_text(
        json.dumps({"weight_map": {name: file for file, part in parts.items() for name in part}})
    )
    return index


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("weights")


@given(models())
@settings(max_examples=examples(100), deadline=None)
def test_the_digest_is_as_specified_in_each_format(folder: Path, arrays: dict[str, np.ndarray]) -> None:
    wanted = expected(arrays)
    backwards = dict(reversed(arrays.items()))
    assert value(safetensors_of(arrays, {"format": "pt"})) == wanted
    assert value(safetensors_of(backwards)) == wanted
    assert value(onnx_bytes.model(arrays)) == wanted
    assert value(sharded(arrays, folder)) == wanted


@given(models())
@settings(max_examples=examples(50), deadline=None)
def test_gguf_has_it_in_both_byte_orders(folder: Path, arrays: dict[str, np.ndarray]) -> None:
    named = {name: array for name, array in arrays.items() if array.ndim and array.size}
    if named:
        for big in (False, True):
            assert value(gguf_of(named, folder / "model.gguf", big=big)) == expected(named)


@pytest.mark.torch
@given(models(PRINTED))
@settings(max_examples=examples(50), deadline=None)
def test_files_of_torch_save_have_it_whatever_their_strides(arrays: dict[str, np.ndarray]) -> None:
    for zipped in (True, False):
        for turned in (True, False):
            assert value(saved(arrays, zipped=zipped, turned=turned)) == expected(arrays)


@given(models(), st.data())
@settings(max_examples=examples(100), deadline=None)
def test_a_bit_a_shape_a_dtype_or_a_name_changes_it(
    arrays: dict[str, np.ndarray], data: st.DataObject
) -> None:
    before = value(safetensors_of(arrays))
    name = data.draw(st.sampled_from(sorted(arrays)))
    array = arrays[name]
    for other in changed(array):
        assert value(safetensors_of(arrays | {name: other})) != before
    others = {key: array for key, array in arrays.items() if key != name}
    assert value(safetensors_of({**others, f"{name}x": array})) != before


def changed(array: np.ndarray) -> Iterator[np.ndarray]:
    """The array with a bit changed, a dimension more, and another dtype."""
    if array.size:
        flipped = bytearray(array.tobytes())
        flipped[-1] ^= 1
        yield np.frombuffer(bytes(flipped), array.dtype).reshape(array.shape)
    yield array[None]
    yield array.view("uint8" if array.dtype == np.int8 else f"u{array.dtype.itemsize}")


def test_large_tensors_are_hashed_in_pieces() -> None:
    arrays = {"large": np.arange(PIECE // 4 + 5, dtype=np.int32)}
    assert value(safetensors_of(arrays)) == expected(arrays)


@pytest.mark.torch
def test_a_checkpoint_an_archive_and_an_exported_program_have_one(tmp_path: Path) -> None:
    import torch  # noqa: PLC0415 (a test of PyTorch)

    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).eval()
    model[0].bias = model[1].bias  # tied: a storage that two share
    torch.jit.save(torch.jit.script(model), script := tmp_path / "script.pt")
    torch.export.save(torch.export.export(model, (torch.ones(4, 3),)), exported := tmp_path / "exported.pt2")
    torch.save({"epoch": 3, "model": model.state_dict()}, checkpoint := tmp_path / "checkpoint.pt")
    torch.save(model, whole := tmp_path / "module.pt")
    arrays = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    assert {value(file) for file in (script, exported, whole)} == {expected(arrays)}
    assert value(checkpoint, prefix="model.") == expected(arrays)


def test_constants_of_code_are_no_weights() -> None:
    with archive.open(ORACLES / "plain_stack.pt") as opened:
        names = {name for name in opened.tensors if not name.startswith("CONSTANTS.c")}
    assert set(archive.digest(ORACLES / "plain_stack.pt", of="weights").parts) == names


WEIGHT = np.arange(3, dtype=np.float32)


def test_a_prefix_is_stripped_where_all_have_it_and_chooses_where_some_have() -> None:
    bare = value(safetensors_of({"a": WEIGHT, "b": WEIGHT}))
    wrapped = safetensors_of({"module.a": WEIGHT, "module.b": WEIGHT})
    some = safetensors_of({"module.a": WEIGHT, "module.b": WEIGHT, "step": WEIGHT})
    assert value(wrapped) != bare
    assert value(wrapped, prefix="module.") == bare
    assert value(safetensors_of({"a": WEIGHT, "b": WEIGHT}), prefix="module.") == bare
    chosen = archive.digest(some, of="weights", prefix="module.")
    assert (chosen.value, chosen.left_out) == (bare, 1)


def test_the_command_tells_what_it_leaves_out(tmp_path: Path) -> None:
    file = tmp_path / "some.safetensors"
    file.write_bytes(safetensors_of({"module.a": WEIGHT, "step": WEIGHT}))
    done = run("digest", "--of", "weights", "--prefix", "module.", file)
    assert done.stdout.decode() == f"weights-1:{expected({'a': WEIGHT})}  {file}\n"
    assert f"{file}: 1 weight without the prefix 'module.' left out" in done.stderr.decode()
    told = json.loads(run("digest", "--of", "weights", "--prefix", "module.", "--json", file).stdout)
    assert told["files"][0]["left_out"] == 1
    assert run("digest", "--prefix", "module.", file).returncode == 2


def test_lists_of_digests_of_weights_are_checked(tmp_path: Path) -> None:
    file, digests = tmp_path / "a.safetensors", tmp_path / "digests.txt"
    file.write_bytes(safetensors_of({"a": WEIGHT}))
    digests.write_bytes(run("digest", "--of", "weights", file).stdout)
    assert run("digest", "--check", digests).returncode == 0
    file.write_bytes(safetensors_of({"a": WEIGHT + 1}))
    assert run("digest", "--check", digests).returncode == 1


def test_what_is_not_in_the_file_has_no_digest(tmp_path: Path) -> None:
    outside = onnx_bytes.field(1, 3) + onnx_bytes.field(2, 1) + onnx_bytes.field(8, "w")
    outside += onnx_bytes.field(13, onnx_bytes.entry("location", "gone.bin")) + onnx_bytes.field(14, 1)
    file = tmp_path / "model.onnx"
    file.write_bytes(onnx_bytes.model({}, graph=onnx_bytes.field(5, outside)))
    with pytest.raises(ArchiveError, match="tensor 'w': expected elements, found none"):
        archive.digest(file, of="weights")
    with pytest.raises(ArchiveError, match="has no weights"):
        archive.digest(safetensors_of({}), of="weights")


def test_a_file_of_tensors_has_no_digest_of_a_model() -> None:
    with pytest.raises(ArchiveError, match="`digest --of weights` is of these"):
        archive.digest(KINDS / "tensors.safetensors")


@pytest.mark.parametrize("path", ETRECORDS, ids=lambda path: path.stem)
def test_weights_of_an_etrecord_are_the_models(path: Path) -> None:
    found = archive.digest(path, of="weights")
    assert not any(":" in name for name in found.parts)
    assert found.left_out == 0
    with archive.open(path) as opened:
        heads = {name.partition(":")[0] for name in opened.tensors if "_state_dict:" in name}
    head = "exported_program_state_dict" if "exported_program_state_dict" in heads else heads.pop()
    assert found.parts == archive.digest(path, of="weights", prefix=f"{head}:").parts
