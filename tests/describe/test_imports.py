"""What pickles import is named wherever Python reads one; PyTorch and Python's own tools are the oracle."""

from __future__ import annotations

import collections
import io
import pickle
import pickletools
import zipfile
from typing import TYPE_CHECKING

import pytest

from archive.describe.inventory import inventoried
from archive.describe.listing import listed
from archive.describe.tensor_listing import listed_tensors
from archive.formats.imported import imports_among, is_plain
from archive.reader.recognition import SAVED_KINDS
from tests.support.commands import well
from tests.support.corpus import FIXTURES
from tests.support.zips import zipped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KINDS = FIXTURES / "kinds"
TEACHER = FIXTURES / "exported" / "teller.pt2"


class Runs:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return eval, ("1",)


def saved(data: bytes) -> bytes:
    return zipped(**{"x/data.pkl": data, "x/version": b"3\n"})


def by_pickletools(data: bytes) -> set[str]:
    """The names of GLOBAL instructions, as Python's disassembler has them."""
    steps = pickletools.genops(data)
    return {str(value).replace(" ", ".", 1) for code, value, _ in steps if code.name == "GLOBAL"}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_runs_is_named_in_each_protocol(protocol: int, tmp_path: Path) -> None:
    name = "__builtin__.eval" if protocol < 3 else "builtins.eval"
    good = pickle.dumps(({"a": collections.OrderedDict(x=1)}, Runs()), protocol)
    dropped = pickle.dumps(Runs(), protocol)[:-1] + b"0N."
    broken = pickle.dumps([Runs()], protocol)[:-1] + b"\xff"
    for data in (good, dropped, broken):
        if protocol < 4 and data is not broken:
            assert name in by_pickletools(data)
        source = saved(data)
        assert listed(source).imports == (name,)
        row = inventoried(source)
        assert row.imports == (name,), row
    path = tmp_path / "m.pt"
    path.write_bytes(saved(good))
    assert f"its pickles import {name}: " in well("inspect", path)
    assert f", imports {name}" in well("inspect", path, "--inventory")


def test_each_of_the_five_pickles_of_a_former_file_counts() -> None:
    data = (KINDS / "legacy.pt").read_bytes()
    assert listed_tensors(KINDS / "legacy.pt").imports == ()
    stream, ends = io.BytesIO(data), []
    for _ in range(5):
        for _ in pickletools.genops(stream):
            pass
        ends.append(stream.tell())
    evil = b"\x80\x02cos\nsystem\n0"
    for begin in (0, *ends[:4]):
        changed = data[:begin] + evil + data[begin + 2 :]
        assert listed_tensors(changed).imports == ("os.system",)
        assert inventoried(changed).imports == ("os.system",)


def test_pickles_inside_of_programs_and_packages_count() -> None:
    assert listed(TEACHER).imports == ["shop.Bill"]
    assert inventoried(KINDS / "package.pt").imports == ["torch.jit._script.unpackage_script_module"]
    assert "import torch.jit._script.unpackage_script_module: " in well("inspect", KINDS / "package.pt")
    for path in (FIXTURES / "oracles" / "plain_stack.pt", KINDS / "tensors.safetensors"):
        assert inventoried(path).imports is None, "Python reads no pickle of it"


def files() -> Iterator[Path]:
    for path in sorted(KINDS.iterdir()):
        if zipfile.is_zipfile(path) and inventoried(path).kind in SAVED_KINDS:
            yield path


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Detected pickle protocol:UserWarning")
def test_pytorch_refuses_what_is_named_and_nothing_else() -> None:
    torch = pytest.importorskip("torch")
    refused = 0
    for path in files():
        try:
            torch.load(path, weights_only=True)
        except pickle.UnpicklingError as error:
            if "Unsupported operand" in str(error):  # of a protocol that weights_only doesn't read
                continue
            refused += 1
            assert listed(path).imports, path
        else:
            assert listed(path).imports == (), path
    assert refused


def test_names_are_sorted_and_bounded() -> None:
    assert imports_among(f"m.x{number}" for number in range(3_000))[:2] == ("m.x0", "m.x1")
    assert len(imports_among(f"m.x{number}" for number in range(3_000))) == 1_000
    assert is_plain("torch._utils._rebuild_tensor_v2")
    assert not is_plain("os.system")
