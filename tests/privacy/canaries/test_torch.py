"""PyTorch loads redacted models with planted tokens, computes the same, and fails at the same lines."""

from __future__ import annotations

import re
import sys
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import archive
from archive.failures.explainer import explain
from tests.privacy.canaries.test_planted import NAMED
from tests.support.canaries import CANARIES, FILES, planted_in
from tests.support.scanner import TOKEN

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile
from torch.utils import _pytree

from tests.support.sampling import sampled

pytestmark = pytest.mark.torch
LIBRARIES = ("libbackend_with_compiler.so", "libjitbackend_test.so")
"""PyTorch's demo backends; builds other than the CPU's for Linux have none."""


@cache
def registered() -> None:
    """Register what the exported models return, and the demo backend of the lowered one, once a process."""
    name = "canaries_exported"
    module = ModuleType(name)
    sys.modules[name] = module  # where dataclasses look annotations up
    exec(compile((CANARIES / "models" / "exported.py").read_text("utf-8"), name, "exec"), vars(module))  # noqa: S102
    _pytree.register_dataclass(module.zqresultxz, serialized_type_name="zqserialisedxz")
    for library in LIBRARIES:
        path = Path(str(torch.__file__)).parent / "lib" / library
        if not path.exists():
            pytest.skip(f"this build of PyTorch has no {library}")
        torch.ops.load_library(str(path))


def loaded(path: Path) -> Any:  # noqa: ANN401
    """A model of any format."""
    registered()
    if path.suffix == ".pt2":
        return torch.export.load(path).module()
    if path.suffix == ".ptl":
        return torch.jit.mobile._load_for_lite_interpreter(str(path))
    return torch.jit.load(path)


def called(path: Path, *, columns: int | None = None) -> list[Any]:
    """The results of a call, bit by bit.

    Args:
        path: the model.
        columns: of the argument; the model's own by default.
    """
    torch.manual_seed(0)
    name = path.stem.partition("_")[0]
    wanted = 3 if name == "effects" else 4
    x = torch.rand(3, columns or wanted)
    arguments = [x, *{"lowered": [x[:, :wanted]], "effects": [0]}.get(name, [])]
    keywords = {"zqkeywordxz": "zqsampletextxz"} if name == "exported" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the demo backend's
        leaves = _pytree.tree_leaves(loaded(path)(*arguments, **keywords))
    if name == "lowered":  # the demo backend computes the first element, and leaves the others as they come
        leaves = [one[0, 0] for one in leaves]
    return [bytes(one.detach().reshape(-1).view(torch.uint8).numpy()) for one in map(torch.as_tensor, leaves)]


def failure(path: Path) -> str:
    """What a call with an argument of another width says."""
    with pytest.raises((RuntimeError, AssertionError)) as failed:
        called(path, columns=5)
    return str(failed.value)


OTHERS = {"checkpoint.pt", "compiled.pt2", "enums.ptl", "module.pt", "package.pt", "record.etrecord"}
"""Those that are no models, need a compiler, or are refused by PyTorch."""
RUN = [path for path in FILES if path.name not in OTHERS]
LINE = re.compile(r"line \d+|\.py\(\d+\)|debug_handle:-?\d+")


CODE = re.compile(r'  File "code/(?:.*\n)*?(?=  File|\n)|Module hierarchy:.*')


def without_code(text: str) -> str:
    """A failure without what tells names of generated code, which may be hashes."""
    return CODE.sub("", text)


WAYS = [
    *((path, {"preset": preset}) for path in RUN for preset in ("publish", "vendor")),
    *((path, {"preset": "publish", "names": "hash"}) for path in RUN if path in NAMED),
]


@pytest.mark.parametrize(
    ("path", "options"),
    sampled(WAYS, by=[lambda way: way[0].suffix, lambda way: str(way[1])]),
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_redacted_models_compute_the_same_and_fail_at_the_same_lines(
    path: Path, options: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / path.name
    archive.redact(path, out, tmp_path / "private.ptdbg", **options)
    assert called(out) == called(path)
    if path.name in {"lowered.pt", "enums.pt"}:
        return  # one's message has addresses, the other takes any width
    before, after = failure(path), failure(out)
    assert LINE.findall(after) == LINE.findall(before)
    gone = {one.token for one in planted_in(path) if one.goes in {"basename", "lines"}}
    assert gone.isdisjoint(one.decode() for one in TOKEN.findall(after.encode()))
    if path.suffix != ".pt2":  # without sample inputs PyTorch refuses a shape in other words
        with archive.open(out, companion=tmp_path / "private.ptdbg") as opened:
            explained = b"".join(explain(after.encode().splitlines(keepends=True), opened))
        assert without_code(explained.decode()) == without_code(before)
