"""Write the JSON Schemas of what ``--json`` prints, one a command, to ``docs/schemas``.

    python -m tools.schemas             writes them
    python -m tools.schemas --check     lists those that would be written otherwise; status 1 then

They are made of the classes of results, and of those in ``archive/render``; docstrings are the descriptions.
Objects have no other keys than those that are described.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from contextlib import suppress
from dataclasses import make_dataclass
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
from archive.describe.totals import Totals
from archive.formats.schema.json import ListOf, UpTo
from archive.page.report import Report
from archive.page.sources import SourcesFacts
from archive.privacy.leaks.findings import Finding, Leaks, Place
from archive.privacy.redact.result import (
    CheckpointRedaction,
    CompanionRedaction,
    MetadataRedaction,
    Redaction,
)
from archive.privacy.review import Review
from archive.render.as_json import keys_of
from archive.render.diff import DiffFacts, Lonely
from archive.render.documents import (
    AddedFacts,
    DemoFacts,
    DigestFacts,
    InFile,
    Made,
    RemovedFacts,
    Unread,
    Verified,
    schema_name,
)
from archive.render.inventory import UnreadRow
from archive.render.profile import ProfileComparison, ProfileFacts, SavedProfileFacts
from archive.render.sizes import ChangesFacts, SizesFacts, WeightsFacts
from archive.render.symbolicate import FramedSources, LogCauses, NamedSources, Symbolications
from archive.render.value_facts import RunComparison, RunFacts
from archive.rewrite.canonicalise import Canonical
from archive.rewrite.convert import Conversion
from archive.rewrite.join import Join
from archive.rewrite.migrate.migrate import Migration
from archive.rewrite.shrink import Shrinkage
from archive.rewrite.split import Split
from archive.store.entries import ENTRY
from archive.store.upkeep import Cleaned

if TYPE_CHECKING:
    from types import ModuleType

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _entry(name: str, doc: str, **more: type) -> type:
    """The class of what is said of a companion, as :data:`archive.store.entries.ENTRY` declares it."""
    declared = {**ENTRY.required, **ENTRY.others}  # those that servers of older versions leave out, too
    fields = more | {key: _type(kind) for key, kind in declared.items()}
    words = "".join(f"    {key}: {words}.\n" for key, words in ENTRY.docs.items())
    return make_dataclass(
        name, sorted(fields.items()), namespace={"__doc__": f"{doc}\n\nAttributes:\n{words}"}
    )


def _type(declared: object) -> Any:  # noqa: ANN401 (a type, or one of its parts)
    if isinstance(declared, ListOf):
        return list[_type(declared.item)]  # type: ignore[misc]
    return int if isinstance(declared, UpTo) else str


ENTRY_FACTS = _entry("EntryFacts", "A companion in a store.")
GIVEN = "A companion that was written to ``output``; ``exact`` is whether it is what was added, to the byte."
READ: dict[str, list[type]] = {
    "inspect": [
        Inspection,
        ZipListing,
        TensorListing,
        DumpInspection,
        EffectsInspection,
        SourcesFacts,
        InventoryRow,
        UnreadRow,
        Unread,
    ],
    "symbolicate": [Symbolications, NamedSources, FramedSources, LogCauses],
    "verify": [Verified],
    "leaks": [Leaks, Review, Unread],
    "sizes": [SizesFacts, WeightsFacts, ChangesFacts, Unread],
    "report": [Report, Unread],
    "diff": [DiffFacts, Lonely, Unread],
    "digest": [DigestFacts],
    "profile": [
        ProfileFacts,
        SavedProfileFacts,
        ProfileComparison,
    ],
    "run": [RunFacts, RunComparison],
    "store ls": [ENTRY_FACTS],
    "store get": [_entry("GivenFacts", GIVEN, output=str, exact=bool)],
    "store check": [Verified],
    "store rm": [RemovedFacts],
    "demo": [DemoFacts],
}
"""Commands, and what they say of a file: one of these."""
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
    "store add": (AddedFacts, [ENTRY_FACTS]),
    "store gc": (InFile, [Cleaned]),
}
"""Commands that say what became of a file, and with it, where all went well, what their work gave."""
CHANGES = [Change, TensorChange, TextChange]
"""What a change of ``diff`` is: one of these."""
LISTED = [Finding, Place, Report]
"""Classes that list their keys: see :mod:`archive.render.as_json`."""
HIDDEN: dict[type, set[str]] = {Migration: {"data"}}
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
    changes = CHANGES if DiffFacts in classes else []
    every = [*classes, *changes]
    references, definitions = msgspec.json.schema_components(every, ref_template="#/$defs/{name}")
    if changes:
        definitions["DiffFacts"]["properties"]["changes"]["items"] = _any_of([*references[len(classes) :]])
    inherited = {class_.__name__: _words_of_bases(class_) for class_ in classes}
    described = {
        name: _described(value, inherited.get(name, {})) for name, value in sorted(definitions.items())
    }
    for class_ in LISTED:
        if class_.__name__ in described:
            described[class_.__name__] |= _listed(class_, described[class_.__name__])
    return described, [*references[: len(classes)]]


def _merged(definitions: dict[str, Any], outcome: type, result: type) -> dict[str, Any]:
    """An object with the keys of an outcome, and those of a result, where there is one."""
    first, given = definitions[outcome.__name__], definitions[result.__name__]
    hidden = HIDDEN.get(result, ())
    properties = {key: value for key, value in given["properties"].items() if key not in hidden}
    required = [*first["required"], *(given["required"] if outcome is InFile else [])]
    merged: dict[str, Any] = first | {"title": given["title"], "description": given["description"]}
    return merged | {"properties": properties | first["properties"], "required": required}


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


def _listed(class_: type, definition: dict[str, Any]) -> dict[str, Any]:
    """The properties of a class that lists its keys: always there, so without a default."""
    given, properties = definition["properties"], {}
    for key in keys_of(class_):
        words = given[key.name].get("description", "")
        properties[key.name] = given[key.attribute] | ({"description": words} if words else {})
        properties[key.name].pop("default", None)
    required = [key.name for key in keys_of(class_) if not key.is_optional]
    return {"properties": properties, "required": required}


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
