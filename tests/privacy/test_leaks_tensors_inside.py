"""A file of tensors gives away the same in a record, in bytes of a pickle, encoded, packed, as on its own."""

from __future__ import annotations

import base64
import gzip
import io
import pickle
import zipfile
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import gguf
import numpy as np
import pytest
from safetensors.numpy import save as safetensors_of

from archive import LeakKind, leaks
from tests.support import onnx_bytes
from tests.support.onnx_bytes import entry, field
from tests.support.sampling import crossed

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive import Leaks

HOME, SCOPED = "/home/zqannxz/net.py", "/encoder/0/conv/Conv_output_0"
WEIGHT = np.random.default_rng(0).integers(0, 256, 1 << 18, np.uint8)
"""Random bytes, among which some look like short paths and addresses."""


def of_onnx() -> bytes:
    """Names of a node and of its values have slashes; metadata names a path and a person."""
    node = field(1, SCOPED) + field(2, SCOPED) + field(3, SCOPED) + field(4, "Relu") + field(6, HOME)
    return onnx_bytes.model(
        {"a": WEIGHT}, nodes=[node], more=field(2, "pytorch") + field(14, entry("author", "Ann Leexz"))
    )


def of_gguf() -> bytes:
    """Keys name a path and a person."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_string("general.author", "Ann Leexz")
        writer.add_string("x.y", HOME)
        writer.add_tensor("blk.weight", WEIGHT.view(np.int8))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


def of_old_torch() -> bytes:
    """What ``torch.save`` wrote before 1.6."""
    import torch  # noqa: PLC0415 (a test of PyTorch)

    file = io.BytesIO()
    value = {"author": "Ann Leexz", "path": HOME, "a": torch.from_numpy(WEIGHT)}
    torch.save(value, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


FILES: dict[str, Callable[[], bytes]] = {
    "ONNX": of_onnx,
    "GGUF": of_gguf,
    "safetensors": lambda: safetensors_of({"a": WEIGHT}, {"author": "Ann Leexz", "path": HOME}),
    "legacy torch.save": of_old_torch,
}


def in_pickle(data: bytes, protocol: int) -> bytes:
    return pickle.dumps({"a": [1, data]}, protocol)


PLACES: dict[str, Callable[[bytes], bytes]] = {
    "a record": bytes,
    **{f"bytes in a pickle {one}": partial(in_pickle, protocol=one) for one in (0, 2, 3, 5)},
    "base64": base64.b64encode,
    "hexadecimal digits": lambda data: data.hex().encode(),
    "gzip": gzip.compress,
}
FOUND = {(LeakKind.HOME, HOME), (LeakKind.USER, "zqannxz"), (LeakKind.USER, "Ann Leexz")}


def of_record(data: bytes, *, deep: bool = False) -> Leaks:
    """What is found in a zip with such a record."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        target.writestr(zipfile.ZipInfo("a/note"), data)
    return leaks(file.getvalue(), deep=deep)


@pytest.mark.torch
@pytest.mark.parametrize(("kind", "place"), crossed(FILES, PLACES, most=20))
def test_metadata_is_found_and_nothing_else(kind: str, place: str) -> None:
    data = FILES[kind]()
    assert {(one.kind, one.text) for one in leaks(data).counted()} == FOUND
    found = of_record(PLACES[place](data))
    assert {(one.kind, one.text) for one in found.counted()} == FOUND
    assert found.passed_over == WEIGHT.nbytes
    assert found.problems == ()


@pytest.mark.parametrize("kind", ["ONNX", "safetensors"])
def test_places_are_bytes_of_the_record(kind: str) -> None:
    data = FILES[kind]()
    for one in of_record(data).counted():
        for place in one.places:
            assert place.record.startswith("note!")
            assert data[place.byte or 0 :].startswith(one.text.encode())


def test_weights_inside_are_read_if_that_is_asked_for() -> None:
    text = b"\n/home/zqbobxz/secrets/of/the/lab.txt\n\0\0"
    data = safetensors_of({"a": np.frombuffer(text, np.uint8)})
    assert of_record(data).counted() == []
    assert "zqbobxz" in {one.text for one in of_record(data, deep=True).counted()}


def test_what_only_begins_like_one_is_read_as_bytes() -> None:
    for data in (of_onnx()[:-9], b"GGUF\3\0\0\0", b"\x08\x07\x12\x04abcd"):
        found = of_record(data + b"\0 at /home/zqannxz/net.py\0")
        assert (LeakKind.HOME, HOME) in {(one.kind, one.text) for one in found.counted()}
