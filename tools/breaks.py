"""Each room of ``archive/`` broken in ten ways: does a test fail each time?

    python -m tools.breaks pickles formats          # or --count 25, --seed 2, --further tests/cli

A fault is a small change to an expression or a statement: a comparison, an operator, a condition or a number
changed, a call, a return value or an error dropped. Faults are drawn from the room's sources, from as many
files as there are; one seed gives the same ones as long as the sources stay. Each is made in a copy of the
tree, never in the checkout. A first run of the room's tests tells which test files call which functions; of a
fault in a function, the files that call it are run, the quickest first. Exit status: 1 if a fault survives.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("archive", "fixtures", "tests", "tools", "pyproject.toml", "README.md")
SECONDS = 600
"""A run that takes longer is stopped; its fault counts as caught."""
MEMORY = 8 << 30
"""Bytes of address space of a run."""
CALLED = "DEBUG_ARCHIVE_CALLED"
"""Environment: where the first run writes the functions that each test file calls."""
SWAPPED: dict[type[ast.AST], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.FloorDiv: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}
FURTHER = {
    "base": (
        "tests/container",
        "tests/companion/test_hostile.py",
        "tests/cli/test_faults.py",
        "tests/cli/test_cli.py",
    ),
    "cli": ("tests/report",),
    "debuginfo": ("tests/formats", "tests/reader", "tests/verbs/split/test_splitting.py"),
    "formats": ("tests/effects/test_record.py", "tests/effects/test_record_hostile.py"),
    "normalform": (
        "tests/companion",
        "tests/verbs/split/test_splitting.py",
        "tests/verbs/migrate/test_ranges.py",
    ),
    "report": ("tests/cli/test_cli.py", "tests/cli/test_sizes.py", "tests/cli/test_migrate.py"),
}
"""Tests of other rooms, run where a room's own pass: a lower room is tested by what is made of it."""
EQUIVALENT: dict[tuple[str, str], str] = {
    (
        "archive/base/columns.py",
        "span * width > KEY_LIMIT -> (span * width >= KEY_LIMIT)",
    ): "at the bound a key is exact, whether or not it is numbered anew",
    (
        "archive/base/output.py",
        "True -> False",
    ): "each target has its draft: both lists are as long",
    ("archive/base/limits.py", "1_000 -> 1001"): "a bound that is one more is one, too",
    ("archive/base/strings.py", "True -> False"): "three columns of one table are as long",
    ("archive/base/strings.py", "2 -> 3"): "a stretch is copied once or string by string: the same bytes",
    ("archive/base/columns.py", "0 -> 1"): "any number that is not above all others does as the lowest",
    ("archive/base/mapped.py", "self._map.close() -> ..."): "the next line drops the last reference",
    ("archive/container/names.py", "True -> False"): "a written path has its root, or is refused either way",
    ("archive/container/deflate.py", "6 -> 7"): "a size is estimated, by a stream of about this length",
    ("archive/container/serialization_id/ordering.py", "1 -> 2"): "-2 is no bucket either",
    ("archive/effects/capture/inputs.py", "0 -> 1"): "a number's version is not read; a statement sets both",
    ("archive/report/effects_text.py", "0 -> 1"): "where no line has a note, there is no column of notes",
}
"""Faults that change nothing that could be observed, as ``(file, fault)``, with the reason."""


class Fault(NamedTuple):
    """A change to one place of a source file: the bytes from ``start`` to ``end`` become ``text``."""

    path: Path
    line: int
    function: str
    start: int
    end: int
    old: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {' '.join(self.old.split())[:60]} -> {self.text[:60]}"

    @property
    def key(self) -> tuple[str, str]:
        """As in ``EQUIVALENT``."""
        return str(self.path), f"{self.old} -> {self.text}"


def faults(tree: Path, path: Path) -> Iterator[Fault]:
    """All faults that a file of a tree may be given."""
    source = (tree / path).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for function, node in nodes(ast.parse(source), ""):
        for text in changed(node):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            yield Fault(path, node.lineno, function, start, end, source[start:end].decode(), text)


def nodes(tree: ast.AST, function: str) -> Iterator[tuple[str, ast.expr | ast.stmt]]:
    """The expressions and statements that do something, each with the name of the function that it is in."""
    for name, value in ast.iter_fields(tree):
        for node in value if isinstance(value, list) else [value]:
            if name in {"annotation", "returns", "decorator_list"} or not isinstance(node, ast.AST):
                continue
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                continue
            inner = node.name if isinstance(node, ast.FunctionDef) else function
            if isinstance(node, ast.expr | ast.stmt):
                yield inner, node
            if not isinstance(node, ast.JoinedStr):
                yield from nodes(node, inner)


