"""Models in several files are read as one; files of tensors elsewhere by their headers alone."""

from __future__ import annotations

import io
import json
import os
from typing import TYPE_CHECKING, Any

import fsspec
import gguf
import numpy as np
import pytest
from safetensors.numpy import save

import archive
from archive import ArchiveError, FileKind
from archive.check.verify import verify
from archive.cli.status import ExitStatus
from archive.describe.tensor_listing import listed_tensors
from archive.io.mapped import in_memory
from tests.support.commands import called, told
from tests.support.corpus import FIXTURES, KINDS
from tests.support.object_store import BUCKET, s3
from tests.support.protobuf import field, onnx_model, onnx_outside, onnx_tensor
from tests.support.range_server import served
from tests.support.tensor_files import bytes_of, labels_of

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

    from fsspec.implementations.memory import MemoryFileSystem

INDEX = "model.safetensors.index.json"
MIB = 1 << 20
ARRAYS = {f"layers.{at}.weight": np.arange(6.0).reshape(2, 3) + at for at in range(4)}


def shards() -> dict[str, bytes]:
    """The files of a model in two shards."""
    names = {key: f"model-0000{at // 2 + 1}-of-00002.safetensors" for at, key in enumerate(ARRAYS)}
    files = {
        shard: save({key: array for key, array in ARRAYS.items() if names[key] == shard})
        for shard in names.values()
    }
    return {INDEX: index(names), **files, "config.json": b'{"model_type": "net"}'}


