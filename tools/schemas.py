"""Write the JSON Schemas of what ``--json`` prints, one a command, to ``docs/schemas``.

    python -m tools.schemas             writes them
    python -m tools.schemas --check     tells which differ from those that would be written; status 1 then

They are made of the classes that :mod:`archive.render.document_facts` and the rooms declare, whose docstrings
are the descriptions. Objects have no other keys than those that are described.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from archive.backend.lite import Lite
from archive.compare.changes import Change, TensorChange, TextChange
from archive.describe.effects import EffectsInspection
from archive.describe.inspect import Inspection
from archive.describe.inventory import InventoryRow
from archive.describe.listing import ZipListing
from archive.describe.runtime.blocks import DumpInspection
from archive.describe.tensor_listing import TensorListing
from archive.page.sources import SourcesFacts
from archive.privacy.redact.result import (
    CheckpointRedaction,
    CompanionRedaction,
    MetadataRedaction,
    Redaction,
)
from archive.privacy.review import Review
from archive.render import document_facts
from archive.render.document_facts import Made
from archive.render.documents import Totals, Unread, schema_name
from archive.rewrite.canonicalise import Canonical
from archive.rewrite.convert import Conversion
from archive.rewrite.join import Join
from archive.rewrite.migrate.migrate import Migration
from archive.rewrite.shrink import Shrinkage
from archive.rewrite.split import Split

if TYPE_CHECKING:
    from types import ModuleType

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
READ: dict[str, list[type]] = {
    "inspect": [
        Inspection,
        ZipListing,
        TensorListing,
        DumpInspection,
        EffectsInspection,
        SourcesFacts,
        InventoryRow,
        Unread,
    ],
    "symbolicate": [document_facts.Symbolications, document_facts.NamedSources, document_facts.LogCauses],
    "verify": [document_facts.Verified],
    "leaks": [document_facts.LeaksFacts, Review, Unread],
    "sizes": [document_facts.SizesFacts, document_facts.WeightsFacts, document_facts.ChangesFacts, Unread],
    "report": [document_facts.ReportFacts, Unread],
    "diff": [document_facts.DiffFacts, document_facts.Lonely, Unread],
    "digest": [document_facts.DigestFacts],
    "profile": [
        document_facts.ProfileFacts,
        document_facts.SavedProfileFacts,
        document_facts.ProfileComparison,
    ],
    "store ls": [document_facts.EntryFacts],
    "store get": [document_facts.GivenFacts],
    "store check": [document_facts.Verified],
    "store rm": [document_facts.RemovedFacts],
    "store gc": [document_facts.CleanedFacts],
    "demo": [document_facts.DemoFacts],
}
"""Commands, and what they tell of a file: one of these."""
ENDED: dict[str, type] = {"inspect": Totals}
"""Commands whose documents may end with sums."""
MADE: dict[str, tuple[type, list[type]]] = {
    "split": (Made, [Split]),
    "join": (Made, [Join]),
    "shrink": (Made, [Shrinkage]),
    "restore": (Made, [Join]),
    "redact": (Made, [Redaction, CompanionRedaction, MetadataRedaction, CheckpointRedaction]),
    "migrate": (Made, [Migration]),
    "lite": (Made, [Lite]),
    "convert": (Made, [Conversion, Canonical]),
    "store add": (document_facts.AddedFacts, [document_facts.EntryFacts]),
}
"""Commands that tell what became of a file, and with it, where all went well, what their work gave."""
CHANGES = [Change, TensorChange, TextChange]
"""What a change of ``diff`` is: one of these."""
UNTOLD: dict[type, set[str]] = {Migration: {"data"}}
"""Attributes that JSON does not have."""


def schema(command: str) -> dict[str, Any]:
    """The schema of a command's documents."""
    ends: dict[str, Any] = {}
    if command in ENDED:
        definitions, [*alternatives, ends["totals"]] = _definitions([*READ[command], ENDED[command]])
    elif command in READ:
        definitions, alternatives = _definitions(READ[command])
    else:
        outcome, results = MADE[command]
        definitions, _ = _definitions([outcome, *results])
        alternatives = [_merged(definitions, outcome, result) for result in results]
        for class_ in (outcome, *results):
            del definitions[class_.__name__]
    return {
        "$schema": DIALECT,
        "$id": schema_name(command),
        "title": f"What `debug-archive {command} --json` prints",
        "type": "object",
        "properties": {
            "schema": {"const": schema_name(command)},
            "version": {"type": "string", "description": "The version of debug-archive."},
            "command": {"const": command},
            "files": {"type": "array", "items": _any_of(alternatives)},
            **ends,
        },
        "required": ["schema", "version", "command", "files"],
        "additionalProperties": False,
        "$defs": definitions,
    }


