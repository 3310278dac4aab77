"""Makes ``fixtures/canaries``: models with tokens planted wherever a file may reveal its builders.

    python -m tools.make_canaries FOLDER [NAME ...]

``fixtures/canaries/tokens.tsv`` lists every token with its place. The sources, in
``fixtures/canaries/models``, are known to Python under a path with tokens, and their modules under names with
tokens. PyTorch must be in ``/opt/py/lib/python3.11/site-packages``, as for ``tools/make_exported.py``.
Addresses, ids and weights differ from run to run, so the fixtures are frozen and are not compared.
"""

from __future__ import annotations

import linecache
import logging
import os
import shutil
import sys
import sysconfig
import tempfile
import types
import warnings
import zipfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.make_compiled import PORTABLE, PROFILE, PROVENANCE, PYTHON, SOURCES
from tools.make_etrecords import MADE
from tools.make_exported import PACKAGES
from tools.make_fixtures import DEMO_BACKEND, DEMO_LIBRARIES, FIXTURES, Module, run_as_script

if TYPE_CHECKING:
    from collections.abc import Callable

CANARIES = FIXTURES / "canaries"
FOLDER = "/home/zquserxz/zqfolderxz"
ROOT = "zqrootxz"
"""The saved file's name, which PyTorch gives to the folder inside of the zip."""
EXTRA = {"zqextranamexz.txt": "zqextratextxz"}
CACHE = "/opt/cache/zqcachexz"
"""Where compiled code is kept."""
SAMPLE = b"zqsampletensorxz"
"""The bytes of a sample input."""