def changed(node: ast.expr | ast.stmt) -> Iterator[str]:
    """What may stand instead of a node."""
    match node:
        case ast.Compare(left, [operator], [right]) if type(operator) in SWAPPED:
            yield f"({ast.unparse(left)} {SWAPPED[type(operator)]} {ast.unparse(right)})"
        case ast.BinOp(left, operator, right) if type(operator) in SWAPPED:
            yield f"({ast.unparse(left)} {SWAPPED[type(operator)]} {ast.unparse(right)})"
        case ast.BoolOp(operator, values):
            other = " or " if isinstance(operator, ast.And) else " and "
            yield f"({other.join(f'({ast.unparse(value)})' for value in values)})"
        case ast.IfExp(test, body, other_body):
            yield f"({ast.unparse(other_body)} if {ast.unparse(test)} else {ast.unparse(body)})"
        case ast.UnaryOp(ast.Not(), operand):
            yield f"bool({ast.unparse(operand)})"
        case ast.Constant(bool() as value):
            yield repr(not value)
        case ast.Constant(int() as value):
            yield repr(value + 1)
        case ast.Expr(ast.Call()) | ast.Raise() | ast.AugAssign():
            yield "..."
        case ast.Return(ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return None"


def drawn(tree: Path, room: str, count: int, seed: int) -> list[Fault]:
    """Faults of a room, from as many of its files as there are."""
    chance = random.Random(f"{seed} {room}")  # noqa: S311 (no secret)
    pools = []
    for path in sorted((tree / "archive" / room).rglob("*.py")):
        pool = [one for one in faults(tree, path.relative_to(tree)) if one.key not in EQUIVALENT]
        chance.shuffle(pool)
        pools.append(pool)
    chance.shuffle(pools)
    found: list[Fault] = []
    while len(found) < count and any(pools):
        found += [pool.pop() for pool in pools if pool]
    return found[:count]


class Calls:
    """A plugin of pytest: the functions of ``archive`` that each test file calls, and its seconds."""

    def __init__(self) -> None:
        self.by_file: dict[str, set[CodeType]] = defaultdict(set)
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_protocol(self, item: object) -> None:
        """Listen to the calls of one test."""
        file = str(getattr(item, "nodeid", "")).partition("::")[0]
        codes, self._file, self._start = self.by_file[file], file, time.perf_counter()

        def note(frame: FrameType, event: str, _: object) -> None:
            if event == "call":
                codes.add(frame.f_code)

        sys.setprofile(note)

    def pytest_runtest_logfinish(self) -> None:
        """Listen no longer."""
        sys.setprofile(None)
        self.seconds[self._file] += time.perf_counter() - self._start

    def pytest_sessionfinish(self) -> None:
        """Write what was heard."""
        root = str(Path.cwd() / "archive")
        told = {
            file: [
                self.seconds[file],
                sorted(
                    {
                        f"{os.path.relpath(code.co_filename)}:{code.co_name}"
                        for code in codes
                        if code.co_filename.startswith(root)
                    }
                ),
            ]
            for file, codes in self.by_file.items()
        }
        Path(os.environ[CALLED]).write_text(json.dumps(told), "utf-8")


def pytest_configure(config: object) -> None:
    """Bound the memory that a fault may take; listen where the first run asks for it."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    if CALLED in os.environ:
        config.pluginmanager.register(Calls())  # type: ignore[attr-defined]


def tested(tree: Path, *paths: str, **environment: str) -> tuple[bool, str]:
    """Whether tests succeed in a copy, and the first that fails."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "tools.breaks"]
    try:
        done = subprocess.run(  # noqa: S603 (pytest)
            [*command, "--no-header", "--tb=no", *paths],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return False, f"more than {SECONDS} s"
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return done.returncode == 0, failed[0] if failed else f"pytest ended with {done.returncode}"


def broken(room: str, count: int, seed: int, further: list[str]) -> int:
    """Break a room; the number of faults that survive."""
    survivors = 0
    with TemporaryDirectory() as folder:
        tree = Path(folder)
        for part in PARTS:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / part, tree / part)
        heard = tree / "called.json"
        well, told = tested(tree, f"tests/{room}", **{CALLED: str(heard)})
        if not well:
            sys.exit(f"{room}: its tests fail before anything is broken: {told}")
        called = json.loads(heard.read_text("utf-8"))
        quickest = sorted(called, key=lambda file: float(called[file][0]))
        for fault in drawn(tree, room, count, seed):
            place = f"{fault.path}:{fault.function}"
            files = [file for file in quickest if place in called[file][1]] or quickest
            source = (tree / fault.path).read_bytes()
            (tree / fault.path).write_bytes(source[: fault.start] + fault.text.encode() + source[fault.end :])
            well, told = tested(tree, *files)
            beyond = [*further, *(name for name in FURTHER.get(room, ()) if (tree / name).exists())]
            if well and beyond:
                well, told = tested(tree, *beyond)
            (tree / fault.path).write_bytes(source)
            survivors += well
            print(f"{'SURVIVED' if well else 'caught'}\t{fault}\t{'' if well else told}", flush=True)
    return survivors


def main() -> None:
    """Break rooms."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rooms", nargs="+")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--further", nargs="*", default=[], help="tests to run where the room's own pass")
    asked = parser.parse_args()
    sys.exit(sum(broken(room, asked.count, asked.seed, asked.further) for room in asked.rooms) > 0)


if __name__ == "__main__":
    main()
