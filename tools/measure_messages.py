"""Measure which operators of PyTorch print which error messages.

    python -m tools.measure_messages MEASURED.jsonl    call every operator, rightly and wrongly

Needs PyTorch, and `expecttest` for PyTorch's own samples. A line of JSON is written for each operator; see
:func:`measure`. Operators are called in a process of their own, for some kill it, or never return: such a
call is left out in the next try.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import resource
import signal
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from archive.failures.messages import wording
from tools.op_calls import names, right, wrong

if TYPE_CHECKING:
    from tools.op_calls import Call

MEMORY = 12 << 30
SECONDS = 4  # for a call
CRASHES = 100
SECONDS_IN_ALL = 60  # for an operator
NOT_OURS = (  # said by the call from Python or by the dispatcher, of any operator
    "Expected a value of type",
    "failed to match any schema",
    "Could not run",
    "no fake impl or Meta kernel",
    "expected at most",
    "is missing value for argument",
    "Unknown keyword argument",
    "DefaultCPUAllocator",
    "bad_alloc",
)
# They print, read, wait, or change what the others do.
LEFT_OUT = {
    "save",
    "wait",
    "manual_seed",
    "warn",
    "from_file",
    "set_grad_enabled",
    "sleep",
    "fork",
    "awaitable",
}


class Operator:
    """An operator, called. Results are saved before each call: the next process goes on from there.

    Args:
        name: without ``aten::``.
        saved: a file that holds the results.
    """

    def __init__(self, name: str, saved: int) -> None:
        self.packet = getattr(torch.ops.aten, name)
        self.file = saved
        before = json.loads(os.pread(saved, 1 << 24, 0) or "{}")
        # of each call: + it worked, - it failed; the process ended in the last one
        self.done: str = before["done"] + "x" if before else ""
        self.said = Counter[str](before.get("said", {}))
        self.inner = set[str](before.get("inner", ()))
        self.outcomes = ""

    def run(self, call: Call, *, watched: bool = False) -> bool:
        """Make a call, and perhaps look which operators it calls; whether it worked."""
        number = len(self.outcomes)
        if number < len(self.done):
            self.outcomes += self.done[number]
        else:
            facts = {"done": self.outcomes, "said": self.said, "inner": sorted(self.inner)}
            os.ftruncate(self.file, os.pwrite(self.file, json.dumps(facts).encode(), 0))
            signal.alarm(SECONDS)
            self.outcomes += "+" if self._call(call, watched=watched) else "-"
        return self.outcomes[-1] == "+"

    def _call(self, call: Call, *, watched: bool) -> bool:
        try:
            args, kwargs = copy.deepcopy((call.args, call.kwargs))
        except (RuntimeError, NotImplementedError):  # some layouts cannot be copied
            return False
        if not watched:
            return self._works(args, kwargs)
        with torch.autograd.profiler_legacy.profile() as profile:
            works = self._works(args, kwargs)
        names = (event.name for event in profile.function_events)
        self.inner.update(one.removeprefix("aten::") for one in names if one.startswith("aten::"))
        return works

    def _works(self, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
        try:
            self.packet(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 (whatever it prints)
            text = str(error).strip()
            if text and "\n" not in text and not any(one in text for one in NOT_OURS):
                self.said[wording(text)] += 1
            return False
        return True


def measure(name: str, seed: int, saved: int) -> dict[str, Any]:
    """Calls that work, fail, and end the process; operators that it calls; wordings with their counts."""
    rng = random.Random(f"{name} {seed}")  # noqa: S311
    torch.manual_seed(seed)
    operator = Operator(name, saved)
    calls = right(name, operator.run, rng)
    for call in wrong(calls, name, rng):
        operator.run(call)
    for call in calls:
        operator.run(call, watched=True)
    count = operator.outcomes.count
    return {
        "op": name,
        "worked": count("+"),
        "failed": count("-"),
        "ended": count("x"),
        "inner": sorted(operator.inner - {name}),
        "said": dict(sorted(operator.said.items())),
    }


def in_child(name: str, seed: int, saved: int) -> dict[str, Any] | None:
    """Measure an operator in a child process; nothing if that was ended by a call."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        null = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(null, standard)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            facts = measure(name, seed, saved)
        except Exception as error:  # noqa: BLE001 (a sample that cannot be made)
            facts = {"op": name, "error": repr(error)[:200]}
        os.write(writer, json.dumps(facts).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as results:
        text = results.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def measured(name: str, seed: int) -> dict[str, Any]:
    """Measure an operator."""
    saved = os.memfd_create(name)
    try:
        until = time.monotonic() + SECONDS_IN_ALL
        for _ in range(CRASHES):
            facts = in_child(name, seed, saved)
            if facts or time.monotonic() > until:
                break
        if facts:
            return facts
        return {"op": name, "error": "ends each process", **json.loads(os.pread(saved, 1 << 24, 0))}
    finally:
        os.close(saved)


def main() -> None:
    """As the module says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file")
    parser.add_argument("--seed", type=int, default=0, help="of the chance in calls")
    parser.add_argument("--only", default="", metavar="NAMES", help="operators, with commas between")
    parser.add_argument("--part", default="0/1", metavar="I/N", help="each n-th operator, from the i-th on")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    chosen = given.only.split(",") if given.only else [one for one in names() if one not in LEFT_OUT]
    part, parts = map(int, given.part.split("/"))
    with Path(given.file).open("w", encoding="utf-8") as target:
        for name in chosen[part::parts]:
            target.write(json.dumps(measured(name, given.seed)) + "\n")
            target.flush()


if __name__ == "__main__":
    main()