class Canaries:
    """Makes the models.

    Args:
        folder: where they are written to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        sys.path.insert(0, PACKAGES)
        self.torch = import_module("torch")
        if not str(self.torch.__file__).startswith(PACKAGES):
            sys.exit(f"make_canaries: PyTorch is not in {PACKAGES}")
        self.torch.manual_seed(0)

    def jobs(self) -> dict[str, Callable[[], None]]:
        """What makes each kind of models, by its name."""
        return {
            "scripted": self.scripted,
            "enums": self.enums,
            "traced": self.traced,
            "lowered": self.lowered,
            "effects": self.effects,
            "exported": self.exported,
            "saved": self.saved,
            "package": self.package,
            "compiled": self.compiled,
            "etrecord": self.etrecord,
        }

    def module(self, name: str) -> types.ModuleType:
        """The module of some models, under a path and a name with tokens."""
        text = (CANARIES / "models" / f"{name}.py").read_text("utf-8")
        path = f"{FOLDER}/zqfilexz.py"
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        made = types.ModuleType("zqpackagexz.zqmodulexz")
        made.__file__ = path
        sys.modules["zqpackagexz"] = types.ModuleType("zqpackagexz")
        sys.modules[made.__name__] = made
        exec(compile(text, path, "exec", dont_inherit=True), vars(made))  # noqa: S102 (our own source)
        return made

    def write(self, name: str, save: Callable[[str], object]) -> None:
        """Save a model under a file name that is a token."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"{ROOT}{Path(name).suffix}")
            save(str(path))
            shutil.copyfile(path, self.folder / name)

    def torchscript(self, name: str, model: Module) -> None:
        """Save a model of TorchScript for it, and for the lite interpreter."""
        self.write(f"{name}.pt", lambda path: self.torch.jit.save(model, path, _extra_files=dict(EXTRA)))
        mobile = {"_save_mobile_debug_info": True, "_extra_files": dict(EXTRA)}
        self.write(f"{name}.ptl", lambda path: model._save_for_lite_interpreter(path, **mobile))

    def scripted(self) -> None:
        """A model of all that TorchScript has names for."""
        self.torchscript("scripted", self.torch.jit.script(self.module("scripted").zqclassxz()))

    def enums(self) -> None:
        """A model with an enum."""
        self.torchscript("enums", self.torch.jit.script(self.module("enums").zqclassxz()))

    def traced(self) -> None:
        """A model whose archive has the Python stacks of its operations, and of the script around them."""
        names: dict[str, Any] = {"trace": self.torch.jit.trace, "model": self.module("traced").zqclassxz()}
        names |= {"example": (self.torch.ones(2, 4),), "out": []}
        run_as_script("out.append(trace(model, example))", f"{FOLDER}/zqscriptxz.py", names)
        self.torchscript("traced", names["out"][0])

    def lowered(self) -> None:
        """A module that PyTorch's demo backend has taken over, inside of another."""
        libraries = Path(str(self.torch.__file__)).parent / "lib"
        for name in DEMO_LIBRARIES:
            self.torch.ops.load_library(str(libraries / name))
        models = self.module("lowered")
        scripted = self.torch.jit.script(models.zqclassxz())
        lowered = self.torch._C._jit_to_backend(
            DEMO_BACKEND, scripted, {"forward": {"zqspeckeyxz": "zqspecxz"}}
        )
        self.torchscript("lowered", self.torch.jit.script(models.zqaroundxz(lowered)))

    def effects(self) -> None:
        """A lowered module with a table of what it changes."""
        backend = import_module("archive.backend")
        example = (self.torch.ones(2, 3),)
        model = self.module("effects").zqclassxz()
        made = backend.lowered_archive(backend.lower(model, "aten", effects=True, example_inputs=example))
        (self.folder / "effects.pt").write_bytes(made)

    def exported(self) -> None:
        """Exported programs."""
        for name in ("exported", "exported_strict", "exported_decomposed"):
            program = self.program(strict=name.endswith("strict"))
            if name.endswith("decomposed"):
                program = program.run_decompositions()
            self.write(
                f"{name}.pt2",
                lambda path, program=program: self.torch.export.save(  # type: ignore[misc]
                    program, path, extra_files=dict(EXTRA)
                ),
            )

    def program(self, *, strict: bool) -> Any:  # noqa: ANN401 (a torch.export.ExportedProgram)
        """A model as an exported program with notes, sizes that vary, and a class of its own as result."""
        torch = self.torch
        models = self.module("exported")
        torch.utils._pytree.register_dataclass(models.zqresultxz, serialized_type_name="zqserialisedxz")
        with torch.fx.traceback.preserve_node_meta():
            return torch.export.export(
                models.zqclassxz(),
                tuple(self.sample_inputs()),
                {"zqkeywordxz": "zqsampletextxz"},
                dynamic_shapes={
                    "zqargumentxz": {0: torch.export.Dim("zqdimensionxz", max=63)},
                    "zqkeywordxz": None,
                },
                strict=strict,
                preserve_module_call_signature=("zqsubmodulexz",),
            )

    def saved(self) -> None:
        """A checkpoint, and a whole module."""
        torch = self.torch
        model = self.module("traced").zqclassxz()
        checkpoint = {
            "zqkeyxz": model.state_dict(),
            "arguments": {"output": f"{FOLDER}/zqoutputxz"},
        }
        self.write("checkpoint.pt", lambda path: torch.save(checkpoint, path))
        self.write("module.pt", lambda path: torch.save(model, path))

    def package(self) -> None:
        """A package of Python's."""
        source = (CANARIES / "models" / "traced.py").read_text("utf-8")
        model = self.module("traced").zqclassxz()

        def save(path: str) -> None:
            with self.torch.package.PackageExporter(path) as package:
                package.save_source_string("zqpackagexz.zqmodulexz", source)
                package.extern("torch.**")
                package.extern("zqexternxz")
                package.save_text("zqresourcexz", "zqnotexz.txt", "zqtextxz")
                package.save_pickle("zqresourcexz", "model.pkl", model.state_dict())

        self.write("package.pt", save)

    def compiled(self) -> None:
        """A package of AOTInductor: sources, provenance of kernels, names of kernels for the profiler."""
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = CACHE
        places = dict.fromkeys(("base", "platbase", "installed_base", "installed_platbase"), PYTHON)
        sysconfig.get_config_vars().update({**places, "LIBDIR": f"{PYTHON}/lib"})
        program = self.torch.export.export(self.module("compiled").zqclassxz(), (self.torch.ones(3, 4),))
        options = PORTABLE | PROVENANCE | SOURCES | PROFILE
        compile_ = import_module("torch._inductor").aoti_compile_and_package
        self.write(
            "compiled.pt2", lambda path: compile_(program, package_path=path, inductor_configs=options)
        )

    def etrecord(self) -> None:
        """A record of ExecuTorch, which must be installed beside PyTorch."""
        zipfile.time.localtime = lambda _=None: MADE  # type: ignore[attr-defined]
        exir = import_module("executorch.exir")
        model, example = self.module("compiled").zqclassxz(), (self.torch.ones(3, 4),)
        edge = exir.to_edge(self.torch.export.export(model, example), generate_etrecord=True)
        record = edge.to_executorch().get_etrecord()
        record.update_representative_inputs(self.sample_inputs())
        self.write("record.etrecord", record.save)

    def sample_inputs(self) -> list[Any]:
        """Inputs whose bytes are a token."""
        return [self.torch.frombuffer(bytearray(SAMPLE), dtype=self.torch.float32).reshape(1, 4).repeat(3, 1)]


def main() -> None:
    """Make the models that the arguments name."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)  # PyTorch's own about loading
    folder, *names = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, job in Canaries(Path(folder).resolve()).jobs().items():
        if not names or name in names:
            job()
            sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
