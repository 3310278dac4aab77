"""Texts that tell of people, written without a look at what is detected, are found in every format.

Each names somebody or something that no other text does. What is known not to be found is listed, too, and
SECURITY.md says so.
"""

from __future__ import annotations

import argparse
import io
import json
import pickle
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors.numpy import save as safetensors_of

from archive import leaks
from tests.support import onnx_bytes
from tests.support.corpus import FIXTURES
from tests.support.framed_bytes import in_msgpack
from tests.support.onnx_bytes import entry, field

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.io.mapped import Source

HOME, USERS = "/home", "/Users"
PLANTED = [
    ("{home}/søren.{}/projekt/net.py", "søren.{}"),
    ("{home}/王小明{}/模型/train.py", "王小明{}"),
    ("{users}/José {}/Documents/red.py", "José {}"),
    ("C:\\Users\\Łukasz {}\\model.py", "Łukasz {}"),
    ("C:\\Dokumente und Einstellungen\\{}\\netz.py", "{}"),
    ("D:\\Projekte\\Kunde {}\\x.pt", "Kunde {}"),
    ("\\\\NAS-{}\\homes\\x\\y.pt", "NAS-{}"),
    ("//nas{}/homes/team/x.pt", "nas{}"),
    ("..\\..\\Users\\{}\\x.py", "{}"),
    ("/mnt/c{users}/{}/x.py", "{}"),
    ("/mnt/{}/data/", "{}"),
    ("{home}/{}/", "{}"),
    ("home/{}/src/net.py", "{}"),
    ("$HOME/{}/net.py", "{}"),
    ("%USERPROFILE%\\{}\\net.py", "{}"),
    ("~{}/work/net.py", "{}"),
    ("PYTHONPATH=/opt/a:{home}/{}/b", "{}"),
    ("-isystem{home}/{}/include", "{}"),
    ("file:///C:{users}/{}/x.py", "{}"),
    ("vscode-remote://ssh-remote+{}/x", "{}"),
    ("redis://:{}@cache:6379", "{}"),
    ("mail {}@acme.photography, please", "{}@acme.photography"),
    ("{} (at) acme [dot] de", "{}"),
    ("иван{}@почта.рф", "{}@почта.рф"),
    ("<{}@firma.koeln>", "{}"),
    ("gpu-{}.hpc.uni-bonn.de", "gpu-{}"),
    ("hostname: gpu-{}7", "gpu-{}7"),
    ("MASTER_ADDR={}", "{}"),
    ("ssh {}@gpu17", "{}"),
    ("[{}@gpu17 x]$ ls", "{}"),
    ("Linux {} 5.15.0-91-generic #101-Ubuntu SMP", "{}"),
    ("runs/Jul05_10-11-12_{}", "{}"),
    ("events.out.tfevents.1700000000.{}.17.0", "{}"),
    ("uid=1000({}) gid=1000(users)", "{}"),
    ("LOGNAME={}", "{}"),
    ("TODO({}): mend this", "{}"),
    ("Autor: Hans {cap}", "Hans {cap}"),
    ("@author Ægir {cap}", "{cap}"),
    ("Reviewed-by: Hans {cap}", "Hans {cap}"),
    ('{{"annotator": "Hans {cap}"}}', "Hans {cap}"),
    ('{{"labeled_by": "{}"}}', "{}"),
    ("passphrase: {}2024!", "{}2024"),
    ("lin_api_{}AbCdEf0123456789AbCdEf0123456789AbCdEf", "{}"),
    ("glpat-{}x8Kq2ZrTvB4nLm6PqW9s", "{}"),
    ("123456789:AA{}x2y3z4a5b6c7d8e9f0g1h2i3j4k", "{}"),
]
"""Texts, and what a finding has to have of them. Each has a name of its own in braces."""
SILENT = [
    "203.0.113.45",  # an address of the whole internet is four numbers, as versions are
    "{}-laptop",  # the name of a machine, alone
    "user {} logged in",
    "Copyright (c) 2024 Hans {cap}",
    '{{"name": "Hans {cap}"}}',
    '{{"company": "{cap} GmbH"}}',
    '{{"phone": "+49 228 123456"}}',
    "../{}/team/net.py",
    "job 123456 on {}[017-020]",
    "0f1e2d3c4b5a69788796a5b4c3d2e1f0",  # a secret, or a digest
]
"""Texts that tell of somebody, and that nothing is found of."""


