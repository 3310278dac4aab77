"""Failures inside a runtime in stock PyTorch, without this library: they show what the model's own show."""

# ruff: noqa: ANN401, UP006, UP035 (runtimes are in TorchScript's language)

from __future__ import annotations

import importlib.util
import io
import json
import re
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile

from archive.backend import Link, lower, lowered_archive, register_backend, unregister_backend
from archive.backend.conformance import check
from archive.backend.lower import links
from tests.backend.other_backend import PREPROCESS, Model, Tape

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.torch

STATEMENTS = {
    "aten::matmul": "x = x @ x{}",
    "aten::relu": "x = x + torch.relu(x{})",
    "aten::add": "x = self.added(x, x{})",
    "aten::mul": "x = (x *\n             x{})",
}
"""A statement for each kind, whose own input makes it fail."""
MODEL = """\
import torch
from torch import Tensor

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, 3))

    def added(self, x: Tensor, y: Tensor):
        return x + y

    def forward(self, x: Tensor, {}):
        {}
        return x * self.weight
"""
SIZES = (1, 2, 7)

STOCK = """
import json, sys, torch, torch.jit.mobile
said = {}
for path in sys.argv[1:]:
    load = torch.jit.mobile._load_for_lite_interpreter if path.endswith(".ptl") else torch.jit.load
    size, model = int(path.rpartition("_")[2].partition(".")[0]), load(path)
    said[path.rpartition("/")[2]] = texts = []
    for bad in range(size):
        inputs = [torch.ones(3, 3) for _ in range(size + 1)]
        model(*inputs)
        inputs[bad + 1] = torch.ones(4, 5, dtype=torch.bool)
        try:
            model(*inputs)
        except RuntimeError as error:
            texts.append(str(error))
assert not any(name.partition(".")[0] == "archive" for name in sys.modules)
print(json.dumps(said))
"""


class Unnamed(Tape):
    """It asks in its own way what to run."""

    def operate(self, name: str, operands: List[torch.Tensor]) -> torch.Tensor:
        """What it runs."""
        name = name.replace("aten::", "")
        if name == "matmul":
            return torch.matmul(operands[0], operands[1])
        if name == "relu":
            return torch.relu(operands[0])
        return operands[0] + operands[1] if name == "add" else operands[0] * operands[1]


class Loops(Tape):
    """What it runs stands in blocks without results: PyTorch loses the calls on the way there."""

    def operate(self, kind: str, operands: List[torch.Tensor]) -> torch.Tensor:
        results: List[torch.Tensor] = []
        for _ in range(1):
            if kind == "aten::matmul" or kind == "aten::mul":  # noqa: PLR1714 (in TorchScript's language)
                if kind == "aten::mul":
                    results.append(operands[0] * operands[1])
                else:
                    results.append(operands[0] @ operands[1])
            else:
                results.append(operands[0] + operands[1] if kind == "aten::add" else operands[0].relu())
        return results[0]


class Fails(Tape):
    """It looks first."""

    def operate(self, kind: str, operands: List[torch.Tensor]) -> torch.Tensor:
        for operand in operands:
            if operand.dtype != torch.float32:
                return self.fail("no booleans for " + kind)
        if kind == "aten::matmul":
            return torch.matmul(operands[0], operands[1])
        if kind == "aten::relu":
            return torch.relu(operands[0])
        return operands[0] + operands[1] if kind == "aten::add" else operands[0] * operands[1]

    def fail(self, message: str) -> torch.Tensor:
        raise RuntimeError(message)


class Aside(Tape):
    """It runs PyTorch's operators elsewhere."""

    def execute(self, handle: Any, inputs: List[Any]) -> List[Any]:
        assert torch.jit.isinstance(handle, Tuple[List[str], List[torch.Tensor]]), "expected a tape"
        steps, tensors = handle
        x = inputs[0]
        assert isinstance(x, torch.Tensor), "expected a tensor"
        self.last_handle = int(steps[0].split(" ")[0].split("<debug_handle>")[1])
        x = torch.matmul(x, tensors[0])
        self.last_handle = -1
        return [x]


