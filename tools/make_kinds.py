"""Makes ``fixtures/kinds``: a small file of each kind that a model may come in.

    python -m tools.make_kinds FOLDER [NAME ...]

Those of ``torch.save``, ``torch.package`` and ``torch.export`` are PyTorch 2.13's own. ``etrecord.bin`` and
``program.pte`` need ExecuTorch, ``model.onnx`` onnx, ``tensors.safetensors`` safetensors, ``model.gguf``
gguf; what cannot be made is left out and listed. ``compiled.pt2`` is laid out as
``torch._inductor.aoti_compile_and_package`` does, but without the 1.5 MB of compiled code: of the shared
object its ELF header is there alone. ``legacy_tar.pt`` is laid out as ``torch.serialization._legacy_load``
reads it: no PyTorch that still wrote it was to be had.
"""

from __future__ import annotations

import bz2
import copy
import gzip
import io
import linecache
import lzma
import pickle
import struct
import sys
import tarfile
import types
import warnings
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import zstandard

from archive.container.serialization_id import RECORD_NAME, serialization_id
from archive.container.write import new_member, write_archive

FIXTURES = Path(__file__).parent.parent / "fixtures"
SOURCE = FIXTURES / "kinds" / "models" / "net.py"
NAME = "models/net.py"
STAMP = (1980, 1, 1, 0, 0, 0)
SCRIPT = FIXTURES / "releases" / "torch-2.13.0" / "consts.pt"
ELF = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<2HI3QI6H", 3, 62, 1, 0, 64, 0, 0, 64, 56, 0, 64, 0, 0)


def net() -> Any:  # noqa: ANN401 (a model whose class is made here)
    """The model."""
    source = SOURCE.read_text("utf-8")
    linecache.cache[NAME] = (len(source), None, source.splitlines(keepends=True), NAME)
    module = sys.modules["net"] = types.ModuleType("net")
    module.__file__ = NAME
    exec(compile(source, NAME, "exec"), vars(module))  # noqa: S102 (our own source)
    return module.Net()


def state_dict(folder: Path) -> None:
    """A state dict."""
    torch.save(net().state_dict(), folder / "state_dict.pt")


