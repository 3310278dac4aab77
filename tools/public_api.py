"""The public interface as text: names, signatures, commands, exit statuses, the versions of our own formats.

    python -m tools.public_api > tests/project/public_api.txt
    python -m tools.public_api --stub > archive/__init__.pyi

A line in brackets begins each section; the last three need PyTorch. A test compares the text with the code,
so that no program breaks by a change that nobody announced. The stub shows type checkers where the package's
lazy names come from; the same test compares it.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import re
import sys
from typing import TYPE_CHECKING

import click

import archive
from archive.cli.commands import COMMANDS, group
from archive.cli.status import ExitStatus
from archive.companion.layout import VERSION
from archive.formats.effects import schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STUB_HEAD = "# Made of `__init__.py` by `python -m tools.public_api --stub`."
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
RESULTS = {
    "archive.companion.layout": ("CompanionLayout",),
    "archive.debuginfo.model": (
        *("Generation", "HandleEntry", "InlinedCall", "LoweredState"),
        *("ModuleInstance", "RangeLayout", "RangeRow", "Source", "SourceRange"),
    ),
    "archive.debuginfo.symbolicate": ("TracebackFrame",),
    "archive.pickles.values": ("Global", "Inert"),
    "archive.reader.provenance": ("Evidence", "Provenance"),
    "archive.rewrite.migrate.plan": ("MigrationPlan", "PlanStep", "Target"),
    "archive.rewrite.shrink": ("ShrinkLevel",),
    "archive.describe.sizes.account": ("Part", "Piece", "Size", "SizeChange", "View", "Weight", "WeightSize"),
    "archive.base.diagnostics": ("Diagnostic",),
}
"""Classes that public functions take, give, or have inside of what they give, by their module."""

PROTOCOLS = {"__bytes__", "__call__", "__enter__", "__getitem__", "__iter__", "__len__"}
"""Methods that Python's own syntax calls that belong to the interface."""


class _Words(str):
    """An annotation that is printed without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _plain(annotation: object) -> object:
    return _Words(annotation) if isinstance(annotation, str) else annotation


def _signature(function: Callable[..., object]) -> str:
    """Parameters with kinds, annotations and defaults, and the type of the result."""
    found = inspect.signature(function)
    parameters = [one.replace(annotation=_plain(one.annotation)) for one in found.parameters.values()]
    shown = found.replace(parameters=parameters, return_annotation=_plain(found.return_annotation))
    return ADDRESS.sub("", str(shown))


def _own_members(kind: type) -> dict[str, object]:
    """Public members by name, those of our own base classes too."""
    ours = (base for base in reversed(kind.__mro__) if base.__module__.split(".")[0] == "archive")
    found = {name: member for base in ours for name, member in vars(base).items()}
    return {name: found[name] for name in sorted(found) if not name.startswith("_") or name in PROTOCOLS}


def _member(name: str, member: object) -> str:
    if isinstance(member, classmethod | staticmethod):
        return f"  {type(member).__name__} {name}{_signature(member.__func__)}"
    if inspect.isfunction(member):
        return f"  {name}{_signature(member)}"
    return f"  .{name}"


def _field(field: dataclasses.Field[object]) -> str:
    default = "" if field.default is dataclasses.MISSING else f" = {field.default!r}"
    made = "" if field.default_factory is dataclasses.MISSING else " = (made anew)"
    return f"  .{field.name}: {field.type}{default}{made}"


def _class(name: str, kind: type) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in kind.__bases__ if base is not object)
    head = f"class {name}({bases})" if bases else f"class {name}"
    if issubclass(kind, enum.Enum):
        yield head
        yield from (f"  {member.name} = {member.value!r}" for member in kind)
        return
    members = _own_members(kind)
    if dataclasses.is_dataclass(kind):
        named = [field for field in dataclasses.fields(kind) if not field.name.startswith("_")]
        keyword_only = ", keyword-only" if any(field.kw_only for field in named) else ""
        yield f"{head}, dataclass{keyword_only}"
        yield from map(_field, named)
        members = {name: members[name] for name in members if name not in {field.name for field in named}}
    else:
        yield head
        if "__init__" in vars(kind) and not getattr(kind, "_is_protocol", False):
            yield f"  new{_signature(kind)}"
    yield from (_member(name, member) for name, member in members.items())


def result_lines() -> Iterator[str]:
    """The classes of ``RESULTS``."""
    for module, names in RESULTS.items():
        yield module
        for name in names:
            yield from _class(name, getattr(importlib.import_module(module), name))


def module_lines(name: str) -> Iterator[str]:
    """Every name in the module's ``__all__``."""
    module = importlib.import_module(name)
    for public in sorted(module.__all__):
        value = getattr(module, public)
        if isinstance(value, type):
            yield from _class(public, value)
        elif callable(value):
            yield f"def {public}{_signature(value)}"
        else:
            yield f"{public} = {value!r}"


