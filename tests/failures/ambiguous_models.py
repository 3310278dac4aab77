"""Models whose failures have several readings, made by PyTorch, and what it prints of each.

Each is made in a process of its own, so that debug handles start at 0. Those of modules lowered to the demo
backend are then single digits, and ``{1137}`` may be 1137, or 1 in 137.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.jit.mobile

from tests.support.corpus import CALLSTACKS

WRITTEN_ANEW = {"version", ".data/version", "byteorder", ".data/serialization_id"}
STATEMENTS, EVERY = 300, 6  # that may fail, and which of them are made to
LOWERED = {"flat": 8, "nested": 14}
LIBRARY = Path(torch.__file__).parent / "lib" / "libbackend_with_compiler.so"
DEMO = "backend_with_compiler_demo"
START = """\
import torch

@torch.jit.interface
class Step(torch.nn.Module):
    def forward(self, x: torch.Tensor, at: int) -> torch.Tensor:
        pass
"""
LOW = """
class Low{0}(torch.nn.Module):
    def forward(self, a, h):
        return a + h
"""
TOP = """
class Inner(torch.nn.Module):
    def __init__(self, lowered):
        super().__init__()
{lowered}
    def forward(self, x: torch.Tensor, at: int) -> torch.Tensor:
        bad = torch.ones(5)
{calls}{inner}        return x

class Outer(torch.nn.Module):
    step: Step
    def __init__(self, inner):
        super().__init__()
        self.step = inner
    def forward(self, x: torch.Tensor, at: int) -> torch.Tensor:
{outer}        return self.step.forward(x, at)
"""


def without(path: Path, target: Path, is_left_out: Callable[[str], bool]) -> Path:
    """A copy of an archive without some of its records."""
    reader, writer = torch._C.PyTorchFileReader(str(path)), torch._C.PyTorchFileWriter(str(target))
    for name in reader.get_all_records():
        if name not in WRITTEN_ANEW and not is_left_out(name):
            data = reader.get_record(name)
            writer.write_record(name, data, len(data))
    writer.write_end_of_file()
    return target


def without_debug_info(path: Path, target: Path) -> Path:
    """A copy of an archive without source ranges and call stacks."""
    return without(path, target, lambda name: name.endswith(".debug_pkl") or name == CALLSTACKS)


def source(count: int) -> str:
    """The model's source: argument ``at`` chooses the statement that fails."""
    numbers = range(count)
    chosen = range(count, count + STATEMENTS)
    views = [f"        if at == {i}:\n            x = x.view(7)\n" for i in chosen]
    calls = [f"        x = self.low{i}(x, bad if at == {i} else x)\n" for i in numbers]
    parts = {
        "lowered": "".join(f"        self.low{i} = lowered[{i}]\n" for i in numbers),
        "calls": "".join(view + call for view, call in zip(views[1:], calls, strict=False)),
        "inner": "".join(views[1 + count :]),
        "outer": views[0],
    }
    return START + "".join(map(LOW.format, numbers)) + TOP.format(**parts)


def main(folder: Path, name: str) -> None:
    """Write an archive, and its failures without debug info and with it."""
    torch.ops.load_library(str(LIBRARY))
    count = LOWERED[name]
    (folder / "ambiguous.py").write_text(source(count))
    sys.path.insert(0, str(folder))
    made = __import__("ambiguous")
    lowered = [
        torch._C._jit_to_backend(DEMO, torch.jit.script(getattr(made, f"Low{i}")()), {"forward": {"": ""}})
        for i in range(count)
    ]
    model = made.Inner(lowered) if name == "flat" else made.Outer(made.Inner(lowered))
    whole = folder / f"{name}.ptl"
    torch.jit.script(model)._save_for_lite_interpreter(str(whole), _save_mobile_debug_info=True)
    files = (without_debug_info(whole, folder / f"{name}.stripped.ptl"), whole)
    models = [torch.jit.mobile._load_for_lite_interpreter(str(file)) for file in files]
    chosen = [*range(count), *range(count + 1, count + STATEMENTS, EVERY)]
    (folder / f"{name}.json").write_text(json.dumps([[said(one, at) for one in models] for at in chosen]))


def said(model: torch.jit.ScriptModule, at: int) -> str:
    """The text of a failure."""
    try:
        model(torch.ones(2, 2), at)
    except RuntimeError as error:
        return str(error)
    raise AssertionError(at)
