"""Runs of tests for ``tools.breaks``, each in a process forked from one that has imported what tests need.

The first run listens: which test calls which functions of ``archive``, how long each takes, and which modules
of others are imported. The parent then imports those, but nothing of the tree, so that each fork reads a
broken file anew and yet starts at once.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import Phase, settings

if TYPE_CHECKING:
    from pathlib import Path
    from types import CodeType, FrameType

SECONDS = 1_800
"""A run that waits for longer is stopped; its fault counts as caught."""
CPU_SECONDS = 20
"""CPU time of a process of a run, beside ten times that of its tests in the first run."""
MEMORY = 8 << 30
"""Bytes of address space of a process."""
OPTIONS = ("-q", "-x", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
PLUGINS = ("_hypothesis", "_pytest", "hypothesis", "pytest", "xdist")
"""Packages that pytest imports itself."""


class Called(NamedTuple):
    """What the first run heard of one test."""

    test: str
    seconds: float
    places: list[str]

    @property
    def file(self) -> str:
        """The test's file."""
        return self.test.partition("::")[0]


class Outcome(NamedTuple):
    """Whether the tests succeed, and if not, the first that fails."""

    well: bool
    failure: str


class Failures:
    """A plugin of pytest: notes the first failure."""

    failure = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test's failure."""
        if report.failed:
            self.failure = self.failure or f"{report.nodeid}: {_last_line(report)}"

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that cannot be imported."""
        if report.failed:
            self.failure = self.failure or f"{report.nodeid}: {_last_line(report)}"


def _last_line(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The error of a failure."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message.partition("\n")[0] if crash else str(report.longrepr).strip().rpartition("\n")[2]
    return str(text)[:200]


class Order:
    """A plugin of pytest: the tests that call a function come first, files in the order given."""

    def __init__(self, callers: set[str]) -> None:
        self.callers = callers

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sort; the tests of a file keep their order otherwise."""
        items.sort(key=lambda item: item.nodeid not in self.callers)


class FirstExample:
    """A plugin of pytest: hypothesis ends at the first example that fails, instead of a shorter one."""

    def pytest_configure(self) -> None:
        """Change the profile that ``conftest.py`` has loaded."""
        phases = (Phase.explicit, Phase.reuse, Phase.generate)
        settings.register_profile("first", settings(), phases=phases, report_multiple_bugs=False)
        settings.load_profile("first")


class Calls:
    """A plugin of pytest: the functions of ``archive`` that each test calls, and its seconds."""

    def __init__(self, tree: Path) -> None:
        self.root = f"{tree}{os.sep}"
        self.codes: dict[str, set[CodeType]] = defaultdict(set)
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Listen to the calls of one test."""
        codes, self._start = self.codes[nodeid], time.process_time()

        def note(frame: FrameType, event: str, _: object) -> None:
            if event == "call":
                codes.add(frame.f_code)

        sys.setprofile(note)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Listen no longer."""
        sys.setprofile(None)
        self.seconds[nodeid] = time.process_time() - self._start

    def heard(self) -> list[Called]:
        """What every test called."""
        return [
            Called(test, self.seconds.get(test, 0.0), sorted(filter(None, map(self._place, codes))))
            for test, codes in self.codes.items()
        ]

    def _place(self, code: CodeType) -> str:
        """``archive/file.py:function``; nothing of foreign code, classes' and modules' own statements."""
        inside = code.co_filename.startswith(f"{self.root}archive{os.sep}")
        if not inside or not code.co_flags & inspect.CO_OPTIMIZED:
            return ""
        return f"{code.co_filename.removeprefix(self.root)}:{code.co_qualname}"


