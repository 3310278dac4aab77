"""Lowers models, runs them in stock PyTorch in another process, and lets them fail there."""

from __future__ import annotations

import copy
import ctypes
import gc
import json
import os
import re
import subprocess
import sys
import time
import traceback
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from archive.backend import LoweringError, lower, lower_to_torchscript, save_lowered
from archive.base.source_files import is_pytorchs
from archive.debuginfo.sites import GENERATED_FILE
from tests.zoo import state_program, stock_program
from tests.zoo.stock_program import UNOPTIMIZED, difference, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.zoo.sample import Inputs, Sample

FRAME = re.compile(
    r'^(?:  File "(?P<file>[^"\n]+)", line (?P<line>\d+), in |(?P<traced>\S.*)\((?P<at>\d+)\): )',
    re.MULTILINE,
)
"""A line of a traceback that names a place: of a scripted module, or of a traced one."""
ENDINGS = (".pt", ".ptl")
CALLS = 3
"""How often a model with state is called, to capture it and to compare it."""
OPERATORS = ("torchvision",)
"""Packages that bring operators, which stock PyTorch needs."""
CLEAR_REFS, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


@dataclass
class Outcome:
    """What became of a model.

    Attributes:
        refusal: why it does not lower; "" if it does.
        torchscript: how its results in TorchScript differ from the eager module's; "" if not at all.
        lite: the same in the lite interpreter.
        line: how the lines that a failure shows differ from the unlowered model's; "" if not at all.
        seconds: the CPU time of lowering and of saving both files.
        memory: the most memory that this took, in bytes; 0 where the system does not tell.
        size: size of the lowered ``.pt``, in bytes.
        unlowered: size of the model's own ``.pt``, in bytes.
    """

    refusal: str = ""
    torchscript: str = ""
    lite: str = ""
    line: str = ""
    seconds: float = 0.0
    memory: int = 0
    size: int = 0
    unlowered: int = 0

    @property
    def works(self) -> bool:
        """Whether it lowers, computes the same, and fails at the same line."""
        return not (self.refusal or self.torchscript or self.lite or self.line)


def measured(samples: Iterable[Sample], folder: Path) -> dict[str, Outcome]:
    """Lower models, run them and let them fail; the folder has a folder for each one then."""
    outcomes: dict[str, Outcome] = {}
    failures: dict[Path, tuple[str, str]] = {}
    programs: dict[tuple[str, ...], list[Path]] = defaultdict(list)
    for number, sample in enumerate(samples):
        own = folder / str(number)
        own.mkdir()
        torch.manual_seed(0)
        module, inputs = sample.build()
        module.eval()
        try:
            with torch.no_grad():
                outcomes[sample.name], failure = _PREPARED[sample.way](sample, module, inputs, own)
        except LoweringError as error:
            outcomes[sample.name] = Outcome(refusal=str(error))
        else:
            failures[own] = sample.name, failure
            programs[_program(sample)].append(own)
    for program, folders in programs.items():
        _run_elsewhere([*program, *map(str, folders)])
    for own, (name, failure) in failures.items():
        _compare(outcomes[name], failure, json.loads((own / "found.json").read_text(encoding="utf-8")))
    return outcomes


def _program(sample: Sample) -> tuple[str, ...]:
    """The program that runs a model."""
    if sample.way == "effects":
        return "-m", state_program.__name__
    return stock_program.__file__, sample.package if sample.package in OPERATORS else "torch"


def _run_elsewhere(command: list[str]) -> None:
    """Run a program in a process of its own."""
    paths = os.pathsep.join(path or os.curdir for path in sys.path)
    subprocess.run([sys.executable, *command], check=True, env=os.environ | {"PYTHONPATH": paths})


def _compare(out: Outcome, failure: str, found: dict[str, str]) -> None:
    """Add what a program has found to an outcome.

    Args:
        out: the outcome.
        failure: what the unlowered model prints when it fails.
        found: see ``stock_program``.
    """
    out.torchscript, out.lite = (found[ending] for ending in ENDINGS)
    theirs = places(failure)
    for ending in ENDINGS:
        ours = places(found.get(f"failure{ending}", ""))
        if not theirs or not ours or line(ours) != line(theirs):
            out.line += f"{ending}: {shown(ours)} instead of {shown(theirs)} "


def _prepared_graph(
    sample: Sample, module: torch.nn.Module, inputs: Inputs, folder: Path
) -> tuple[Outcome, str]:
    """The files of a scripted or traced model; its outcome so far, and what it prints when it fails."""
    unlowered = (
        torch.jit.trace(module, inputs, check_trace=False, strict=False)
        if sample.way == "traced"
        else torch.jit.script(module)
    )
    torch.jit.save(unlowered, str(folder / "unlowered.pt"))
    start = _begin()
    lowered = lower(unlowered, "aten")
    _save(lowered, folder, "lowered")
    out = _outcome(folder, start)
    torch.manual_seed(0)
    torch.save(plain(sample.result(module(*copy.deepcopy(inputs)))), folder / "expected.pt")
    if sample.wrong is None:
        wrong, failure = inputs, _break(unlowered.parameters(), lambda: _failure(unlowered, inputs))
        _save(lowered, folder, "broken")
    else:
        wrong = sample.wrong()
        failure = _failure(unlowered, wrong)
    torch.save((list(inputs), list(wrong)), folder / "inputs.pt")
    return out, failure


