"""The regular expressions of this library, and texts on which each has most to do."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import archive
from archive.base.patterns import LazyPattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NEED_OTHERS = ("archive.backend", "archive.effects", "archive.cli.demo", "archive.app.model_explorer.main")
"""Rooms that are not imported: what they match are texts of this process."""
PATTERN = (re.Pattern, LazyPattern)
MOST_ITEMS = 6
"""Items of a pattern, from the first one on, that a text repeats."""
CATEGORIES = {
    codes.CATEGORY_DIGIT: "1", codes.CATEGORY_SPACE: " ", codes.CATEGORY_WORD: "a",
    codes.CATEGORY_NOT_DIGIT: "a", codes.CATEGORY_NOT_SPACE: "a", codes.CATEGORY_NOT_WORD: ".",
}  # fmt: skip


class UsedPattern(NamedTuple):
    """A pattern, and the methods that this library calls of it."""

    pattern: re.Pattern[Any]
    methods: frozenset[str]


PASSED = {
    "archive.formats.compiled.kernels.KEY": {"fullmatch"},
    "archive.describe.sizes.places.OBJECT": {"match"},
    "archive.describe.sizes.places.LIST": {"match"},
    "archive.describe.sizes.places.VALUE": {"match"},
    **{f"archive.failures.log.documents.HELD {number}": {"match"} for number in range(4)},
}
"""Patterns that others are given, and what these call."""
METHODS = {"search", "finditer", "findall", "sub", "subn", "split", "match", "fullmatch"}
FROM_THE_START = {"match", "fullmatch"}
MENTIONED = re.compile(rf"\.(?:{'|'.join(METHODS)})\b|\bre\.compile\b|[Pp]attern")
"""What stands in each file that makes or uses a pattern: the others need not be parsed."""


def patterns() -> dict[str, UsedPattern]:
    """Each compiled pattern at the top of a module, by its name; those in containers of them, too."""
    found: dict[str, UsedPattern] = {}
    uses = _uses()
    for module in pkgutil.walk_packages(archive.__path__, "archive."):
        if module.name.startswith(NEED_OTHERS) or module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            whole = f"{module.name}.{name}"
            if isinstance(value, PATTERN):
                if whole in uses.defined:
                    found[whole] = UsedPattern(
                        cast("re.Pattern[Any]", value),
                        frozenset(uses.methods[whole] or PASSED.get(whole, METHODS)),
                    )
            elif whole in uses.defined:
                for at, one in enumerate(_patterns_in(value)):
                    methods = PASSED.get(f"{whole} {at}", METHODS)
                    found[f"{whole} {at}"] = UsedPattern(one, frozenset(methods))
    return found


class _Uses(NamedTuple):
    """The names in capitals at the top of all modules, and the methods that are called of each."""

    defined: set[str]
    methods: Mapping[str, set[str]]


def _uses() -> _Uses:
    uses = _Uses(set(), defaultdict(set))
    for file in Path(archive.__path__[0]).rglob("*.py"):
        module = ".".join(file.relative_to(Path(archive.__path__[0]).parent).with_suffix("").parts)
        if module.startswith(NEED_OTHERS):
            continue
        text = file.read_text("utf-8")
        if not MENTIONED.search(text):
            continue
        module, tree = module.removesuffix(".__init__"), ast.parse(text)
        nodes, names = list(ast.walk(tree)), dict[str, str]()
        for node in nodes:
            if isinstance(node, ast.ImportFrom):
                names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
        for statement in tree.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                names |= {
                    node.id: f"{module}.{node.id}"
                    for node in ast.walk(statement)
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                }
        uses.defined.update(whole for whole in names.values() if whole.startswith(f"{module}."))
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in METHODS:
                uses.methods[names.get(node.value.id, "")].add(node.attr)
    return uses


def _patterns_in(value: Any) -> Iterator[Any]:  # noqa: ANN401 (whatever stands at the top of a module)
    if isinstance(value, PATTERN):
        yield value
    elif isinstance(value, dict):
        yield from (part for part in value.values() if isinstance(part, PATTERN))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _patterns_in(part)


@cache
def motifs(pattern: re.Pattern[Any]) -> tuple[str, ...]:
    """What texts repeat: letters of the first class, of each class, and what the first items match."""
    with_text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = parser.parse(with_text, pattern.flags & ~re.UNICODE & ~re.LOCALE)
    found: dict[str, None] = {}
    for items in _branches(list(tree)):
        texts = [_shortest(item) for item in items[:MOST_ITEMS]]
        for end in range(1, len(texts) + 1):
            found["".join(texts[:end])] = None
        found.update(dict.fromkeys(texts))
    return tuple(motif for motif in found if motif)


def _branches(items: list[Any]) -> Iterator[list[Any]]:
    """The items of a pattern for each way that its first choice may go."""
    for at, (code, argument) in enumerate(items):
        inner = argument[-1] if code in (codes.SUBPATTERN, codes.ATOMIC_GROUP) else None
        if code is codes.BRANCH:
            for branch in argument[1]:
                yield from _branches([*items[:at], *branch, *items[at + 1 :]])
            return
        if code is codes.ATOMIC_GROUP:
            inner = argument
        if inner is not None:
            yield from _branches([*items[:at], *inner, *items[at + 1 :]])
            return
    yield items


def _shortest(item: Any) -> str:  # noqa: ANN401 (of the parser)
    """A short text that an item matches; of a repeated one, a repetition."""
    code, argument = item
    if code is codes.LITERAL:
        return chr(argument)
    if code is codes.NOT_LITERAL:
        return "a" if argument != ord("a") else "b"
    if code is codes.ANY:
        return "a"
    if code is codes.IN:
        return _one_of(argument)
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return str("".join(map(_shortest, next(_branches(list(argument[2]))))) * max(1, argument[0]))
    if code is codes.SUBPATTERN:
        return "".join(map(_shortest, next(_branches(list(argument[-1])))))
    return ""


def _one_of(members: list[Any]) -> str:
    """A letter of a class."""
    if members[0][0] is codes.NEGATE:
        excluded = re.compile("".join(("[", *map(_written, members[1:]), "]")))
        return next(letter for letter in "a1 .-_/\\\"'\n\0\x80" if not excluded.match(letter))
    code, argument = members[0]
    if code is codes.CATEGORY:
        return str(CATEGORIES[argument])
    return chr(argument[0] if code is codes.RANGE else argument)


def _written(member: Any) -> str:  # noqa: ANN401 (of the parser)
    code, argument = member
    if code is codes.CATEGORY:
        return {"1": r"\d", " ": r"\s", ".": r"\W"}.get(CATEGORIES[argument], r"\w")
    if code is codes.RANGE:
        return "-".join(rf"\x{end:02x}" if end < 256 else chr(end) for end in argument)
    return rf"\x{argument:02x}" if argument < 256 else chr(argument)
