"""Names of classes and functions in the metadata of exported programs.

``nn_module_stack`` and ``source_fn_stack`` name classes, and stack traces name functions: these may change.
Attribute paths of modules stay: they are keys of the state dict, ``torch.export.unflatten`` makes modules of
them, and PyTorch names inputs after them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.errors import counted
from archive.base.json_text import read_json
from archive.base.source_files import is_no_models
from archive.formats.exported.modules import build_modules, parse_modules
from archive.formats.exported.node_metadata import (
    FUNCTIONS,
    MODULES,
    STACK_TRACE,
    build_functions,
    parse_functions,
)
from archive.formats.exported.program import graph_of, nodes
from archive.formats.exported.traces import build_trace, parse_trace
from archive.privacy.redact.names.words import WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from archive.privacy.redact.names.words import ModelNames
    from archive.reader.archive import Archive

OWN = re.compile(r"(?:torch|builtins|_operator|operator|math|executorch)\.")
"""Begins the names of classes and functions of PyTorch and Python."""


def note_programs(words: ModelNames, opened: Archive) -> list[str]:
    """Note the names in the programs of an archive.

    Returns:
        Remarks about names that stay.
    """
    attributes = set[str]()
    for name, record in opened.programs.records.items():
        for site in opened.programs[name].sites.values():
            for key, text in site.metadata.items():
                words.found.update(_names_in(key, text))
                if key in (MODULES, STACK_TRACE):
                    words.spoken.update(_names_in(key, text, own=True))
                else:
                    functions = parse_functions(text) if key == FUNCTIONS else None
                    names = (
                        WORDS.findall(text)
                        if functions is None
                        else [function.name for function in functions]
                    )
                    words.spoken.update(names)
                if key == MODULES:
                    for module in parse_modules(text) or ():
                        attributes.update(filter(None, module.path.split(".")))
        tree = read_json(opened.records[record].view())
        for _, node, *_ in nodes(graph_of(tree)):
            node["metadata"] = {}
        stack = [tree]
        while stack:  # all strings of the JSON, keys, too
            value = stack.pop()
            if isinstance(value, str):
                memory.take(memory.TEXT + len(value), "words of programs", record=record)
                words.spoken.update(WORDS.findall(value))
            elif isinstance(value, list):
                stack += value
            elif isinstance(value, dict):
                stack += [*value, *value.values()]
    attributes = {name for name in attributes if not name.isdigit()}
    words.spoken |= attributes
    remark = f"{counted(len(attributes), 'name')} of attributes, which programs are called by"
    return [remark] if attributes else []


def renamed_metadata(metadata: Mapping[str, str], words: ModelNames) -> dict[str, str]:
    """A node's metadata with other names."""
    return {key: _renamed(key, text, words) for key, text in metadata.items()}


def _renamed(key: str, text: str, words: ModelNames) -> str:
    if key == MODULES and (stack := parse_modules(text)):
        return build_modules(
            tuple(entry._replace(class_name=_dotted(entry.class_name, words)) for entry in stack)
        )
    if key == FUNCTIONS and (made := parse_functions(text)):
        return build_functions(
            tuple(entry._replace(function=_dotted(entry.function, words)) for entry in made)
        )
    if key == STACK_TRACE and (trace := parse_trace(text)):
        frames = (
            frame if is_no_models(frame.file) else frame._replace(function=words.new(frame.function))
            for frame in trace.frames
        )
        return build_trace(trace._replace(frames=tuple(frames)))
    return text


def _dotted(name: str, words: ModelNames) -> str:
    return name if OWN.match(name) else ".".join(map(words.new, name.split(".")))


def _names_in(key: str, text: str, *, own: bool = False) -> Iterator[str]:
    """The names of a node's metadata that may change; or those of the same kind that are PyTorch's."""
    if key == STACK_TRACE:
        trace = parse_trace(text)
        frames = trace.frames if trace else ()
        yield from (entry.function for entry in frames if is_no_models(entry.file) == own)
        return
    dotted: list[str] = []
    if key == MODULES:
        dotted = [entry.class_name for entry in parse_modules(text) or ()]
    elif key == FUNCTIONS:
        dotted = [entry.function for entry in parse_functions(text) or ()]
    yield from (part for name in dotted if bool(OWN.match(name)) == own for part in name.split("."))