def index(names: Mapping[str, Any], **more: object) -> bytes:
    """An index."""
    return json.dumps({"metadata": {"total_size": 192}, "weight_map": names, **more}).encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with such a model."""
    model = tmp_path / "model"
    model.mkdir()
    for name, data in shards().items():
        (model / name).write_bytes(data)
    return model


@pytest.fixture
def memory() -> Generator[MemoryFileSystem]:
    store = fsspec.filesystem("memory")
    yield store
    store.store.clear()


# --- shards


@pytest.mark.parametrize("mapped", [True, False])
def test_shards_are_one_model(folder: Path, *, mapped: bool) -> None:
    for source in (folder, folder / INDEX):
        with archive.open(source, mapped=mapped) as opened:
            assert opened.recognised.kind is FileKind.SHARDED
            assert opened.recognised.what == "a model of 4 tensors in 2 shards"
            assert {name: bytes_of(opened, name) for name in opened.tensors} == {
                name: array.tobytes() for name, array in ARRAYS.items()
            }
            assert opened.tensors["layers.3.weight"].record == (
                "model-00002-of-00002.safetensors!/data/layers.3.weight"
            )
            files = [folder / INDEX, *folder.glob("*.safetensors")]
            assert opened.size == sum(file.stat().st_size for file in files)
    for labels in labels_of(folder / INDEX):
        assert sum(labels.values()) == opened.size


def test_shards_may_be_files_of_torch_save(tmp_path: Path) -> None:
    for name in ("state_dict.pt", "legacy.pt"):
        (tmp_path / name).write_bytes((KINDS / name).read_bytes())
    with archive.open(KINDS / "state_dict.pt") as alone:
        names = dict.fromkeys(alone.tensors, "state_dict.pt")
    (tmp_path / "pytorch_model.bin.index.json").write_bytes(index(names))
    with archive.open(tmp_path) as opened, archive.open(KINDS / "state_dict.pt") as alone:
        for name in alone.tensors:
            assert bytes_of(opened, name) == bytes_of(alone, name)
    for labels in labels_of(tmp_path / "pytorch_model.bin.index.json"):
        assert sum(labels.values()) == opened.size


def test_links_to_shards_are_followed_as_a_cache_of_the_hub_has_them(folder: Path) -> None:
    blobs = folder.parent / "blobs"
    blobs.mkdir()
    for at, path in enumerate(sorted(folder.iterdir())):
        path.rename(blobs / f"{at}")
        path.symlink_to(os.path.relpath(blobs / f"{at}", folder))
    with archive.open(folder) as opened:
        assert opened.tensors.keys() == ARRAYS.keys()


FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
WRONG: dict[str, tuple[dict[str, bytes], str]] = {
    "a shard is not there": (
        {INDEX: index({"a": "gone.safetensors"})},
        "gone.safetensors: expected a shard that the index names, found no such file",
    ),
    "a tensor is not there": (
        {INDEX: index({"a": FIRST})},
        f"{FIRST}: expected tensor 'a', as the index says, found none",
    ),
    "a tensor is there twice": (
        {SECOND: shards()[FIRST], INDEX: index({"layers.0.weight": FIRST, "layers.1.weight": SECOND})},
        f"{SECOND}: tensor 'layers.0.weight' is in another shard, too",
    ),
    "a shard lies outside": (
        {INDEX: index({"a": "../a.safetensors"})},
        "weight_map, tensor 'a': expected a file in the folder of the index, found '../a.safetensors'",
    ),
    "a shard is no text": (
        {INDEX: index({"a": 1})},
        "weight_map, tensor 'a': expected a file in the folder of the index, found 1",
    ),
    "half of a pair of surrogates": (
        {INDEX: index({"a": "\ud800"})},
        "weight_map, tensor 'a': expected a file in the folder of the index, found '\\ud800'",
    ),
    "no tensor is named": (
        {INDEX: index({})},
        "weight_map: expected an object with the file of each tensor, found {}",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_index_that_is_not_so_is_refused(name: str, folder: Path) -> None:
    files, problem = WRONG[name]
    for file, data in files.items():
        (folder / file).write_bytes(data)
    with pytest.raises(ArchiveError) as caught:
        archive.open(folder / INDEX)
    assert str(caught.value) == f"{folder / INDEX}: {problem}"


def test_an_index_names_no_index_and_no_archive(folder: Path) -> None:
    (folder / "other.json").write_bytes(index({"a": INDEX}))
    (folder / "script.json").write_bytes(index({"a": "script.pt"}))
    (folder / "script.pt").write_bytes((FIXTURES / "oracles" / "plain_stack.pt").read_bytes())
    for name in ("other.json", "script.json"):
        with pytest.raises(ArchiveError, match=r"it holds no TorchScript|a TorchScript archive"):
            archive.open(folder / name)


def test_of_bytes_there_is_no_shard() -> None:
    with pytest.raises(ArchiveError, match="expected a shard that the index names, found no such file"):
        archive.open(shards()[INDEX])


# --- folders


def test_an_index_hides_no_index(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(index({"a": "b.json"}))
    (tmp_path / "b.json").write_bytes(index({"a": "a.json", "b": "b.json"}))
    done = called("inspect", tmp_path)
    assert done.exit_code == ExitStatus.FAILED
    assert done.stdout.endswith("\ncould not be read: 2 files\n")


def test_a_folder_lists_a_model_in_shards_once(folder: Path) -> None:
    done = called("inspect", folder)
    assert done.stderr == "debug-archive: skipped, files of other kinds: 1 (JSON: 1)\n"
    listed = done.stdout.splitlines()
    with archive.open(folder) as opened:
        size = opened.size
    assert listed[0].startswith(f"{folder / INDEX}: model in shards, {size:,} bytes, ")
    assert [line.split()[1:3] for line in listed if line.startswith("total")] == [["1", f"{size:,}"]] * 2
    measured: Any = told("sizes", folder / INDEX, "--by", "weights")
    assert sum(label["stored"] for label in measured["labels"].values()) == measured["size"] == size
    (folder / SECOND).rename(folder / "spare.safetensors")
    done = called("inspect", folder)
    assert done.exit_code == ExitStatus.FAILED
    assert "expected a shard that the index names" in done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{folder / 'spare.safetensors'}: safetensors, ")
    assert lines[-1] == "could not be read: 1 file"


def test_the_first_model_of_a_folder_is_opened(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(save({"a": np.ones(2)}))
    with archive.open(folder) as opened:
        assert opened.recognised.kind is FileKind.SHARDED
    (folder / INDEX).unlink()
    with archive.open(folder) as opened:
        assert list(opened.tensors) == ["a"]
    (folder / "model.safetensors").unlink()
    with pytest.raises(ArchiveError, match="expected a file, found d"):
        archive.open(folder)


# --- files elsewhere


def gguf_file(path: Path, rows: int) -> bytes:
    """A model with tokens, and with rows of weights."""
    writer = gguf.GGUFWriter(path, "net")
    writer.add_array("tokenizer.ggml.tokens", [f"token {at}" for at in range(20_000)])
    for at in range(4):
        writer.add_tensor(f"w.{at}", np.zeros((rows, 1024), "f4"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def onnx_file(rows: int) -> bytes:
    """A model with weights in it."""
    return onnx_model(
        *(onnx_tensor(f"w.{at}", 1, (rows, 1024), field(9, bytes(4096 * rows))) for at in range(4))
    )


def test_of_files_elsewhere_headers_are_fetched_and_no_weights(tmp_path: Path) -> None:
    rows = 4 * MIB // 4096
    weights = save({f"w.{at}": np.zeros((rows, 1024), "f4") for at in range(4)})
    files = {
        "/m.safetensors": weights,
        "/m.gguf": gguf_file(tmp_path / "m.gguf", rows),
        "/m.onnx": onnx_file(rows),
    }
    most = {"/m.safetensors": (2, MIB // 4), "/m.gguf": (3, 2 * MIB), "/m.onnx": (6, MIB)}
    with served(files) as state:
        for name, data in files.items():
            state.requests.clear()
            state.sent = 0
            facts = listed_tensors(f"{state.url}{name}")
            assert {one.bytes for one in facts.tensors.values()} == {4 * MIB}
            assert facts.size == len(data)
            requests, sent = most[name]
            assert len(state.requests) <= requests, name
            assert state.sent <= sent, name
            state.sent = 0
            account = archive.sizes(f"{state.url}{name}")
            assert sum(one.stored for one in account.by("weights").values()) == len(data)
            assert state.sent <= sent, name
            with archive.open(f"{state.url}{name}") as opened:
                assert bytes_of(opened, "w.3") == bytes(4 * MIB)


def test_the_pickles_of_a_file_of_torch_save_elsewhere_are_fetched(memory: MemoryFileSystem) -> None:
    data = (KINDS / "legacy.pt").read_bytes()
    memory.pipe_file("/legacy.pt", data)
    with archive.open("memory://legacy.pt") as there, archive.open(data) as here:
        assert {name: bytes_of(there, name) for name in there.tensors} == {
            name: bytes_of(here, name) for name in here.tensors
        }


def test_models_in_several_files_are_read_from_buckets_too(folder: Path) -> None:
    weights = onnx_model(onnx_tensor("w", 1, (2,), onnx_outside("data/w.bin")))
    with s3() as store:
        for name, data in (*shards().items(), ("m.onnx", weights), ("data/w.bin", bytes(8))):
            store.pipe_file(f"{BUCKET}/zoo/{name}", data)
        for url in (f"{BUCKET}/zoo/", f"{BUCKET}/zoo/{INDEX}"):
            with archive.open(url) as opened, archive.open(folder) as here:
                assert opened.size == here.size
                for name in here.tensors:
                    assert bytes_of(opened, name) == bytes_of(here, name)
        with archive.open(f"{BUCKET}/zoo/m.onnx") as opened:
            assert bytes_of(opened, "w") == bytes(8)
        lines = called("inspect", f"{BUCKET}/zoo/").stdout.splitlines()
    assert [line.partition(": ")[2].partition(",")[0] for line in lines[: lines.index("")]] == [
        "ONNX model",
        "model in shards",
    ]


# --- as archives


@pytest.mark.parametrize("name", ["legacy.pt", "model.gguf", "model.onnx", "tensors.safetensors"])
def test_what_is_asked_of_archives_is_none_or_refused(name: str) -> None:
    with archive.open(KINDS / name) as opened:
        assert not opened.handles
        assert not opened.programs
        assert not verify(opened)
        for refused in (lambda: opened.container, lambda: opened.archive_id):
            with pytest.raises(ArchiveError, match="it holds no TorchScript code"):
                refused()
        out = io.BytesIO()
        opened.save(out)
        assert out.getvalue() == (KINDS / name).read_bytes()


def test_what_was_read_into_memory_finds_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(8))
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx_model(onnx_tensor("w", 1, (2,), onnx_outside("w.bin"))))
    with path.open("rb") as file:
        for source in (in_memory(path), file):
            with archive.open(source) as opened:
                assert bytes_of(opened, "w") == bytes(8)
