"""Make the dictionaries of companions: ``texts.zdict``, ``columns.zdict`` and ``sources.zst``.

    python -m tools.make_words FOLDER

The first two are trained, with companions of exported programs; the third is the source text of the modules
and functions of ``torch.nn``, of which scripted models quote each one that they call.

Exports the models of ``fixtures/words/models.py`` into the folder, unless they are there, and trains zstd
with what their companions hold. Some are of torchvision, timm and transformers; what is not at hand, or
cannot be exported, is listed and left out. None is among the other fixtures or in
``tools/bench/exported.py``, so what is measured there was not trained with.

The dictionaries are part of the format: one that exists is not written again.
"""

from __future__ import annotations

import io
import logging
import re
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import zstandard
from torch import nn

import archive
from archive.base.errors import NothingToDoError
from archive.companion.codecs import DICTIONARIES, Codec
from archive.companion.encodings import Transform, encoded_by, is_varied
from archive.companion.packed import solid_body, stored
from archive.companion.templates import SEPARATOR
from archive.reader.collect import collect
from archive.reader.halves.joined import with_digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.normalform.columns import Columns

MODELS = Path(__file__).resolve().parents[1] / "fixtures" / "words"
KINDS = {"": (False, False), "strict": (True, False), "decomposed": (False, True), "both": (True, True)}
"""Whether a program is strict, and decomposed."""
MOST_NODES, SIZE, SEGMENT, STEP = 200, 1 << 14, 500, 8
"""Nodes of programs that are trained with, and what zstd is given: bytes of a dictionary, ``k`` and ``d``."""
NUMBERS = ((), *((4,) * count for count in (1, 2, 3, 4)), (2, 4), (8, 2), (1,), ((4,),))
"""What modules are made with: the first that one takes."""
MACHINE = re.compile(rb"(?<![^\0])/[^\0]*(?=/lib/python3)")
"""The part of a path that differs from machine to machine."""


def export(folder: Path) -> None:
    """Export all models in each kind, unless that was done."""
    sys.path.insert(0, str(MODELS))
    models = import_module("models")
    calls: dict[str, tuple[Any, ...]] = models.calls()
    try:
        calls |= models.published()
    except ImportError as problem:
        print(f"left out: {problem}", file=sys.stderr)
    for name, (make, arguments, *shapes) in calls.items():
        for kind, (strict, decomposed) in KINDS.items():
            path = folder / f"{name}{kind and '_'}{kind}.pt2"
            try:
                if not path.exists():
                    program = torch.export.export(
                        make().eval(), arguments, strict=strict, dynamic_shapes=shapes[0] if shapes else None
                    )
                    torch.export.save(program.run_decompositions() if decomposed else program, path)
            except Exception as problem:  # noqa: BLE001 (whatever PyTorch raises)
                print(f"left out: {path.stem}: {type(problem).__name__}", file=sys.stderr)


def samples(folder: Path) -> Iterator[tuple[bytes, bytes]]:
    """The columns and the texts of each program's companion, without paths of this machine."""
    for path in sorted(folder.glob("*.pt2")):
        with archive.open(path) as opened:
            try:
                contents = with_digest(collect(opened), opened)
            except NothingToDoError:
                continue
        if len(contents.columns["site.base"]) <= MOST_NODES:
            columns, texts = stored(contents)
            yield alike(columns), MACHINE.sub(b"", texts).replace(f"{MODELS}/".encode(), b"")


def alike(columns: Columns) -> bytes:
    """Columns encoded in the way that is most alike in all companions, so that a dictionary fits them."""
    transforms = {True: Transform.DELTA, False: Transform.SAME}
    encoded = {name: encoded_by(transforms[is_varied(values)], values) for name, values in columns.items()}
    return solid_body(columns, encoded)


def train(folder: Path) -> None:
    """Train the dictionaries of exported programs."""
    folder.mkdir(parents=True, exist_ok=True)
    export(folder)
    found = list(samples(folder))
    for codec, parts in zip((Codec.COLUMNS, Codec.TEXTS), zip(*found, strict=True), strict=True):
        trained = zstandard.train_dictionary(SIZE, list(parts), k=SEGMENT, d=STEP, level=19)
        DICTIONARIES[codec].write_bytes(trained.as_bytes())
        print(f"{DICTIONARIES[codec].name}: {len(trained)} bytes of {len(parts)} companions")


def scripted() -> Iterator[torch.jit.ScriptModule]:
    """All modules of ``torch.nn`` that a few small numbers make, and the functions, as far as they script."""
    for name, kind in sorted(vars(nn).items()):
        if isinstance(kind, type) and issubclass(kind, nn.Module):
            for numbers in NUMBERS:
                try:
                    yield torch.jit.script(kind(*numbers).eval())
                except Exception:  # noqa: BLE001, S112 (whatever modules, and PyTorch, raise)
                    continue
                else:
                    break
            else:
                print(f"left out: {name}", file=sys.stderr)
    for name, function in sorted(vars(nn.functional).items()):
        try:
            if name.islower() and not name.startswith("_") and callable(function):
                yield torch.jit.script(function)
        except Exception:  # noqa: BLE001 (as above)
            print(f"left out: {name}", file=sys.stderr)


def sources() -> bytes:
    """Their texts, as companions have them, each once."""
    texts: dict[bytes, None] = {}
    for module in scripted():
        buffer = io.BytesIO()
        try:
            torch.jit.save(module, buffer)
        except RuntimeError:  # it calls Python
            continue
        files = [buffer.getvalue()]
        if isinstance(module, torch.jit.ScriptModule):
            files.append(module._save_to_buffer_for_lite_interpreter(_save_mobile_debug_info=True))
        for data in files:
            with archive.open(data) as opened:
                _, joined = stored(collect(opened))
            texts |= dict.fromkeys(MACHINE.sub(b"", joined).split(SEPARATOR))
    return SEPARATOR.join(texts)


def main() -> int:
    """Run the command line."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    there = {file.name for file in DICTIONARIES.values() if file.exists()}
    for name in sorted(there):
        print(f"{name} is there already, and what is frozen stays as it is", file=sys.stderr)
    if not there.intersection(("texts.zdict", "columns.zdict")):
        train(Path(sys.argv[1]))
    if (file := DICTIONARIES[Codec.SOURCES]).name not in there:
        file.write_bytes(zstandard.compress(texts := sources(), 22))
        print(f"{file.name}: {file.stat().st_size} bytes of {len(texts)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