class Runs:
    """Runs of tests in a copy of the tree.

    Attributes:
        tree: the copy.
        called: what the first run heard, test by test.
    """

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.called: list[Called] = []

    def listen(self, paths: list[str]) -> Outcome:
        """Run tests, note what each calls, and import what they import."""
        answer = self._answer(paths, set(), SECONDS, listening=True)
        self.called = [Called(*one) for one in answer["called"]]
        for name in answer["imported"]:
            with suppress(ImportError):  # a fork that needs the module imports it
                importlib.import_module(name)
        return Outcome(answer["well"], answer["failure"])

    def run(self, files: list[str], place: str) -> Outcome:
        """Run files, the tests that call a place first."""
        callers = {one.test for one in self.called if place in one.places}
        seconds = sum(one.seconds for one in self.called if one.file in files)
        answer = self._answer(files, callers, CPU_SECONDS + 10 * int(seconds), listening=False)
        return Outcome(answer["well"], answer["failure"])

    def files(self, place: str, below: list[str]) -> list[str]:
        """The test files below some paths: those that call a place first, the quickest before others."""
        seconds: dict[tuple[bool, str], float] = defaultdict(float)
        calling = {one.file for one in self.called if place in one.places}
        for one in self.called:
            if any(one.file == path or one.file.startswith(f"{path}/") for path in below):
                seconds[one.file not in calling, one.file] += one.seconds
        return [file for _, file in sorted(seconds, key=lambda key: (key[0], seconds[key]))]

    def _answer(
        self, paths: list[str], callers: set[str], seconds: int, *, listening: bool
    ) -> dict[str, Any]:
        """What a forked process reports of its tests."""
        answer = self.tree / "answer.json"
        answer.unlink(missing_ok=True)
        process = os.fork()
        if not process:
            self._as_child(paths, callers, seconds, answer, listening=listening)
        status = _ended(process)
        if status is None or not answer.exists():
            return {"well": False, "failure": _ending(status), "called": [], "imported": []}
        return dict(json.loads(answer.read_text("utf-8")))

    def _as_child(
        self, paths: list[str], callers: set[str], seconds: int, answer: Path, *, listening: bool
    ) -> None:
        """Run tests in this process, write the answer and end."""
        try:
            _confine(self.tree, seconds, bytecode=listening)
            failures, calls, order = Failures(), Calls(self.tree), Order(callers)
            plugins = [failures, order, calls if listening else FirstExample()]
            status = pytest.main([*OPTIONS, *paths], plugins)
            failure = failures.failure or f"pytest ended with {int(status)}"
            heard = {"called": calls.heard(), "imported": self._imported()} if listening else {}
            answer.write_text(json.dumps({"well": int(status) == 0, "failure": failure, **heard}), "utf-8")
        finally:
            os._exit(0)

    def _imported(self) -> list[str]:
        """Modules of others, in the order of their import."""
        specs = {name: getattr(module, "__spec__", None) for name, module in list(sys.modules.items())}
        return [
            name
            for name, spec in specs.items()
            if spec and spec.name == name and spec.origin and not name.startswith(PLUGINS)
            if not spec.origin.startswith(str(self.tree))
        ]


def _confine(tree: Path, seconds: int, *, bytecode: bool) -> None:
    """Make this process work in the tree, silently, within bounds; keep compiled files if asked."""
    os.setsid()
    os.chdir(tree)
    quiet = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(quiet, descriptor)
    sys.dont_write_bytecode = not bytecode
    environment = {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "" if bytecode else "1"}
    os.environ.update(environment)
    sys.path[:] = [str(tree), *(path for path in sys.path if path != str(tree))]
    for bound, amount in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CPU, seconds)):
        resource.setrlimit(bound, (amount, resource.getrlimit(bound)[1]))


def _ended(process: int) -> int | None:
    """The exit status of a process; nothing of one that takes too long. Its group ends with it."""
    end = time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
    finally:
        with suppress(ProcessLookupError):  # nobody is left
            os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def _ending(status: int | None) -> str:
    """How a process without an answer ended."""
    if status is None:
        return f"more than {SECONDS} s"
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"ended with {status}"