RUNTIMES = {"tape": Tape, "unnamed": Unnamed, "loops": Loops, "fails": Fails}


@contextmanager
def registered(name: str) -> Iterator[str]:
    """A runtime, registered by its name for as long as this lasts."""
    register_backend(name, preprocess=PREPROCESS[Link.INLINE], runtime=RUNTIMES[name])
    try:
        yield name
    finally:
        unregister_backend(name)


def model(folder: Path, size: int) -> torch.nn.Module:
    """A model of as many statements; each takes an input of its own."""
    names = list(STATEMENTS.values())
    lines = [names[number % len(names)].format(number) for number in range(size)]
    parameters = ", ".join(f"x{number}: Tensor" for number in range(size))
    path = folder / f"model_{size}.py"
    path.write_text(MODEL.format(parameters, "\n        ".join(lines)))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # TorchScript asks for it
    spec.loader.exec_module(module)
    return module.Model()


def frames(text: str) -> list[str]:
    """The frames of a failure, without the names of functions."""
    text = re.sub(
        r'(?m)^(  File ".*", line \d+), in .*', r"\1", text.rpartition("(most recent call last):\n")[2]
    )
    text = re.sub(r"(?m)^RuntimeError: (?s:.*)", "", text)
    return ["  File" + frame.rstrip() for frame in text.split("  File")[1:]]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What stock PyTorch says of each model's bad inputs: by name of the runtime, size and ending."""
    folder = tmp_path_factory.mktemp("operating")
    for size in SIZES:
        original = model(folder, size)
        scripted = torch.jit.script(original)
        scripted.save(folder / f"plain_{size}.pt")
        scripted._save_for_lite_interpreter(str(folder / f"plain_{size}.ptl"), _save_mobile_debug_info=True)
        for name in RUNTIMES:
            with registered(name) as backend:
                lowered = lower(original, backend)
            for lite, ending in ((False, "pt"), (True, "ptl")):
                (folder / f"{name}_{size}.{ending}").write_bytes(lowered_archive(lowered, lite=lite))
    paths = sorted(map(str, folder.glob("*_*.pt*")))
    run = subprocess.run(
        [sys.executable, "-I", "-c", STOCK, *paths], check=True, capture_output=True, text=True
    )
    frames: dict[str, list[str]] = json.loads(run.stdout)
    return frames


@pytest.mark.parametrize("ending", ["pt", "ptl"])
@pytest.mark.parametrize("name", RUNTIMES)
def test_each_operation_fails_at_the_line_where_the_model_s_own_fails(
    name: str, ending: str, said: dict[str, list[str]]
) -> None:
    for size in SIZES:
        plain, lowered = (said[f"{way}_{size}.{ending}"] for way in ("plain", name))
        assert len(plain) == len(lowered) == size
        for own, text in zip(plain, lowered, strict=True):
            if ending == "pt":
                assert frames(text)[-1] == frames(own)[-1]
            else:
                assert frames(own) == frames(text)[-len(frames(own)) :]


class Larger(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Model()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.part(x, y) + y


BAD = {"x @ self.weight": (torch.ones(2, 4), torch.ones(2, 3)), "+ y": (torch.ones(2, 3), torch.ones(5, 5))}


def module_paths(archive: bytes) -> list[str]:
    """The module paths that the lite interpreter shows for bad inputs."""
    model = torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(archive))
    said = []
    for inputs in BAD.values():
        with pytest.raises(RuntimeError) as error:
            model(*inputs)
        said += re.findall("Module hierarchy:(.*)", str(error.value))
    return said


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_part_shows_the_calls_that_lead_to_it(name: str) -> None:
    plain = torch.jit.script(Larger())._save_to_buffer_for_lite_interpreter(_save_mobile_debug_info=True)
    with registered(name) as backend:
        lowered = lower(Larger(), backend, paths=["part"])
    paths = module_paths(lowered_archive(torch.jit.script(lowered), lite=True))
    call = "part(Model)::forward"
    assert len(paths) == len(BAD)
    assert [
        path.replace(f"{call}.__loweredModule__(Model)::forward", call) for path in paths
    ] == module_paths(plain)


