"""Pages that the site alone has: commands by their ``--help``, names of Python, schemas, records, files."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import archive
from archive.cli.commands import COMMANDS, group
from tools.pages import ROOT
from tools.site.roles import markdown
from tools.site.tree import SiteError

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTH = 80
"""Columns of help texts."""
SCHEMAS = ROOT / "docs" / "schemas"
NAMES = {
    "Open and read": ("reader", "base", "debuginfo"),
    "In an application": ("app",),
    "Files made of files": ("rewrite", "batches"),
    "Look, check and compare": ("describe", "page", "check", "compare"),
    "Values by line": ("backend",),
    "Privacy": ("privacy",),
}
"""Pages of public names: the rooms whose names each has."""
LANGUAGES = {
    "": "text",
    ".cff": "yaml",
    ".yml": "yaml",
    ".sh": "sh",
    ".py": "python",
    ".toml": "toml",
    ".json": "json",
    ".txt": "text",
    ".tsv": "text",
}
"""What a file that is shown is written in; files of other kinds are not."""
HIDDEN = {"__pycache__", "build", "dist"}

Pages = list[tuple[str, str, str]]
"""The title, place and text of each page; the first one leads to the others."""


def commands() -> Pages:
    """A page for each command."""
    pages = [
        (name, f"reference/commands/{name.replace(' ', '-')}.md", command) for name, command in _commands()
    ]
    rows = "".join(
        f"| [{name}]({Path(place).name}) | {_summary(name, command)} |\n" for name, place, command in pages
    )
    head = f"# Commands\n\n| `debug-archive …` | |\n|---|---|\n{rows}\n{_help('debug-archive', group)}"
    made = [(name, place, _command_page(name, command)) for name, place, command in pages]
    return [("Commands", "reference/commands/index.md", head), *made]


def _commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {below}", sub) for below, sub in command.commands.items())


def _summary(name: str, command: click.Command) -> str:
    return COMMANDS[name].summary if name in COMMANDS else command.get_short_help_str(200)


def _help(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH)
    return f"```text\n{command.get_help(context)}\n```\n"


def _command_page(name: str, command: click.Command) -> str:
    text = f"# debug-archive {name}\n\n{_help(f'debug-archive {name}', command)}"
    schema = SCHEMAS / f"{name.replace(' ', '-')}.json"
    return f"{text}\n{_json_part(schema)}" if schema.exists() else text


# --- JSON Schemas


def schemas() -> Pages:
    """The page of all schemas; each stands on the page of its command."""
    files = sorted(SCHEMAS.glob("*.json"))
    rows = "".join(
        f"| [`{file.stem.replace('-', ' ')}`](commands/{file.stem}.md#json) "
        f"| `{json.loads(file.read_text('utf-8'))['$id']}` | [{file.name}](../schemas/{file.name}) |\n"
        for file in files
    )
    words = "Each schema is a table on the page of its command; [JSON](json.md) says what they share."
    table = f"| command | schema | file |\n|---|---|---|\n{rows}"
    return [("JSON schemas", "reference/schemas.md", f"# JSON schemas\n\n{words}\n\n{table}")]


def _json_part(file: Path) -> str:
    """What ``--json`` of a command prints: a table for each kind of object."""
    schema = json.loads(file.read_text("utf-8"))
    head = f"## JSON\n\nWhat `--json` prints, by its [schema](../../schemas/{file.name}).\n\n"
    parts = [head + _keys(schema)]
    for name, kind in schema.get("$defs", {}).items():
        words = _words(kind.get("description", ""))
        said = f"{words[:1].upper()}{words[1:]}\n\n" if words else ""
        parts.append(f"### {name} {{ #json-{name.lower()} }}\n\n{said}{_keys(kind)}")
    return "\n".join(parts)


def _keys(schema: dict[str, Any]) -> str:
    if "properties" not in schema:
        return f"{_kind(schema)}\n"
    rows = (
        f"| `{key}` | {_kind(value)} | {_words(value.get('description', ''))} |\n"
        for key, value in schema["properties"].items()
    )
    return f"| key | is | |\n|---|---|---|\n{''.join(rows)}"


def _kind(schema: dict[str, Any]) -> str:
    """The values that a schema allows, in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#json-{name.lower()})"
    if "const" in schema:
        return f"`{json.dumps(schema['const'], ensure_ascii=False)}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value, ensure_ascii=False)}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}" if schema.get("items") else "list"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"object of {_kind(values)}" if isinstance(values, dict) else "object"
    kinds = schema.get("type", "anything")
    return " or ".join(kinds) if isinstance(kinds, list) else kinds


