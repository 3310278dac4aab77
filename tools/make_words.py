"""Train the dictionaries of companions of exported programs: ``texts.zdict`` and ``columns.zdict``.

    python -m tools.make_words FOLDER

Exports the models of ``fixtures/words/models.py`` into the folder, unless they are there, and trains zstd
with what their companions hold. Some are of torchvision, timm and transformers; what is not at hand, or
cannot be exported, is listed and left out. None is among the other fixtures or in
``tools/bench/exported.py``, so what is measured there was not trained with.

The dictionaries are part of the format. While they exist, none are written.
"""

from __future__ import annotations

import logging
import re
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import zstandard

import archive
from archive.base.errors import NothingToDoError
from archive.companion.codecs import DICTIONARIES, Codec
from archive.companion.encodings import Transform, encoded_by, is_varied
from archive.companion.packed import solid_body, stored
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


def main() -> int:
    """Run the command line."""
    folder = Path(sys.argv[1])
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    export(folder)
    found = list(samples(folder))
    for codec, parts in zip((Codec.COLUMNS, Codec.TEXTS), zip(*found, strict=True), strict=True):
        file = DICTIONARIES[codec]
        if file.exists():
            print(f"{file.name} is there already, and what is frozen stays as it is", file=sys.stderr)
            return 1
        trained = zstandard.train_dictionary(SIZE, list(parts), k=SEGMENT, d=STEP, level=19)
        file.write_bytes(trained.as_bytes())
        print(f"{file.name}: {len(trained)} bytes of {len(parts)} companions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