def named(text: str, number: int) -> str:
    """A text with the name of its number."""
    name = "qv" + chr(97 + number // 8) + chr(97 + number % 8) + "zu"
    return text.format(name, cap=name.title(), home=HOME, users=USERS)


TEXTS = [(named(text, at), named(part, at)) for at, (text, part) in enumerate(PLANTED)]
ALL = [text for text, _ in TEXTS]
BY_KEY = {f"k{at}": text for at, text in enumerate(ALL)}
ONES = {"a": np.ones(2, np.float32)}


def of_record(data: bytes) -> bytes:
    """A zip with such a record."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        target.writestr(zipfile.ZipInfo("a/note"), data)
    return file.getvalue()


def with_record(fixture: str, end: str, change: Callable[[bytes], bytes]) -> bytes:
    """An archive whose first record of a name that ends so is changed."""
    file = io.BytesIO()
    with zipfile.ZipFile(FIXTURES / fixture) as source, zipfile.ZipFile(file, "w") as target:
        first = next(name for name in source.namelist() if name.endswith(end))
        for name in source.namelist():
            data = source.read(name)
            target.writestr(zipfile.ZipInfo(name), change(data) if name == first else data)
    return file.getvalue()


def in_nodes(data: bytes) -> bytes:
    """The JSON of a program whose nodes have the texts in their metadata."""
    program = json.loads(data)
    nodes = program["graph_module"]["graph"]["nodes"]
    for at, text in enumerate(ALL):
        nodes[at % len(nodes)]["metadata"][f"note{at}"] = text
    return json.dumps(program).encode()


def in_cpp(data: bytes) -> bytes:
    """Sources in C++ with the texts in strings."""
    lines = (f"static const char* s{at} = {json.dumps(text)};\n" for at, text in enumerate(ALL))
    return data + "".join(lines).encode()


def saved(*, legacy: bool) -> bytes:
    """What ``torch.save`` writes of a checkpoint."""
    import torch  # noqa: PLC0415 (a test of PyTorch)

    file = io.BytesIO()
    value = {"epoch": 1, "args": argparse.Namespace(**BY_KEY)}
    torch.save(value, file, _use_new_zipfile_serialization=not legacy)
    return file.getvalue()


FORMATS: dict[str, Callable[[], Source]] = {
    "lines of text": lambda: of_record("\n".join(ALL).encode()),
    "UTF-16": lambda: of_record("\n".join(ALL).encode("utf-16")),
    "a dict of Python": lambda: of_record(repr(BY_KEY).encode()),
    "JSON": lambda: of_record(json.dumps(BY_KEY).encode()),
    "MessagePack": lambda: of_record(in_msgpack([*ALL])),
    **{f"pickle {one}": lambda one=one: of_record(pickle.dumps(BY_KEY, one)) for one in (0, 2, 4)},  # type: ignore[misc]
    "NumPy": lambda: of_record(_npy(np.array(ALL))),
    "nodes of a program": lambda: with_record("exported/shop.pt2", "model.json", in_nodes),
    "sources in C++": lambda: with_record("compiled/sources.pt2", ".cpp", in_cpp),
    "safetensors": lambda: safetensors_of(ONES, BY_KEY),
    "doc strings of ONNX": lambda: onnx_bytes.model(
        ONES, nodes=[field(4, "Relu") + field(6, text) for text in ALL], more=field(2, "pytorch")
    ),
    "metadata of ONNX": lambda: (
        onnx_bytes.model(ONES, more=field(2, "pytorch"))
        + b"".join(field(14, entry(key, text)) for key, text in BY_KEY.items())
    ),
}
OF_TORCH: dict[str, Callable[[], Source]] = {
    "torch.save": lambda: saved(legacy=False),
    "torch.save before 1.6": lambda: saved(legacy=True),
}


def _npy(value: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, value)
    return file.getvalue()


def missed(data: Source) -> list[str]:
    found = [one.text for one in leaks(data).counted()]
    return [text for text, part in TEXTS if not any(part in one for one in found)]


@pytest.mark.parametrize("form", FORMATS)
def test_texts_are_found_in_every_format(form: str) -> None:
    assert missed(FORMATS[form]()) == []


@pytest.mark.torch
@pytest.mark.parametrize("form", OF_TORCH)
def test_texts_are_found_in_what_pytorch_saves(form: str) -> None:
    assert missed(OF_TORCH[form]()) == []


@pytest.mark.torch
def test_texts_are_found_in_torchscript() -> None:
    import torch  # noqa: PLC0415 (a test of PyTorch)

    class Model(torch.nn.Module):
        def __init__(self, texts: list[str]) -> None:
            super().__init__()
            self.texts = texts

        def forward(self) -> list[str]:
            return self.texts

    scripted = torch.jit.script(Model(ALL))
    file = io.BytesIO()
    torch.jit.save(scripted, file, _extra_files={})
    assert missed(file.getvalue()) == []
    assert missed(scripted._save_to_buffer_for_lite_interpreter()) == []


def test_what_is_not_looked_for_is_not_found() -> None:
    """When one of these is found, SECURITY.md has to change."""
    for number, text in enumerate(SILENT):
        assert leaks(of_record(named(text, number).encode())).counted() == [], text