def _prepared_state(
    sample: Sample, module: torch.nn.Module, inputs: Inputs, folder: Path
) -> tuple[Outcome, str]:
    """The same of a model with state, which is called several times, and compared with its state then."""
    torch.save(module, folder / "unlowered.pt")
    start = _begin()
    _save(lower(module, "aten", effects=True, calls=[inputs] * CALLS), folder, "lowered")
    out = _outcome(folder, start)
    before = _state(copy.deepcopy(module))
    calls = [tuple(map(torch.randn_like, inputs)) for _ in range(CALLS)]
    results = [module(*copy.deepcopy(call)) for call in calls]
    changed = {name: one for name, one in _state(module).items() if difference(one, before[name])}
    torch.save((results, changed), folder / "expected.pt")
    assert sample.wrong is not None, "a model with state needs arguments to fail with"
    wrong = sample.wrong()
    torch.save((calls, wrong), folder / "inputs.pt")
    return out, _eager_failure(module, wrong)


def _prepared_program(
    sample: Sample, module: torch.nn.Module, inputs: Inputs, folder: Path
) -> tuple[Outcome, str]:
    """The same of a model that is exported."""
    program = torch.export.export(module, inputs)
    torch.export.save(program, folder / "unlowered.pt2")
    (folder / "unlowered.pt2").rename(folder / "unlowered.pt")
    start = _begin()
    lowered = lower_to_torchscript(program, "aten")
    _save(lowered, folder, "lowered")
    out = _outcome(folder, start)
    torch.manual_seed(0)
    torch.save(plain(sample.result(module(*copy.deepcopy(inputs)))), folder / "expected.pt")
    failure = _break(program.parameters(), lambda: _eager_failure(module, inputs))
    _save(lowered, folder, "broken")
    torch.save((list(inputs), list(inputs)), folder / "inputs.pt")
    return out, failure


_PREPARED = {
    "scripted": _prepared_graph,
    "traced": _prepared_graph,
    "effects": _prepared_state,
    "exported": _prepared_program,
}


def _save(lowered: torch.jit.ScriptModule, folder: Path, name: str) -> None:
    for ending in ENDINGS:
        save_lowered(lowered, folder / f"{name}{ending}", force=True)


def _begin() -> tuple[float, int]:
    """The CPU time, and the memory in use; the system counts the most memory from now on.

    What an earlier model has freed goes back to the system first: it would hide what this one takes.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None and CLEAR_REFS.exists():
        trim(0)
        CLEAR_REFS.write_text("5", encoding="utf-8")
    return time.process_time(), _memory("VmRSS")


def _memory(name: str) -> int:
    """A number of bytes of this process; 0 where the system does not tell."""
    text = STATUS.read_text(encoding="utf-8") if STATUS.exists() else ""
    found = re.search(rf"^{name}:\s*(\d+) kB", text, re.MULTILINE)
    return int(found[1]) << 10 if found else 0


def _outcome(folder: Path, start: tuple[float, int]) -> Outcome:
    """The outcome of a model that was lowered and saved just now."""
    seconds, memory = time.process_time() - start[0], _memory("VmHWM") - start[1]
    size, unlowered = ((folder / f"{name}.pt").stat().st_size for name in ("lowered", "unlowered"))
    return Outcome(seconds=seconds, memory=memory, size=size, unlowered=unlowered)


def _state(module: torch.nn.Module) -> dict[str, Any]:
    """The tensors, numbers and collections that a module has itself."""
    own = {name: one for name, one in vars(module).items() if not name.startswith("_") and name != "training"}
    return dict(plain(own | dict(module.named_buffers(recurse=False))))


def _failure(unlowered: Any, inputs: Inputs) -> str:  # noqa: ANN401
    """What a module prints when it fails; "" if it does not."""
    name = "forward" if unlowered._c._has_method("forward") else "forward__0"
    try:
        with UNOPTIMIZED():
            unlowered._c._get_method(name)(*copy.deepcopy(inputs))
    except (IndexError, RuntimeError, torch.jit.Error) as error:
        return str(error)
    return ""


def _eager_failure(module: torch.nn.Module, inputs: Inputs) -> str:
    """What an eager module prints when it fails; "" if it does not."""
    try:
        module(*copy.deepcopy(inputs))
    except (IndexError, RuntimeError) as error:
        return "(most recent call last):\n" + "".join(traceback.format_tb(error.__traceback__)[1:])
    return ""


def _break(weights: Iterable[torch.Tensor], failure_of: Callable[[], str]) -> str:
    """Give a weight another shape, as near to the model's middle as makes it fail; what it prints then."""
    for weight in _from_middle([one for one in weights if one.ndim > 1]):
        kept = weight.data
        weight.data = torch.zeros([size + 1 for size in weight.shape])
        if failure := failure_of():
            return failure
        weight.data = kept
    raise AssertionError("no weight makes the model fail")


def _from_middle(weights: list[torch.Tensor]) -> Iterator[torch.Tensor]:
    middle = len(weights) // 2
    for _, weight in sorted(enumerate(weights), key=lambda pair: abs(pair[0] - middle)):
        yield weight


def places(text: str) -> list[str]:
    """The places in source that a traceback names, without those of generated code; the innermost last."""
    *_, text = text.split("(most recent call last):\n")
    found = list(FRAME.finditer(text))
    scripted = [f"{one['file']}:{one['line']}" for one in found if one["file"] not in (None, GENERATED_FILE)]
    traced = [f"{one['traced']}:{one['at']}" for one in found if one["traced"]]
    return scripted + traced[::-1]


def line(found: list[str]) -> str:
    """The innermost place that is not in PyTorch's source; the innermost one if all are."""
    own = [one for one in found if not is_pytorchs(one)]
    return (own or found)[-1]


def shown(found: list[str]) -> str:
    """Places by the names of their files alone."""
    return " ".join(one.rpartition("/")[2] for one in found) or "nothing"
