"""Man pages of all commands, made of their help.

    python -m tools.man [FOLDER]        writes them to FOLDER, build/man by default
    man -l build/man/debug-archive-split.1

The pages are the same bytes from the same commands: they have no date.
"""

from __future__ import annotations

import sys
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING

import click

from archive import __version__
from archive.cli.commands import COMMANDS, group

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path("build/man")
WIDEST = 1 << 16
"""Columns that no text fills: man breaks lines."""


def pages(context: click.Context | None = None) -> Iterator[tuple[str, str]]:
    """Each page's name and text: the command's, then those of the commands below it."""
    context = context or _context(group, "debug-archive", None)
    yield page_name(context), page(context)
    for below in _below(context):
        yield from pages(below)


def page_name(context: click.Context) -> str:
    """``debug-archive-store-add``."""
    return context.command_path.replace(" ", "-")


def page(context: click.Context) -> str:
    """The page of one command, in the man macros of roff."""
    name, command = page_name(context), context.command
    lines = [
        f'.TH "{escaped(name.upper())}" 1 "" "debug-archive {__version__}" "debug-archive"',
        ".SH NAME",
        f"{escaped(name)} \\- {escaped(summary_of(context).rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {escaped(context.command_path)}",
        escaped(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        *_description(command.help or ""),
        ".SH OPTIONS",
    ]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and isinstance(parameter, click.Option):
            words, text = record
            lines += [".TP", f"\\fB{escaped(words)}\\fP", escaped(text)]
    below = _below(context)
    if below:
        lines.append(".SH COMMANDS")
        for one in below:
            lines += [".TP", f"\\fB{escaped(page_name(one))}\\fP(1)", escaped(summary_of(one))]
    if context.parent:
        lines += [".SH SEE ALSO", f"\\fB{escaped(page_name(context.parent))}\\fP(1)"]
    return "\n".join(lines) + "\n"


def summary_of(context: click.Context) -> str:
    """A command in one line: that of the group's help, or the first sentence of its own."""
    command = context.command
    is_entry = context.parent is not None and context.parent.parent is None
    return COMMANDS[command.name or ""].summary if is_entry else command.get_short_help_str(WIDEST)


def _context(command: click.Command, name: str, above: click.Context | None) -> click.Context:
    return click.Context(command, above, name, help_option_names=["-h", "--help"])


def _below(context: click.Context) -> list[click.Context]:
    """The commands of a group; none of any other command."""
    command = context.command
    if not isinstance(command, click.Group):
        return []
    commands = ((name, command.get_command(context, name)) for name in command.list_commands(context))
    return [_context(below, name, context) for name, below in commands if below is not None]


def _description(text: str) -> Iterator[str]:
    r"""Paragraphs; those that click leaves as they are, after ``\b``, stay so here."""
    for number, paragraph in enumerate(cleandoc(text).split("\n\n")):
        if number:
            yield ".PP"
        lines = paragraph.split("\n")
        if lines[0].strip() == "\b":
            yield ".nf"
            yield from map(escaped, lines[1:])
            yield ".fi"
        else:
            yield escaped(" ".join(map(str.strip, lines)))


def escaped(text: str) -> str:
    """Text that roff prints as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def main() -> None:
    """Write all pages."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for name, text in pages():
        (folder / f"{name}.1").write_text(text, encoding="utf-8")
        count += 1
    print(f"{count} pages in {folder}")


if __name__ == "__main__":
    main()