def _definitions(classes: list[type]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The definitions of classes and of all that they refer to, and a reference to each of the classes."""
    for class_ in classes:
        _complete(sys.modules[class_.__module__])
    changes = CHANGES if document_facts.DiffFacts in classes else []
    every = [*classes, *changes]
    references, definitions = msgspec.json.schema_components(every, ref_template="#/$defs/{name}")
    if changes:
        definitions["DiffFacts"]["properties"]["changes"]["items"] = _any_of([*references[len(classes) :]])
    inherited = {class_.__name__: _words_of_bases(class_) for class_ in classes}
    described = {
        name: _described(value, inherited.get(name, {})) for name, value in sorted(definitions.items())
    }
    return described, [*references[: len(classes)]]


def _merged(definitions: dict[str, Any], outcome: type, result: type) -> dict[str, Any]:
    """An object with the keys of an outcome, and those of a result, where there is one."""
    told, given = definitions[outcome.__name__], definitions[result.__name__]
    untold = UNTOLD.get(result, ())
    properties = {key: value for key, value in given["properties"].items() if key not in untold}
    merged: dict[str, Any] = told | {"title": given["title"], "description": given["description"]}
    return merged | {"properties": properties | told["properties"]}


def _any_of(alternatives: list[dict[str, Any]]) -> dict[str, Any]:
    return alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}


def _complete(module: ModuleType, seen: set[str] = set()) -> None:  # noqa: B006 (what was completed stays so)
    """Import what a module imports for annotations alone, there and in the modules that it names."""
    if module.__name__ in seen or not module.__name__.startswith("archive"):
        return
    seen.add(module.__name__)
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for statement in node.body:
                with suppress(ImportError):  # what exists for the type checker alone; no facts are of it
                    if isinstance(statement, ast.ImportFrom):
                        exec(ast.unparse(statement), module.__dict__)  # noqa: S102 (its own line)
    for value in list(vars(module).values()):
        if inspect.isclass(value):
            _complete(sys.modules[value.__module__])


def _words_of_bases(class_: type) -> dict[str, str]:
    """The words for the attributes that a class has from others."""
    words: dict[str, str] = {}
    for base in reversed(class_.__mro__[1:-1]):
        words |= _parted(base.__doc__ or "")[1]
    return words


def _parted(doc: str) -> tuple[str, dict[str, str]]:
    """A docstring without its attributes, and the words for each of these."""
    text, _, attributes = inspect.cleandoc(doc).partition("\n\nAttributes:\n")
    return text, dict(re.findall(r"^    (\w+): ((?:.|\n {8})+)", attributes, re.MULTILINE))


def _described(definition: dict[str, Any], inherited: dict[str, str]) -> dict[str, Any]:
    """A definition with the words of its docstring where they belong, and no other keys than its own."""
    properties = definition.get("properties", {})
    text, own = _parted(definition.get("description", ""))
    words = inherited | own
    if text:
        definition["description"] = re.sub(r"\s+", " ", text)
    for name, value in properties.items():
        value.pop("contentEncoding", None)  # bytes are printed as text with escapes
        if name in words and "$ref" not in value:
            value["description"] = re.sub(r"\s+", " ", words[name])
    if properties:
        definition["additionalProperties"] = False
    return definition


def main(*words: str) -> int:
    """Write the schemas, or compare them."""
    texts = {
        FOLDER / f"{command.replace(' ', '-')}.json": json.dumps(schema(command), indent=2) + "\n"
        for command in [*READ, *MADE]
    }
    if "--check" in words:
        known = {path: path.read_text() for path in FOLDER.glob("*.json")}
        wrong = [path.name for path in sorted({*texts, *known}) if texts.get(path) != known.get(path)]
        sys.stdout.write("".join(f"docs/schemas/{name} is not as declared\n" for name in wrong))
        return 1 if wrong else 0
    FOLDER.mkdir(exist_ok=True)
    for path, text in texts.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
