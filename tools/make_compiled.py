"""Makes ``fixtures/compiled``: packages of AOTInductor in PyTorch 2.13, and the texts of calls that fail.

    python -m tools.make_compiled FOLDER [NAME ...]

* ``compiled``: as ``aoti_compile_and_package`` writes it, with provenance of kernels;
* ``plain``: the same without provenance;
* ``profiled``: the same with provenance, and names that PyTorch's profiler shows;
* ``sources``: C++ sources instead of a shared object;
* ``several``: sources of two models, one with a kernel of several handles, and an exported program.

The shared objects of ``plain`` and ``profiled`` are linked without symbols (``g++ -s``), as they are large.
An archive with a shared object is stored compressed (``.pt2.xz``). Beside it there are

* ``NAME.CALL.txt``: what a failing call prints; in ``left`` and ``right`` an operator fails, in ``ids`` a
  kernel; in ``checked`` an input is refused, as ``AOTI_RUNTIME_CHECK_INPUTS`` asks for;
* ``profiled.table.txt``: PyTorch's profile of a call; ``profiled.narrow.txt``: the same of usual width.

Compiling needs a C++ compiler. The models are in ``fixtures/compiled/models``. The places of PyTorch, of
Python's headers and of compiled code stand in each archive, so they must be neutral: Python's are below
``/opt/py`` (``lib/python3.11/site-packages`` and ``include`` may be links), the last is in ``/opt/cache``.
Hashes and addresses differ from run to run, so the fixtures are frozen and are not compared.
"""

from __future__ import annotations

import logging
import lzma
import os
import stat
import subprocess
import sys
import sysconfig
import tempfile
import traceback
import warnings
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.make_exported import PACKAGES
from tools.make_fixtures import FIXTURES, Module, NeutralFinder

if TYPE_CHECKING:
    from collections.abc import Callable

MODELS = FIXTURES / "compiled" / "models"
PYTHON = "/opt/py"
CACHE = "/opt/cache/torchinductor"
"""Where compiled code is kept; each archive says it."""
PORTABLE = {"cpp.march": "x86-64-v3", "cpp.simdlen": 256, "aot_inductor.precompile_headers": False}
"""Code for other machines than this one; a precompiled header would be in a folder of this machine."""
PROVENANCE = {"trace.provenance_tracking_level": 1}
SOURCES = {"aot_inductor.package_cpp_only": True}
PROFILE = {"cpp.enable_kernel_profile": True}
CALLS = ("left", "right", "ids", "checked")


