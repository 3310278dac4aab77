"""What GitHub's runner does with the lines that a step prints, after its ``ActionCommand.cs``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

STOP = "stop-commands"
COMMANDS = {STOP, "error", "warning", "notice", "add-mask", "set-output", "save-state", "group", "endgroup"}
IN_DATA = {"%0D": "\r", "%0A": "\n", "%25": "%"}
IN_PROPERTIES = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}


class Command(NamedTuple):
    """A line that the runner obeys instead of showing it."""

    name: str
    properties: dict[str, str]
    data: str


def obeyed(lines: Iterable[str]) -> list[Command]:
    """The commands that the runner obeys."""
    known, word, found = set(COMMANDS), "", []
    for line in lines:
        command = _parsed(line, known)
        if command is None:
            continue
        if word:
            word = "" if command.name == word else word
        elif command.name == STOP:
            word = command.data
            known.add(word)
        else:
            found.append(command)
    return found


def _parsed(line: str, known: set[str]) -> Command | None:
    """A line as a command: ``::name properties::data`` at its beginning, ``##[name properties]`` anywhere."""
    new = re.match(r"\s*::(?P<name>[^ ]*?)(?: (?P<properties>.*?))?::(?P<data>.*)", line, re.DOTALL)
    old = re.search(r"##\[(?P<name>[^ \]]*)(?: (?P<properties>[^\]]*))?\](?P<data>.*)", line, re.DOTALL)
    for match, separator in ((new, ","), (old, ";")):
        if match and match["name"] in known:
            pairs = (
                pair.split("=", 1) for pair in (match["properties"] or "").split(separator) if "=" in pair
            )
            properties = {key: _unescaped(value, IN_PROPERTIES) for key, value in pairs}
            return Command(match["name"], properties, _unescaped(match["data"], IN_DATA))
    return None


def _unescaped(text: str, escapes: dict[str, str]) -> str:
    for escape, character in escapes.items():
        text = text.replace(escape, character)
    return text
