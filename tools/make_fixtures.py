"""Make the fixtures of PyTorch 2.13 once more and compare them with the frozen ones.

    python tools/make_fixtures.py FOLDER            make them in FOLDER/releases and FOLDER/oracles
    python tools/make_fixtures.py --check FOLDER    and compare; exit status 1 on any difference

An archive records where its model's source stood and, when traced, which Python frames were running. So that
the bytes come out the same on any machine, every source is known to Python under the neutral name which the
frozen archives carry: ``/src/models.py``, ``models/plain.py``, and PyTorch's own modules as if installed in
``/opt/torch`` or ``/opt/py``. Files are neither looked for nor written under these names.

Also fixed, each because the bytes depend on it:

* the process: names are mangled and debug handles numbered by counters of the whole process, so the archives
  of one set are made in one process, in the order of their manifest;
* the order of a Python set of attribute names (``Linear.__constants__``): by PYTHONHASHSEED;
* the stack below a traced call: it is run at the bottom of a new thread, by a code object named ``<module>``;
* weights: those of the oracles were drawn without a seed, and are taken from the frozen archives.
"""

from __future__ import annotations

import _thread
import argparse
import importlib
import json
import multiprocessing
import os
import sys
import types
import warnings
import zipfile
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Torch: TypeAlias = Any  # the module `torch`, which mypy does not follow
Module: TypeAlias = Any  # torch.nn.Module

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
RELEASE = "2.13.0"
# In a set of names in CPython 3.11, "in_features" comes before "out_features" with this seed.
HASH_SEED = "2"
DEMO_LIBRARIES = ("libbackend_with_compiler.so", "libjitbackend_test.so")
DEMO_BACKEND = "backend_with_compiler_demo"
UNAVAILABLE_BACKEND = "test_backend_unavailable"
# Made by gen2.py as well, but never frozen: the same records as nested.pt, under another root.
NOT_FROZEN = {"nested-buf.pt"}


# --- modules under neutral names --------------------------------------------------------------------