def checkpoint(folder: Path) -> None:
    """A checkpoint, with a key that isn't a text."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    facts = {"epoch": 3, "model": model.state_dict(), "optimizer": optimizer.state_dict(), (1, "key"): None}
    torch.save(facts, folder / "checkpoint.pt")


def module(folder: Path) -> None:
    """A whole module."""
    torch.save(net(), folder / "module.pt")


def tensor(folder: Path) -> None:
    """A tensor, of a dtype without a storage class, in another pickle protocol."""
    torch.save(torch.zeros(4, dtype=torch.uint16), folder / "tensor.pt", pickle_protocol=4)


def saved(folder: Path) -> None:
    """An object without tensors."""
    torch.save({"labels": ["cat", "dog"]}, folder / "object.pt")


def legacy(folder: Path) -> None:
    """A state dict in the pickle stream before PyTorch 1.6."""
    torch.save(net().state_dict(), folder / "legacy.pt", _use_new_zipfile_serialization=False)


def legacy_tar(folder: Path) -> None:
    """A tar, as before PyTorch 0.4."""
    system = {
        "protocol_version": 1000,
        "little_endian": True,
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    files = {"sys_info": pickle.dumps(system, 2), "pickle": pickle.dumps({}, 2)}
    with tarfile.open(folder / "legacy_tar.pt", "w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


def packages(folder: Path) -> None:
    """Packages with a TorchScript module, and with a Python module alone."""
    torch.package.package_exporter._gate_torchscript_serialization = False
    model = net()
    scripted = torch.jit.script(model)
    source = SOURCE.read_text("utf-8")
    for name, value in (("package.pt", scripted), ("package_python.pt", model)):
        with torch.package.PackageExporter(str(folder / name)) as package:
            package.save_source_string("net", source)
            package.extern("torch.**")
            package.save_pickle("model", "model.pkl", value)
            package.save_text("model", "notes.txt", "code/ and debug/ are names of its own here\n")


def exported(folder: Path) -> None:
    """An exported program."""
    torch.export.save(torch.export.export(net(), (torch.ones(1, 3),)), folder / "exported.pt2")


def compiled(folder: Path) -> None:
    """An AOTInductor package, without its code."""
    place = "data/aotinductor/model/"
    inner = b'{"AOTI_DEVICE_KEY": "cpu"}'
    members = [
        new_member(f"{place}model.wrapper.cpp", b"// Compile cmd\n"),
        new_member(f"{place}model.wrapper_metadata.json", inner, compress=False),
        new_member(f"{place}model.wrapper.so", ELF, compress=False),
        new_member("archive_format", b"pt2", compress=False),
        new_member("archive_version", b"0", compress=False),
        new_member(".data/version", b"6\n", compress=False),
        new_member("byteorder", b"little", compress=False),
    ]
    members.append(new_member(RECORD_NAME, serialization_id(members).encode(), compress=False))
    with (folder / "compiled.pt2").open("wb") as file:
        write_archive(file, "compiled", members)


def executorch(folder: Path) -> None:
    """A program for ExecuTorch, and its record."""
    devtools, exir = import_module("executorch.devtools"), import_module("executorch.exir")
    edge = exir.to_edge(torch.export.export(net().float().eval(), (torch.ones(1, 3),)))
    before = copy.deepcopy(edge)
    program = edge.to_executorch()
    (folder / "program.pte").write_bytes(program.buffer)
    devtools.generate_etrecord(str(folder / "etrecord.bin"), before, program)


def flatbuffer(folder: Path) -> None:
    """A lite model in a flatbuffer."""
    torch.jit.script(net())._save_for_lite_interpreter(str(folder / "flatbuffer.ptl"), _use_flatbuffer=True)


def onnx(folder: Path) -> None:
    """An ONNX model."""
    helper = import_module("onnx").helper
    x, y = (helper.make_tensor_value_info(name, 1, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", [x], [y])
    model = helper.make_model(graph, producer_name="net")
    (folder / "model.onnx").write_bytes(model.SerializeToString())


def safetensors(folder: Path) -> None:
    """Tensors in the safetensors format."""
    import_module("safetensors.torch").save_file(dict(net().state_dict()), folder / "tensors.safetensors")


def gguf(folder: Path) -> None:
    """A model in GGUF: a row of numbers, and one of blocks."""
    package = import_module("gguf")
    writer = package.GGUFWriter(folder / "model.gguf", "net")
    writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
    writer.add_tensor("scale", net().scale.detach().numpy())
    blocks = package.quants.quantize(torch.ones(2, 32).numpy(), package.GGMLQuantizationType.Q8_0)
    writer.add_tensor("fc.weight", blocks, raw_dtype=package.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def texts(folder: Path) -> None:
    """What a server or Git put where a model should be."""
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "5a" * 32 + "\nsize 46830571\n"
    page = "<!-- cached -->\n<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head></html>\n"
    (folder / "pointer.pt").write_text(pointer)
    (folder / "page.pt").write_text(page)
    (folder / "answer.pt").write_text('{"error": "Entry not found"}\n')
    (folder / "note.pt").write_text("The model is on the other disk.\n")
    (folder / "empty.pt").write_bytes(b"")


def packed(folder: Path) -> None:
    """What is compressed, around something."""
    script = SCRIPT.read_bytes()
    (folder / "script.pt.gz").write_bytes(gzip.compress(script, mtime=0))
    (folder / "page.pt.xz").write_bytes(lzma.compress(b"<html></html>"))
    (folder / "random.bz2").write_bytes(bz2.compress(bytes(range(256))))
    (folder / "script.pt.zst").write_bytes(zstandard.compress(script))
    with tarfile.open(folder / "scripts.tar", "w") as tar:
        entry = tarfile.TarInfo("models/script.pt")
        entry.size = len(script)
        tar.addfile(entry, io.BytesIO(script))


def zips(folder: Path) -> None:
    """A repository's zip, with a folder ``code`` of its own; records without their folder; one cut short."""
    with zipfile.ZipFile(folder / "repository.zip", "w") as target:
        for name in ("repository/code/train.py", "repository/data/labels.txt", "repository/README.md"):
            target.writestr(zipfile.ZipInfo(name, STAMP), f"{name}\n")
    with zipfile.ZipFile(SCRIPT) as script, zipfile.ZipFile(folder / "loose.zip", "w") as target:
        for name in script.namelist():
            target.writestr(zipfile.ZipInfo(name.partition("/")[2], STAMP), script.read(name))
    (folder / "cut.pt").write_bytes(SCRIPT.read_bytes()[:-300])


MADE = (
    *(state_dict, checkpoint, module, tensor, saved, legacy, legacy_tar, packages, exported, compiled),
    *(executorch, flatbuffer, onnx, safetensors, gguf, texts, packed, zips),
)


def main() -> None:
    """Make them."""
    warnings.simplefilter("ignore")
    folder, *names = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for make in MADE:
        if names and make.__name__ not in names:
            continue
        try:
            make(Path(folder))
        except ImportError as error:
            print(f"{make.__name__}: left out: {error}")


if __name__ == "__main__":
    main()