class Stores:
    """It writes the product of its first input into the second, and returns what it is asked for."""

    def __init__(self) -> None:
        self.last_handle: int = -1

    def is_available(self) -> bool:
        return True

    def compile(self, processed: Any, method_compile_spec: Dict[str, Any]) -> Dict[str, Any]:
        return {name: processed for name in method_compile_spec}  # noqa: C420 (in TorchScript's language)

    def execute(self, handle: Any, inputs: List[Any]) -> List[Any]:
        assert torch.jit.isinstance(handle, Tuple[int, int, torch.Tensor, int])
        product, copy, weight, count = handle
        x, y = inputs[0], inputs[1]
        assert isinstance(x, torch.Tensor)
        assert isinstance(y, torch.Tensor)
        for _ in range(1):  # a block without results
            self.last_handle = product
            z = torch.matmul(x, weight)
            self.last_handle = copy
            y.copy_(z)
        self.last_handle = -1
        results: List[Any] = [None, None]
        return results[:count]


def products(
    original: Any, _: dict[str, Any], handles_of: Any, *, results: int
) -> tuple[int, int, torch.Tensor, int]:
    """The handles of the product and of the copy, the weight, and how many results there are."""
    (graph,) = original.graphs.values()
    by_kind = {operation.kind: handle for operation, handle in handles_of(graph).items()}
    (weight,) = (one.value for one in graph.body.operations if isinstance(one.value, torch.Tensor))
    return by_kind["aten::matmul"], by_kind["aten::copy_"], weight, results


class Store(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, 3))


class StoreNothing(Store):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Tuple[()]:
        y.copy_(x @ self.weight)
        return ()


class StoreNone(Store):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> None:
        y.copy_(x @ self.weight)


class StoreNones(Store):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Tuple[None, None]:
        y.copy_(x @ self.weight)
        return None, None


class Storing(torch.nn.Module):
    def __init__(self, part: torch.nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.part(x, y)
        return y


@pytest.mark.parametrize(("kind", "results"), [(StoreNothing, 0), (StoreNone, 1), (StoreNones, 2)])
def test_a_part_that_returns_nothing_shows_the_calls_that_lead_to_it(
    kind: type[torch.nn.Module], results: int
) -> None:
    register_backend("stores", preprocess=partial(products, results=results), runtime=Stores)
    try:
        lowered = torch.jit.script(lower(Storing(kind()), "stores", paths=["part"]))
    finally:
        unregister_backend("stores")
    data = lowered_archive(lowered, lite=True)
    y = torch.zeros(2, 3)
    assert torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(data))(torch.ones(2, 3), y).equal(3 + 0 * y)
    call = (
        f"top(Storing)::<unknown>.part({kind.__name__})::forward.__loweredModule__({kind.__name__})::forward"
    )
    assert module_paths(data) == [f"{call}.aten::matmul", f"{call}.aten::copy_"]


def test_the_rules_find_a_part_without_the_calls_that_lead_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "_keep_open", lambda *_: None)
    with registered("tape") as backend:
        found = check(backend, Model(), good=(torch.ones(2, 3), torch.ones(2, 3)), bad=BAD, elsewhere=False)
    assert [(one.rule, one.found) for one in found] == [
        ("errors", "Module hierarchy:top(Larger)::<unknown>.first(Layer)::forward.aten::matmul"),
        ("errors", "Module hierarchy:top(Larger)::<unknown>.aten::add"),
    ]


def test_the_rules_find_a_runtime_that_shows_its_own_line() -> None:
    good, bad = (torch.ones(2, 3), torch.ones(2, 3)), (torch.ones(2, 4), torch.ones(2, 3))
    register_backend("aside", preprocess=PREPROCESS[Link.INLINE], runtime=Aside)
    try:
        found = check("aside", Model(), good=good, bad={"x @ self.weight": bad}, elsewhere=False)
    finally:
        unregister_backend("aside")
    (finding,) = (one for one in found if one.rule == "errors" and one.expected.startswith("TorchScript"))
    assert "a line on the way there" in finding.expected