def _parameter(one: click.Parameter) -> str:
    if isinstance(one, click.Option):
        words = [" / ".join((*one.opts, *one.secondary_opts))]
    else:
        words = [str(one.name).upper()]
    if isinstance(one.type, click.Choice):
        words.append("|".join(str(getattr(choice, "value", choice)) for choice in one.type.choices))
    elif not (isinstance(one, click.Option) and one.is_flag):
        words.append(one.type.name)
    if one.required:
        words.append("required")
    if one.multiple or one.nargs != 1:
        words.append("repeated")
    if isinstance(one.default, str | int) and not (isinstance(one, click.Option) and one.is_flag):
        words.append(f"default {getattr(one.default, 'value', one.default)}")
    return " ".join(words)


def command_lines() -> Iterator[str]:
    """Every command with its arguments and options."""
    yield from (f"debug-archive {_parameter(one)}" for one in group.params)
    context = click.Context(group)
    for name in sorted(COMMANDS):
        command = group.get_command(context, name)
        assert command is not None
        yield from _lines_of(name, command)


def _lines_of(name: str, command: click.Command) -> Iterator[str]:
    """A command with its arguments and own options; then those of its group, if it is one."""
    yield f"debug-archive {name}"
    shown = (one for one in command.params if not getattr(one, "hidden", False))
    yield from sorted(f"  {_parameter(one)}" for one in shown)
    if isinstance(command, click.Group):
        for inner in sorted(command.commands):
            yield from _lines_of(f"{name} {inner}", command.commands[inner])


def constant_lines() -> Iterator[str]:
    """Exit statuses, and the versions of the formats that are this project's own."""
    yield from (f"exit status {status.value}: {status.name}" for status in ExitStatus)
    yield f"companion version {VERSION}"
    yield f"effects version {schema.VERSION}"


def entry_point_lines() -> Iterator[str]:
    """The group in which other packages announce backends."""
    yield importlib.import_module("archive.backend.registry").ENTRY_POINT_GROUP


CORE: dict[str, Callable[[], Iterator[str]]] = {
    "archive": lambda: module_lines("archive"),
    "results": result_lines,
    "commands": command_lines,
    "numbers": constant_lines,
}
TORCH: dict[str, Callable[[], Iterator[str]]] = {
    "archive.backend": lambda: module_lines("archive.backend"),
    "archive.effects": lambda: module_lines("archive.effects"),
    "entry points": entry_point_lines,
}


def section(name: str) -> str:
    """One section, without its heading."""
    return "".join(f"{line}\n" for line in (CORE | TORCH)[name]())


def stub() -> str:
    """The package as type checkers read it: each public name, imported from its module."""
    homes = vars(archive)["_HOMES"].items()
    lines = sorted(f"from archive.{module} import {name} as {name}\n" for name, module in homes)
    return f"{STUB_HEAD}\n\n{''.join(lines)}\n__version__: str\n__all__: list[str]\n"


def main() -> None:
    """Print all sections, or the stub."""
    if sys.argv[1:] == ["--stub"]:
        sys.stdout.write(stub())
    else:
        sys.stdout.write("\n".join(f"[{name}]\n{section(name)}" for name in (*CORE, *TORCH)))


if __name__ == "__main__":
    main()
