"""What PyTorch's loaders and other projects' scanners make of files, each under limits.

    python -m tools.attack_peers WAY FILE…

runs one way on each file, in its folder, and prints a line of JSON for each. The ways that need
scanners run with the interpreter of an environment that has them: ``pip install .[scanners]``.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MEMORY, SECONDS = 6 << 30, 20
"""Address space beyond what the imports take, and CPU time."""
LOADS, REFUSES, FINDS, CLEAN, FAILS = "loads", "refuses", "flags", "passes", "fails"
Way = Callable[[str], str]


def main() -> None:
    """Prepare a way once, then fork for each file."""
    way = WAYS[sys.argv[1]]()
    answers = os.fdopen(os.dup(1), "w")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    for file in sys.argv[2:]:
        own = _memory("RSS")
        child = os.fork()
        if not child:
            _run(way, file)
        _, status, used = os.wait4(child, 0)
        answers.write(json.dumps([_said(status), max((used.ru_maxrss << 10) - own, 0)]) + "\n")


def _memory(kind: str) -> int:
    """Bytes of this process: its address space, or what is resident, which a fork starts with.

    ``getrusage`` doesn't show: its maximum includes the process that started this one.
    """
    pages = Path("/proc/self/statm").read_text("utf-8").split()[("VM", "RSS").index(kind)]
    return int(pages) * resource.getpagesize()


def _run(way: Way, file: str) -> None:
    """Run the way in this process; its exit status says what came of it."""
    size = _memory("VM") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    said = REFUSES if way in LOADERS else FAILS
    with contextlib.suppress(BaseException):
        try:
            os.chdir(Path(file).parent)
            said = way(Path(file).name)
        except MemoryError:
            said = "out of memory"
    os._exit(10 + STATUSES.index(said))


STATUSES = [LOADS, REFUSES, FINDS, CLEAN, FAILS, "out of memory"]


def _said(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code >= 10:  # noqa: PLR2004 (the first of STATUSES)
        return STATUSES[code - 10]
    return f"> {SECONDS} s" if code == -24 else f"crashes (signal {-code})"  # noqa: PLR2004 (SIGXCPU)


# --- PyTorch


def _torch() -> Any:  # noqa: ANN401 (an optional module)
    sys.path.insert(0, "")  # a hostile module may lie beside the file
    return importlib.import_module("torch")


def _jit_load() -> Way:
    torch = _torch()

    def load(file: str) -> str:
        torch.jit.load(file)
        return LOADS

    LOADERS.append(load)
    return load


def _lite_load() -> Way:
    _torch()
    mobile = importlib.import_module("torch.jit.mobile")

    def load(file: str) -> str:
        mobile._load_for_lite_interpreter(file)
        return LOADS

    LOADERS.append(load)
    return load


def _unpickle() -> Way:
    torch = _torch()

    def load(file: str) -> str:
        torch.load(file, weights_only=False)
        return LOADS

    LOADERS.append(load)
    return load


# --- scanners


def _picklescan() -> Way:
    scanner = importlib.import_module("picklescan.scanner")

    def scan(file: str) -> str:
        found = scanner.scan_file_path(file)
        if found.issues_count or found.infected_files:
            return FINDS
        return FAILS if found.scan_err else CLEAN

    return scan


def _modelscan() -> Way:
    modelscan = importlib.import_module("modelscan.modelscan")

    def scan(file: str) -> str:
        found = modelscan.ModelScan().scan(Path(file))
        if found["issues"]:
            return FINDS
        return FAILS if found["errors"] or not found["summary"]["scanned"]["total_scanned"] else CLEAN

    return scan


def _fickling() -> Way:
    loader = importlib.import_module("fickling.loader")

    def scan(file: str) -> str:
        found = loader.scan_zip_archive(file, graceful=True).values()
        if any(one.severity.name not in ("LIKELY_SAFE", "SUSPICIOUS") for one in found):
            return FINDS
        return FAILS if any(one.errors for one in found) or not found else CLEAN

    return scan


LOADERS: list[Way] = []
WAYS: dict[str, Callable[[], Way]] = {
    "torch.jit.load": _jit_load,
    "lite interpreter": _lite_load,
    "torch.load": _unpickle,
    "picklescan": _picklescan,
    "modelscan": _modelscan,
    "fickling": _fickling,
}
TORCH = ("torch.jit.load", "lite interpreter", "torch.load")

if __name__ == "__main__":
    main()