def renamed(code: types.CodeType, old: str, new: str) -> types.CodeType:
    """Return ``code``, and all code inside it, with file names that start with ``new`` instead of ``old``."""
    name = code.co_filename
    constants = (renamed(c, old, new) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return code.replace(
        co_filename=new + name.removeprefix(old) if name.startswith(old) else name,
        co_consts=tuple(constants),
    )


class NeutralLoader(SourceFileLoader):
    """Loads a module from its file; its functions say that they stand in the folder ``neutral``.

    ``inspect`` and ``linecache``, through which TorchScript gets at sources, ask the loader for the text when
    no file has the name.
    """

    def __init__(self, name: str, path: str, folder: str, neutral: str) -> None:
        super().__init__(name, path)
        self.folder = folder
        self.neutral = neutral

    def get_code(self, fullname: str) -> types.CodeType | None:
        """Return the module's code under its neutral name."""
        code = super().get_code(fullname)
        return code and renamed(code, self.folder, self.neutral)


class NeutralFinder(MetaPathFinder):
    """Finds the named top-level modules, and what is inside them, in ``folder``.

    Args:
        folder: where the modules are.
        neutral: the folder where their functions say they are.
        names: top-level modules; others are left to the finders after this one.
    """

    def __init__(self, folder: Path, neutral: str, names: set[str]) -> None:
        self.folder = str(folder)
        self.neutral = neutral
        self.names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module as Python would, and give it the loader with the neutral name."""
        if fullname.partition(".")[0] not in self.names:
            return None
        spec = PathFinder.find_spec(fullname, [self.folder] if path is None else path, target)
        if spec and isinstance(spec.loader, SourceFileLoader):
            spec.loader = NeutralLoader(spec.loader.name, spec.loader.path, self.folder, self.neutral)
        return spec


def import_neutrally(sources: Path, neutral_sources: str, neutral_packages: str) -> Torch:
    """Import torch with neutral file names, let the modules in ``sources`` be found, and return torch.

    Raises:
        SystemExit: PyTorch is missing, or of another release.
    """
    found = find_spec("torch")
    if found is None or found.origin is None:
        sys.exit(f"make_fixtures: PyTorch {RELEASE} is not installed; the extra `torch` has it")
    packages = Path(found.origin).parents[1]
    names = {file.stem for file in sources.glob("*.py")}
    sys.dont_write_bytecode = True
    sys.meta_path[:0] = [
        NeutralFinder(packages, neutral_packages, {"torch"}),
        NeutralFinder(sources, neutral_sources, names),
    ]
    torch = importlib.import_module("torch")
    if torch.__version__.partition("+")[0] != RELEASE:
        sys.exit(f"make_fixtures: PyTorch is {torch.__version__}, the fixtures are of {RELEASE}")
    return torch


def run_as_script(source: str, name: str, names: dict[str, object]) -> None:
    """Run ``source`` as the script ``name``: its frame is the outermost of the stack.

    Raises:
        SystemExit: the script raised; its traceback is on stderr.
    """
    done = _thread.allocate_lock()
    done.acquire()
    failed = []

    def fail(unraisable: sys.UnraisableHookArgs) -> None:
        failed.append(name)
        sys.__unraisablehook__(unraisable)
        done.release()

    code = compile(f"{source}\n__done__()\n", name, "exec")
    scope = {"__name__": "__main__", "__file__": name, "__builtins__": __builtins__, **names}
    sys.unraisablehook = fail
    # threading.Thread has frames of its own below the target.
    _thread.start_new_thread(types.FunctionType(code, scope | {"__done__": done.release}), ())
    done.acquire()
    sys.unraisablehook = sys.__unraisablehook__
    if failed:
        sys.exit(f"make_fixtures: {name} failed")


# --- the set of releases ----------------------------------------------------------------------------


def make_releases(folder: Path) -> None:
    """Make the archives of ``fixtures/releases/torch-2.13.0``: runs the very script that made them."""
    warnings.simplefilter("ignore")
    sources = FIXTURES / "releases" / "src"
    import_neutrally(sources, "/src", "/opt/torch")
    sys.argv = ["/src/gen2.py", str(folder)]
    run_as_script((sources / "gen2.py").read_text("utf-8"), "/src/gen2.py", {})


# --- the set of oracles -----------------------------------------------------------------------------


class Case(NamedTuple):
    """One oracle: how its model is made, and what is special about it."""

    name: str
    make: Callable[[], Module]
    string_table: bool = True


class Oracles:
    """Makes the archives of ``fixtures/oracles``.

    Args:
        folder: where they are written to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.torch = import_neutrally(
            FIXTURES / "oracles" / "models", "models", "/opt/py/lib/python3.11/site-packages"
        )
        libraries = Path(self.torch.__file__).parent / "lib"
        for name in DEMO_LIBRARIES:
            if not (libraries / name).exists():
                sys.exit(f"make_fixtures: this build of PyTorch has no {name}; the CPU build for Linux has")
            self.torch.ops.load_library(str(libraries / name))
        self.lowered = importlib.import_module("lowered")
        self.plain = importlib.import_module("plain")

    def lower(self, model: Module, backend: str = DEMO_BACKEND, method: str = "forward") -> Module:
        """Script ``model`` and lower one method of it."""
        return self.torch._C._jit_to_backend(backend, self.torch.jit.script(model), {method: {"": ""}})

    def frozen_weights(self, model: Module, case: str) -> Module:
        """Give ``model`` the weights of the frozen archive of ``case``; it is in evaluation mode then."""
        with zipfile.ZipFile(FIXTURES / "oracles" / f"{case}.pt") as archive:
            for i, parameter in enumerate(model.parameters()):
                raw = bytearray(archive.read(f"{case}/data/{i}"))
                values = self.torch.frombuffer(raw, dtype=parameter.dtype)
                parameter.data.copy_(values.reshape(parameter.shape))
        return model.eval()

    def trace(self, model: Module, line: int) -> Module:
        """Trace ``model`` from a script that does so in its line ``line``."""
        names: dict[str, Any] = {"trace": self.torch.jit.trace, "model": model, "out": []}
        names["example"] = (self.torch.ones(1, 4),)
        source = "\n" * (line - 1) + "out.append(trace(model, example))"
        run_as_script(source, "/src/visible.py", names)
        return names["out"][0]

    def save(self, case: Case) -> None:
        """Make the model of a case and save it for the lite interpreter, then for TorchScript."""
        model = case.make()
        self.torch._C._set_should_use_format_with_string_table(case.string_table)
        mobile = model._save_to_buffer_for_lite_interpreter(_save_mobile_debug_info=True)
        (self.folder / f"{case.name}.ptl").write_bytes(mobile)
        model.save(str(self.folder / f"{case.name}.pt"))
        self.torch._C._set_should_use_format_with_string_table(True)

    def cases(self) -> list[Case]:
        """All cases with archives, in the order in which they were made."""
        low, models, plain = self.lower, self.lowered, self.plain

        def script(model: Module) -> Module:
            return self.torch.jit.script(model)

        def inside(model: Module) -> Module:
            return script(models.C(low(model)))

        def pair() -> Module:
            return script(models.CTwo(low(models.A()), low(models.ASub())))

        def stack(case: str) -> Module:
            return self.frozen_weights(plain.Stack(), case)

        return [
            Case("lowered_shape", lambda: inside(models.A())),
            Case("lowered_shape_inline_ranges", lambda: inside(models.A()), string_table=False),
            Case("lowered_wrapper_on_top", lambda: low(models.A())),
            Case("lowered_two", pair),
            Case("lowered_two_second_fails", pair),
            Case("lowered_self_helper", lambda: inside(models.Helper())),
            Case("lowered_free_function", lambda: inside(models.Free())),
            Case("lowered_multiline", lambda: inside(models.MultiLine())),
            Case("lowered_dtype", lambda: inside(models.A())),
            Case("lowered_ok", lambda: inside(models.A())),
            Case("plain_stack", lambda: script(stack("plain_stack"))),
            Case("plain_free_functions", lambda: script(plain.Free().eval())),
            Case("plain_unicode", lambda: script(plain.Unicode().eval())),
            Case("plain_branches", lambda: script(plain.Branches().eval())),
            Case(
                "plain_two_methods",
                lambda: script(self.frozen_weights(plain.TwoMethods(), "plain_two_methods")),
            ),
            Case(
                "plain_stack_inline_ranges",
                lambda: script(stack("plain_stack_inline_ranges")),
                string_table=False,
            ),
            Case("traced_stack", lambda: self.trace(stack("traced_stack"), line=21)),
            Case(
                "traced_stack_inline_ranges",
                lambda: self.trace(stack("traced_stack_inline_ranges"), line=22),
                string_table=False,
            ),
        ]

    def refuse(self) -> None:
        """Go through the lowerings that PyTorch refuses: they count up the mangled names."""
        models = self.lowered
        for model, backend, method in (
            (models.Mul(), DEMO_BACKEND, "forward"),
            (models.MulDeep(), DEMO_BACKEND, "forward"),
            (models.Branch(), DEMO_BACKEND, "forward"),
            (models.A(), "nope", "forward"),
            (models.A(), DEMO_BACKEND, "nope"),
        ):
            try:
                self.lower(model, backend, method)
            except RuntimeError:
                continue
            sys.exit(f"make_fixtures: {type(model).__name__} was lowered to {backend}, method {method}")

    def make(self) -> None:
        """Make them all."""
        for case in self.cases():
            self.save(case)
        self.refuse()
        self.lower(self.lowered.A(), UNAVAILABLE_BACKEND)
        self.lower(self.lowered.A(), UNAVAILABLE_BACKEND).save(str(self.folder / "unavailable.pt"))


def make_oracles(folder: Path) -> None:
    """Make the archives of ``fixtures/oracles``."""
    warnings.simplefilter("ignore")
    Oracles(folder).make()


# --- comparing --------------------------------------------------------------------------------------


def records(file: Path) -> dict[str, bytes]:
    """Every record of an archive by its name."""
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def compared(made: Path, frozen: Path) -> str | None:
    """How an archive differs from the frozen one: ``None`` for identical bytes, else the records."""
    if made.read_bytes() == frozen.read_bytes():
        return None
    ours, theirs = records(made), records(frozen)
    said = [
        *(f"only made: {name}" for name in ours.keys() - theirs.keys()),
        *(f"only frozen: {name}" for name in theirs.keys() - ours.keys()),
        *(f"other content: {name}" for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]),
    ]
    return "; ".join(sorted(said)) or "the same records, but another order or other zip headers"