def _words(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


# --- Python


def names() -> Pages:
    """A page for each group of public names, which mkdocstrings fills."""
    public = {f"archive.{name}": getattr(archive, name).__module__ for name in archive.__all__}
    rooms = {name: module.split(".")[1] for name, module in public.items()}
    assert set(rooms.values()) == {room for group in NAMES.values() for room in group}
    groups = {
        title: {name: public[name] for name in public if rooms[name] in NAMES[title]} for title in NAMES
    }
    groups["Lowering"] = dict(_backend_names())
    pages = [
        (title, f"reference/names/{title.lower().replace(' ', '-')}.md", _names_page(title, group))
        for title, group in groups.items()
    ]
    rows = "".join(f"- [{title}]({Path(place).name})\n" for title, place, _ in pages)
    words = "What the public names take, give and raise. [From Python](../python.md) shows them at work."
    head = f"# Python, name by name\n\n{words}\n\n{rows}"
    return [("Python, name by name", "reference/names/index.md", head), *pages]


def _names_page(title: str, public: dict[str, str]) -> str:
    """What mkdocstrings makes the descriptions of names of, each with its module."""
    return f"# {title}\n" + "".join(
        f"\n::: {module}.{name.rpartition('.')[2]}\n    options:\n      heading: {name}\n"
        for name, module in public.items()
    )


def _backend_names() -> Iterator[tuple[str, str]]:
    """The public names of ``archive.backend``, which is read, not imported: it needs PyTorch."""
    module = ast.parse((ROOT / "archive" / "backend" / "__init__.py").read_text("utf-8"))
    for statement in module.body:
        if isinstance(statement, ast.ImportFrom):
            yield from ((f"archive.backend.{alias.name}", str(statement.module)) for alias in statement.names)


# --- Records and files


def records() -> Pages:
    """The specification of each record: the docstring of its module, as it stands there."""
    files = [
        ROOT / "archive" / "companion" / "__init__.py",
        *sorted((ROOT / "archive" / "formats").rglob("*.py")),
    ]
    parts = []
    for file in files:
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        said = markdown(ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "")
        if len(said.splitlines()) > 1:
            parts.append(f"## {module} {{ #{module.replace('.', '')} }}\n\n{said}\n")
    title = "Records, byte by byte"
    words = "The docstring of each module that reads one. [What it reads](formats.md) has releases."
    return [(title, "reference/records.md", "\n".join([f"# {title}\n\n{words}\n", *parts]))]


def shown(target: str) -> str:
    """The page of a file, or of all files of a folder, that other pages lead to."""
    path = ROOT / target
    files = sorted(filter(Path.is_file, path.rglob("*"))) if path.is_dir() else [path]
    texts = [
        file for file in files if file.suffix in LANGUAGES and not HIDDEN & {*file.relative_to(ROOT).parts}
    ]
    if not texts:
        raise SiteError(f"{target}: no file in it can be shown as text")
    parts = []
    for file in texts:
        heading = f"## {file.relative_to(path)}\n\n" if len(texts) > 1 else ""
        parts.append(f"{heading}`````{LANGUAGES[file.suffix]}\n{file.read_text('utf-8')}`````\n")
    return f"---\nsearch:\n  exclude: true\n---\n\n# {target}\n\n" + "\n".join(parts)


def pages_of(name: str) -> Pages:
    """The pages that a name of the tree stands for."""
    return {"commands": commands, "names": names, "schemas": schemas, "records": records}[name]()
