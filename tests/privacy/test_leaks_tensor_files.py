"""What files of tensors that are no zips give away, at its byte of the file, and how it gets out."""

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
from archive.base import memory
from archive.base.limits import DEFAULT_LIMITS
from archive.formats.tensor_files.gguf import places_of_texts as texts_of_gguf
from archive.privacy.leaks import LeakKind
from archive.privacy.pieces.onnx_texts import places_of_texts as texts_of_onnx
from tests.support import onnx_bytes
from tests.support.onnx_bytes import entry, field
from tests.support.sampling import examples

if TYPE_CHECKING:
    from pathlib import Path

    from archive.io.mapped import Source
    from archive.privacy.leaks import Finding

WEIGHT = np.ones(2, np.float32)
HOME, URL = "/home/ann/run1/net.py", "https://git.example.com/ann"
TRACE = f'File "{HOME}", line 12, in forward\n    return self.secret(x)'


def findings(source: Source) -> dict[tuple[LeakKind, str], Finding]:
    return {(found.kind, found.text): found for found in archive.leaks(source).findings}


def check_places(source: bytes) -> dict[tuple[LeakKind, str], Finding]:
    """The findings of a file, each of whose texts stands at the byte that it names."""
    found = findings(source)
    for (_, text), finding in found.items():
        for place in finding.places if finding.kind.counts else ():
            assert place.byte is not None
            assert source[place.byte :].lstrip().startswith(text.encode()), place
    return found


def test_metadata_of_safetensors() -> None:
    metadata = {"author": "Ann Example", "path": HOME, "url": URL, "lines": TRACE.replace(HOME, "net.py")}
    found = check_places(safetensors_of({"a": WEIGHT}, metadata))
    assert {(LeakKind.HOME, HOME), (LeakKind.URL, URL), (LeakKind.USER, "Ann Example")} <= found.keys()
    assert found[LeakKind.HOME, HOME].places[0].within == "__metadata__.path"
    assert "redact --replace" in found[LeakKind.HOME, HOME].remedy


