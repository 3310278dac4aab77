"""Makes ``fixtures/exported``: exported programs of PyTorch 2.13, and the texts with which their calls fail.

    python -m tools.make_exported FOLDER [NAME ...]

``several.pt2`` has three programs, the others one each; ``legacy/shop.pt2`` has the records of PyTorch 2.7.
Where a call of one fails in the middle there are

* ``NAME.module.txt``: the traceback of ``torch.export.load(…).module()(…)``, PyTorch's frames included;
* ``NAME.interpreter.txt``: the message of ``torch.fx.Interpreter``, which names the node that it executed;
* ``NAME.interpreter.stripped.txt``: the same of the archive whose nodes have no metadata.

The models are those in ``fixtures/exported/models``. The place of PyTorch stands in each archive, so it must
be neutral: in ``/opt/py/lib/python3.11/site-packages``, which may be a link. A name from a loader does not
do: export leaves out frames by the names of PyTorch's files, and reads the text of each line from its file.
Addresses, ids and weights differ from run to run, so the fixtures are frozen and are not compared.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import traceback
import warnings
import zipfile
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.make_fixtures import FIXTURES, Module, NeutralFinder

if TYPE_CHECKING:
    from collections.abc import Callable

MODELS = FIXTURES / "exported" / "models"
PACKAGES = "/opt/py/lib/python3.11/site-packages"
Arguments = tuple[Any, ...]


class Sample(NamedTuple):
    """An exported program.

    Attributes:
        model: makes it.
        arguments: an example call.
        failing: a call that fails in the middle; empty where none does.
        keywords: keyword arguments of both calls.
        strict: whether it is exported by dynamo.
        decomposed: whether operators are decomposed.
        dynamic: its dynamic shapes.
        training: whether it is exported in training mode.
        notes: whether nodes keep the notes that the model makes.
        save: how it is saved.
    """

    model: Callable[[], Module]
    arguments: Arguments
    failing: Arguments = ()
    keywords: dict[str, Any] = {}  # noqa: RUF012 (of a named tuple, and never changed)
    strict: bool = False
    decomposed: bool = False
    dynamic: Any = None
    training: bool = False
    notes: bool = False
    save: dict[str, Any] = {}  # noqa: RUF012


class Exported:
    """Makes the samples.

    Args:
        folder: where they are written to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        os.chdir(MODELS.parent)  # the models' sources are read by their relative names
        names = {file.stem for file in MODELS.glob("*.py")}
        sys.meta_path.insert(0, NeutralFinder(MODELS, MODELS.name, names))
        sys.path.insert(0, PACKAGES)
        self.torch = import_module("torch")
        if not str(self.torch.__file__).startswith(PACKAGES):
            sys.exit(f"make_exported: PyTorch is not in {PACKAGES}")
        self.torch.manual_seed(0)

    def samples(self) -> dict[str, Sample]:
        """All samples by name."""
        return {**self.of_shop(), **self.of_branches(), **self.of_odd(), **self.of_layers()}

    def of_shop(self) -> dict[str, Sample]:
        """Those of ``shop.py``."""
        shop = import_module("shop")

        torch = self.torch
        ids, beyond = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 9])
        plain = Sample(shop.Shop, (ids, ids.clone()), (ids, beyond))
        rows = torch.export.Dim("rows", max=64)
        dynamic = plain._replace(dynamic={"first": {0: rows}, "second": {0: rows}})
        rate = {"rate": torch.tensor(0.5)}
        counter = Sample(shop.Counter, ({"ids": ids},), ({"ids": beyond},), rate, training=True)
        torch.utils._pytree._register_namedtuple(shop.Offer, serialized_type_name="shop.Offer")
        torch.utils._pytree.register_dataclass(shop.Bill, serialized_type_name="shop.Bill")
        bills = [shop.Bill(one, rate["rate"]) for one in (ids, beyond)]
        return {
            "shop": plain,
            "shop_strict": plain._replace(strict=True),
            "shop_decomposed": plain._replace(decomposed=True),
            "shop_strict_decomposed": plain._replace(strict=True, decomposed=True),
            "shop_dynamic": dynamic,
            "shop_dynamic_strict": dynamic._replace(strict=True),
            "shop_extra": plain._replace(save={"extra_files": {"a/b.txt": "Größe", "c": "{}"}}),
            "shop_protocol": plain._replace(save={"pickle_protocol": 5}),
            "counter": counter,
            "counter_strict": counter._replace(strict=True),
            "teller": Sample(shop.Teller, (bills[0],), (bills[1],)),
        }

    def of_branches(self) -> dict[str, Sample]:
        """Those of ``branches.py``."""
        branches = import_module("branches")

        torch = self.torch
        ids, beyond, x = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 9]), torch.ones(3, 4)
        choice = Sample(branches.Choice, (ids, x), (beyond, 3 * x))
        walk = Sample(branches.Walk, (torch.tensor([4]), x), (torch.tensor([4]), x))
        sums = Sample(branches.Sums, (ids.repeat(2, 1),), (torch.stack([ids, beyond]),))
        again = Sample(branches.Again, (ids,), (beyond,))
        regions = Sample(branches.Regions, (ids,), (beyond,))
        return {
            "choice": choice,
            "choice_strict": choice._replace(strict=True),
            "choice_decomposed": choice._replace(decomposed=True),
            "choice_strict_decomposed": choice._replace(strict=True, decomposed=True),
            "walk": walk,
            "walk_strict": walk._replace(strict=True),
            "sums": sums,
            "sums_strict": sums._replace(strict=True),
            "maxima": Sample(branches.Maxima, (x,)),
            "regions": regions,
            "regions_strict": regions._replace(strict=True),
            "again": again,
        }

    def of_odd(self) -> dict[str, Sample]:
        """Those of ``odd.py``."""
        odd = import_module("odd")

        torch = self.torch
        x, dim = torch.rand(3), torch.export.Dim.AUTO
        odd_one = Sample(odd.Odd, (x,))
        own = Sample(odd.Own, (x + 2,), (x - 0.5,))
        sized = Sample(odd.Sized, (torch.rand(4, 2), torch.rand(4, 2)), dynamic=({0: dim}, {0: dim}))
        picked = Sample(odd.Picked, (torch.ones(4), torch.tensor(2)), (torch.ones(4), torch.tensor(6)))
        return {
            "odd": odd_one,
            "odd_strict": odd_one._replace(strict=True),
            "noted": Sample(odd.Noted, (x,), notes=True),
            "own": own,
            "own_strict": own._replace(strict=True),
            "sized": sized,
            "sized_strict": sized._replace(strict=True),
            "picked": picked,
            "picked_decomposed": picked._replace(decomposed=True),
        }

    def of_layers(self) -> dict[str, Sample]:
        """Those of ``layers.py``."""
        layers = import_module("layers")

        torch = self.torch
        ids, places = torch.ones(1, 5, dtype=torch.int64), torch.arange(5)
        decoder = Sample(layers.Decoder, (ids, places), (ids, places * 4))
        short = decoder._replace(model=lambda: layers.Decoder(blocks=1))
        images = Sample(layers.Images, (torch.rand(1, 3, 17, 17),))
        return {
            "decoder": decoder,
            "decoder_strict": short._replace(strict=True),
            "decoder_decomposed": short._replace(decomposed=True),
            "images": images,
            "images_strict_decomposed": images._replace(strict=True, decomposed=True),
            "steps": Sample(layers.Steps, (ids,), (ids * 7,)),
        }

    def exported(self, sample: Sample) -> Any:  # noqa: ANN401 (a torch.export.ExportedProgram)
        """The sample as a program."""
        with self.torch.fx.traceback.preserve_node_meta() if sample.notes else nullcontext():
            program = self.torch.export.export(
                sample.model().train(sample.training),
                sample.arguments,
                sample.keywords,
                dynamic_shapes=sample.dynamic,
                strict=sample.strict,
            )
        return program.run_decompositions() if sample.decomposed else program

    def make(self, name: str, sample: Sample) -> None:
        """Write the files of a sample."""
        path = self.folder / f"{name}.pt2"
        self.torch.export.save(self.exported(sample), path, **sample.save)
        if not sample.failing:
            return
        data = path.read_bytes()
        texts = {
            "module": self.module_text(data, sample),
            "interpreter": self.interpreter_text(data, sample),
            "interpreter.stripped": self.interpreter_text(without_metadata(data), sample),
        }
        for kind, text in texts.items():
            (self.folder / f"{name}.{kind}.txt").write_text(text, "utf-8")

    def module_text(self, data: bytes, sample: Sample) -> str:
        """The traceback of the failing call of the module."""
        module = self.torch.export.load(io.BytesIO(data)).module()
        try:
            module(*sample.failing, **sample.keywords)
        except Exception as error:  # noqa: BLE001 (whatever the model raises)
            inner = error.__traceback__ and error.__traceback__.tb_next  # without this file
            return "".join(traceback.format_exception(error.with_traceback(inner)))
        sys.exit("make_exported: a call that should fail does not")

    def interpreter_text(self, data: bytes, sample: Sample) -> str:
        """What the interpreter says of the failing call."""
        torch = self.torch
        module = torch.export.load(io.BytesIO(data)).module()
        flat = torch.utils._pytree.tree_leaves((sample.failing, sample.keywords))
        module.graph.set_codegen(torch.fx.graph.CodeGen())
        try:
            torch.fx.Interpreter(module).run(*flat)
        except Exception as error:  # noqa: BLE001
            return f"{type(error).__name__}: {error}\n"
        sys.exit("make_exported: a call that should fail does not")

    def legacy(self, path: Path) -> None:
        """Write a program with the records of ``torch.export.save`` of PyTorch 2.7, in its order.

        What is in them is 2.13's: its serializer, and its version of the schema. 2.13 loads it.
        """
        serde = import_module("torch._export.serde.serialize")
        written = serde.serialize(self.exported(self.samples()["shop"]))
        version = ".".join(map(str, import_module("torch._export.serde.schema").SCHEMA_VERSION))
        with zipfile.ZipFile(path, "w") as target:
            target.writestr("serialized_exported_program.json", written.exported_program)
            target.writestr("serialized_state_dict.pt", written.state_dict)
            target.writestr("serialized_constants.pt", written.constants)
            target.writestr("serialized_example_inputs.pt", written.example_inputs)
            target.writestr("version", version)
            target.writestr("extra_files/notes.txt", "hällo".encode())

    def several(self, path: Path) -> None:
        """Write an archive of three programs and a file beside them."""
        samples = self.samples()
        programs = {name: self.exported(samples[name]) for name in ("shop", "choice", "steps")}
        package = import_module("torch.export.pt2_archive._package")
        package.package_pt2(path, exported_programs=programs, extra_files={"note.txt": "hällo"})


def without_metadata(data: bytes) -> bytes:
    """The archive whose nodes have no metadata."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith("models/model.json"):
                tree = json.loads(content, object_hook=_emptied)
                content = json.dumps(tree).encode()
            target.writestr(name, content)
    return out.getvalue()


def _emptied(value: dict[str, Any]) -> dict[str, Any]:
    """A JSON object; without its metadata if it is a node."""
    return value | {"metadata": {}} if {"target", "inputs", "metadata"} <= value.keys() else value


def main() -> None:
    """Make the samples that the arguments name."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)  # PyTorch's own about loading
    folder, *names = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    made = Exported(Path(folder).resolve())
    jobs = {name: partial(made.make, name, sample) for name, sample in made.samples().items()}
    jobs["shop.legacy"] = partial(made.legacy, made.folder / "legacy" / "shop.pt2")
    jobs["several"] = partial(made.several, made.folder / "several.pt2")
    for name, job in jobs.items():
        if not names or name in names:
            job()
            sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