def compare_archives(made: Path, frozen: Path) -> int:
    """Print a line for each archive of two folders and return how many differ."""
    differing = 0
    names = {file.name for folder in (made, frozen) for file in folder.glob("*.pt*")} - NOT_FROZEN
    for name in sorted(names):
        if not (made / name).exists():
            said: str | None = "not made"
        elif not (frozen / name).exists():
            said = "not frozen"
        else:
            said = compared(made / name, frozen / name)
        differing += said is not None
        print(f"{frozen.name}/{name}: {said or 'identical'}")
    print(f"{frozen.name}: {len(names) - differing} of {len(names)} archives are byte-identical")
    return differing


def compare_answers(made: Path, frozen: Path) -> int:
    """Compare two ``made.json``, what PyTorch says of its own archives; return how many entries differ."""
    ours, theirs = (
        {entry["file"]: entry for entry in json.loads(file.read_text("utf-8"))["files"]}
        for file in (made, frozen)
    )
    differing = [name for name in theirs if ours.get(name) != theirs[name]]
    print(f"made.json: {len(theirs) - len(differing)} of {len(theirs)} answers are the same", *differing)
    return len(differing)


# --- the command line -------------------------------------------------------------------------------


def in_process_of_its_own(make: Callable[[Path], None], folder: Path) -> None:
    """Run ``make(folder)`` in a new interpreter, with the fixed order of sets.

    Raises:
        SystemExit: it failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONHASHSEED"] = HASH_SEED
    process = multiprocessing.get_context("spawn").Process(target=make, args=(folder,))
    process.start()
    process.join()
    if process.exitcode:
        sys.exit(f"make_fixtures: {make.__name__} ended with status {process.exitcode}")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=f"Make the fixtures of PyTorch {RELEASE} once more.")
    parser.add_argument("--check", action="store_true", help="compare with the frozen ones as well")
    parser.add_argument("folder", type=Path, help="where they are written to")
    arguments = parser.parse_args()
    releases, oracles = arguments.folder / "releases" / f"torch-{RELEASE}", arguments.folder / "oracles"
    in_process_of_its_own(make_releases, releases)
    in_process_of_its_own(make_oracles, oracles)
    if not arguments.check:
        return 0
    frozen = FIXTURES / "releases" / f"torch-{RELEASE}"
    differing = compare_archives(releases, frozen)
    differing += compare_answers(releases / "made.json", frozen / "made.json")
    differing += compare_archives(oracles, FIXTURES / "oracles")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