def gguf_of(path: Path, tokens: list[str], **texts: str) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in texts.items():
        writer.add_string(key.replace("_", "."), value)
    writer.add_token_list(tokens)
    writer.add_tensor("blk.weight", WEIGHT.copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_keys_values_and_arrays_of_gguf(tmp_path: Path) -> None:
    file = gguf_of(
        tmp_path / "a.gguf", ["a", "/home/bob/x", "b"], general_author="Ann Example", x_y=HOME, x_z=URL
    )
    found = check_places(file.read_bytes())
    named = {(LeakKind.HOME, HOME), (LeakKind.HOME, "/home/bob/x"), (LeakKind.URL, URL)}
    assert named | {(LeakKind.USER, "Ann Example")} <= found.keys()
    assert "gguf-new-metadata" in found[LeakKind.URL, URL].remedy


@given(st.lists(st.text(max_size=40), min_size=1, max_size=9), st.text(min_size=1, max_size=40))
@settings(max_examples=examples(50), deadline=None)
def test_all_texts_of_gguf_are_found_as_long_as_they_are(folder: Path, tokens: list[str], value: str) -> None:
    data = memoryview(gguf_of(folder / "texts.gguf", tokens, x_y=value).read_bytes())
    with memory.charged(DEFAULT_LIMITS.allowance(len(data))):
        texts = [str(data[start:stop], "utf-8") for start, stop, *_ in texts_of_gguf(data)]
        assert texts == [
            *("general.architecture", "llama", "x.y", value),
            *("tokenizer.ggml.tokens", *tokens, "blk.weight"),
        ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("texts")


def test_bytes_behind_the_last_tensor_are_read(tmp_path: Path) -> None:
    data = gguf_of(tmp_path / "a.gguf", ["a"]).read_bytes() + HOME.encode()
    found = check_places(data)
    assert found[LeakKind.HOME, HOME].places[0].record == ""


def onnx(*, doc: str = "", trace: str = "", note: str = "", more: bytes = b"") -> bytes:
    node = field(4, "Relu") + field(6, doc) + field(9, entry("stack_trace", trace))
    return onnx_bytes.model(
        {"a": WEIGHT}, nodes=[node], more=field(2, "pytorch") + field(14, entry("author", note)) + more
    )


def test_stacks_doc_strings_and_properties_of_onnx() -> None:
    source = onnx(doc=f"{HOME}(12): forward", trace=TRACE, note="Ann Example", more=field(6, URL))
    found = check_places(source)
    named = {(LeakKind.HOME, HOME), (LeakKind.SOURCE, "return self.secret(x)"), (LeakKind.URL, URL)}
    assert named | {(LeakKind.USER, "Ann Example")} <= found.keys()
    assert "onnx.load" in found[LeakKind.SOURCE, "return self.secret(x)"].remedy


@pytest.mark.parametrize(
    "place",
    [
        field(7, field(11, field(1, HOME))),  # the name of an input
        field(7, field(11, field(2, field(1, field(2, field(1, field(2, HOME))))))),  # of a dimension
        field(7, field(1, field(5, field(1, "b") + field(6, field(10, HOME))))),  # a graph in an attribute
        field(7, field(1, field(5, field(9, HOME)))),  # a text of an attribute
        field(
            7, field(5, field(1, 1) + field(2, 8) + field(6, HOME) + field(8, "texts"))
        ),  # a tensor of texts
        field(7, b"") + field(25, field(1, "f") + field(8, HOME)),  # a function
        field(7, b"") + field(99, HOME),  # a field that is not known
    ],
)
def test_texts_are_found_wherever_onnx_has_them(place: bytes) -> None:
    assert (LeakKind.HOME, HOME) in check_places(field(1, 8) + field(2, "pytorch") + place)


SCOPED = "/encoder/0/conv/Conv_output_0"


@pytest.mark.parametrize(
    "place",
    [
        *(field(7, field(1, field(number, SCOPED))) for number in (1, 2, 3)),  # of a node
        *(field(7, field(number, field(1, SCOPED))) for number in (11, 12, 13)),  # of values
        field(7, field(5, field(1, 1) + field(2, 2) + field(9, b"a") + field(8, SCOPED))),  # of a tensor
        field(7, b"") + field(25, field(1, "f") + field(4, SCOPED) + field(5, SCOPED)),  # in a function
    ],
)
def test_names_of_values_and_nodes_are_ids_unless_a_root_is_known(place: bytes) -> None:
    head = field(1, 8) + field(2, "pytorch")
    assert [one.text for one in archive.leaks(head + place).counted()] == []
    home = place.replace(SCOPED.encode(), b"/home/ann" + SCOPED[:-9].encode())
    assert len(home) == len(place)
    assert any(one.kind is LeakKind.HOME for one in archive.leaks(head + home).counted())
    elsewhere = field(7, b"") + field(99, f"{SCOPED}.py")
    assert [str(one.kind) for one in archive.leaks(head + elsewhere).counted()] == ["other path"]


def test_elements_are_no_texts_of_onnx() -> None:
    data = memoryview(onnx_bytes.model({"a": np.frombuffer(b"/home/ann/x!", np.float32)}))
    with memory.charged(DEFAULT_LIMITS.allowance(len(data))):
        texts = [bytes(data[start:stop]) for start, stop, *_ in texts_of_onnx(data)]
        assert texts == [b"main", b"a"]


@pytest.mark.torch
def test_the_source_of_a_whole_module_before_1_6(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch  # noqa: PLC0415 (a test of PyTorch)

    (tmp_path / "secret_net.py").write_text(
        "import torch\n\n\nclass Net(torch.nn.Module):\n    # ours alone\n"
        "    def forward(self, x):\n        return x\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import secret_net  # type: ignore[import-not-found] # noqa: PLC0415 (it was just written)

    file = io.BytesIO()
    torch.save(secret_net.Net(), file, _use_new_zipfile_serialization=False)
    found = check_places(file.getvalue())
    assert {(LeakKind.SOURCE, "def forward(self, x):"), (LeakKind.COMMENT, "ours alone")} <= found.keys()
    assert "state_dict()" in found[LeakKind.SOURCE, "def forward(self, x):"].remedy
    file = io.BytesIO()
    torch.save({"note": HOME}, file, _use_new_zipfile_serialization=False)
    assert (LeakKind.HOME, HOME) in check_places(file.getvalue())


def test_an_index_and_its_shards_are_one_model(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(safetensors_of({"a": WEIGHT}, {"path": HOME}))
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"from": URL}, "weight_map": {"a": "a.safetensors"}}))
    found = findings(index)
    assert found[LeakKind.HOME, HOME].places[0].record == "a.safetensors!header"
    assert found[LeakKind.URL, URL].places[0].record == "index"


def test_tensors_are_read_if_that_is_asked_for() -> None:
    text = b"\n/home/ann/secrets/of/the/lab.txt\n\0\0"
    source = safetensors_of({"first": WEIGHT, "text": np.frombuffer(text, np.uint8)})
    assert archive.leaks(source).passed_over == len(text) + WEIGHT.nbytes
    (found,) = (one for one in archive.leaks(source, deep=True).findings if one.kind is LeakKind.HOME)
    assert source[found.places[0].byte or 0 :].startswith(found.text.encode())