class Compiled:
    """Makes the packages.

    Args:
        folder: where they are written to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        os.chdir(MODELS.parent)  # the models' sources are read by their relative names
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = CACHE
        places = dict.fromkeys(("base", "platbase", "installed_base", "installed_platbase"), PYTHON)
        sysconfig.get_config_vars().update({**places, "LIBDIR": f"{PYTHON}/lib"})
        sys.meta_path.insert(0, NeutralFinder(MODELS, MODELS.name, {"mixer"}))
        sys.path.insert(0, PACKAGES)
        self.torch = import_module("torch")
        self.inductor = import_module("torch._inductor")
        self.models = import_module("mixer")
        self.torch.manual_seed(0)

    def jobs(self) -> dict[str, Callable[[], None]]:
        """All packages by name."""
        return {
            "compiled": partial(self.make, "compiled", PROVENANCE, CALLS),
            "plain": partial(self.stripped, "plain", {}, ("left",)),
            "profiled": partial(self.stripped, "profiled", PROVENANCE | PROFILE, ("right", "profile")),
            "sources": self.sources,
            "several": self.several,
        }

    def mixer(self) -> tuple[Module, tuple[Any, ...]]:
        """The model that all packages have, and an example call."""
        torch = self.torch
        return self.models.Mixer(), (torch.ones(3, 4), torch.ones(3, 4), torch.tensor([1, 2, 3]))

    def exported(self, model: Module, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 (an ExportedProgram)
        """The model as an exported program."""
        return self.torch.export.export(model.eval(), arguments)

    def make(self, name: str, options: dict[str, Any], calls: tuple[str, ...]) -> None:
        """Write a package, compressed, and what calls of it print."""
        path = self.folder / f"{name}.pt2"
        self.compile(path, options)
        for call in calls:
            _call(path, call)
        data = lzma.compress(path.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
        path.with_suffix(".pt2.xz").write_bytes(data)
        path.unlink()

    def stripped(self, name: str, options: dict[str, Any], calls: tuple[str, ...]) -> None:
        """Make a package whose shared object has no symbols."""
        with tempfile.TemporaryDirectory() as folder:
            compiler = Path(folder, "g++")
            compiler.write_text('#!/bin/sh\nexec /usr/bin/g++ -s "$@"\n')
            compiler.chmod(stat.S_IRWXU)
            before = os.environ["PATH"]
            os.environ["PATH"] = f"{folder}:{before}"
            lines = {"aot_inductor.enable_line_tables": False}  # else the linked file is found in the cache
            self.make(name, options | lines, calls)
            os.environ["PATH"] = before

    def compile(self, path: Path, options: dict[str, Any]) -> None:
        """Write the package of the model."""
        program = self.exported(*self.mixer())
        self.inductor.aoti_compile_and_package(
            program, package_path=str(path), inductor_configs=PORTABLE | options
        )

    def sources(self) -> None:
        """Write a package of sources."""
        self.compile(self.folder / "sources.pt2", PROVENANCE | SOURCES)

    def several(self) -> None:
        """Write sources of two models, and an exported program beside them."""
        options = PORTABLE | PROVENANCE | SOURCES | {"aot_inductor.package": True}
        models = {"mixer": self.mixer(), "tower": (self.models.Tower(), self.mixer()[1][:2])}
        programs = {name: self.exported(*model) for name, model in models.items()}
        files = {
            name: self.inductor.aot_compile(program.module(), models[name][1], options=options)
            for name, program in programs.items()
        }
        package = import_module("torch.export.pt2_archive._package")
        package.package_pt2(
            self.folder / "several.pt2", exported_programs={"tower": programs["tower"]}, aoti_files=files
        )

    def run(self, path: Path, call: str) -> None:
        """Call a package; what this prints goes to standard error, as PyTorch's own texts do."""
        model = self.inductor.aoti_load_package(str(path))
        torch, (left, right, ids) = self.torch, self.mixer()[1]
        wide = torch.ones(3, 5)
        arguments = {"left": (wide, right, ids), "right": (left, wide, ids), "checked": (wide, right, ids)}
        arguments["ids"] = left, right, torch.tensor([1, 2, 9])
        if call == "profile":
            self.profile(path, partial(model, left, right, ids))
            return
        try:
            model(*arguments[call])
        except RuntimeError as error:
            inner = error.__traceback__ and error.__traceback__.tb_next  # without this file
            sys.stderr.write("".join(traceback.format_exception(error.with_traceback(inner))))
            return
        sys.exit("make_compiled: a call that should fail does not")

    def profile(self, path: Path, call: Callable[[], object]) -> None:
        """Write PyTorch's profile of a call."""
        with self.torch.profiler.profile() as profiler:
            call()
        averages = profiler.key_averages()
        wide = averages.table(max_name_column_width=120)
        path.with_suffix(".table.txt").write_text(wide, "utf-8")
        path.with_suffix(".narrow.txt").write_text(averages.table(), "utf-8")


def _call(path: Path, call: str) -> None:
    """Call a package in a process of its own, and keep what it prints."""
    command = [sys.executable, "-m", "tools.make_compiled", "--run", str(path), call]
    surroundings = os.environ | {
        "AOTI_RUNTIME_CHECK_INPUTS": str(int(call == "checked")),
        "TMPDIR": str(Path(CACHE).parent),  # packages are unpacked there
    }
    project = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, stderr=subprocess.PIPE, check=True, cwd=project, env=surroundings)  # noqa: S603
    if call != "profile":
        text = done.stderr.decode().replace(sys.executable, f"{PYTHON}/bin/python")
        path.with_suffix(f".{call}.txt").write_text(text, "utf-8")


def main() -> None:
    """Make the packages that the arguments name."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)  # PyTorch's own about other machines
    if sys.argv[1] == "--run":
        path = Path(sys.argv[2])
        Compiled(path.parent).run(path, sys.argv[3])
        return
    folder, *names = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, job in Compiled(Path(folder).resolve()).jobs().items():
        if not names or name in names:
            job()
            sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
