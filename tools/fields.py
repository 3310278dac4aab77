"""The page of all fields, made from the declarations: ``docs/reference/fields.md``.

python -m tools.fields
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from inspect import getdoc
from typing import TYPE_CHECKING, Any

import archive
from archive.formats.elf.headers import LITTLE, headers_of
from archive.schema import binary, bounded, flatbuffer, json, pickled, protobuf, varints
from tools.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

PAGE = ROOT / "docs" / "reference" / "fields.md"
ROOMS = ("container", "formats", "companion", "store", "reader", "batches")
"""The rooms whose modules declare formats, in the order of the page."""
HEAD = """\
# Formats, field by field

Made from the declarations by `python -m tools.fields`; a test compares it. [What it reads](formats.md) has the releases, and
the docstring of each module what the fields don't say: who writes them, and how they belong together.
"""


def page() -> str:
    """The page."""
    return "\n".join([HEAD, *(part for module in modules() for part in _module(module))])


def modules() -> Iterator[ModuleType]:
    """The modules of all rooms that declare formats."""
    for room in ROOMS:
        inside = importlib.import_module(f"archive.{room}")
        yield inside
        for found in pkgutil.walk_packages(inside.__path__, f"archive.{room}."):
            yield importlib.import_module(found.name)


def declared(module: ModuleType) -> dict[str, Any]:
    """The declarations of a module by name, in its order; those that it imports are not its own."""
    tree = ast.parse((ROOT / str(module.__file__)).read_text("utf-8"))
    targets = (
        target
        for statement in tree.body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
    )
    names = [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
    found = {name: getattr(module, name) for name in names if not name.startswith("_")}
    if module.__name__ == headers_of.__module__:
        found |= {one.what: one for one in headers_of(64, LITTLE)}
    return found
