"""The names in generated code, with their places, and how a text gets other ones.

Generated code is a small part of Python's grammar (``torch/csrc/jit/serialization/python_print.cpp``).
Python's own parser reads it, and nothing of it runs. What is not of that grammar is refused: a name that is
not recognised would be renamed in one place and not in another. An attribute may have a name that Python
keeps for itself, ``self.in``: ``add_module("in", …)`` and a ``ModuleDict`` make such attributes, and
PyTorch writes them as they are:

    in : __torch__.Block
    block = self.in

The lite interpreter runs such a model; ``torch.jit.load`` refuses some of these names. Python's parser
refuses all. It gets others of the same length, so that places stay, and the tree has the true ones again.
"""

from __future__ import annotations

import ast
import keyword
import re
import warnings
from dataclasses import field
from enum import IntEnum
from itertools import product
from string import ascii_letters
from typing import TYPE_CHECKING, NamedTuple

from archive.base import memory
from archive.base.errors import ArchiveError
from archive.base.quick_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator


class NameKind(IntEnum):
    """What a name is."""

    WORD = 0  # of an attribute, a method, an argument or a variable
    DOTTED = 1  # of a class or function, with its module
    DEFINED = 2  # of a class or function of the record itself


class NameUse(NamedTuple):
    """A name in a text: its first byte, the byte after it, and what it is."""

    start: int
    end: int
    kind: NameKind


@dataclass(slots=True)
class FunctionSignature:
    """A function's arguments, and the names with dots in its signature."""

    arguments: list[str] = field(default_factory=list)
    types: set[str] = field(default_factory=set)


@dataclass(slots=True)
class ClassDeclaration:
    """What a class declares.

    Attributes:
        fields: its attributes, and the members of an enum.
        types: the names with dots in the types of its attributes.
        methods: its functions by name.
    """

    fields: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    methods: dict[str, FunctionSignature] = field(default_factory=dict)


@dataclass(slots=True)
class CodeNames:
    """The names in a record of code.

    Attributes:
        uses: places of names that may change, in no order.
        classes: what each class declares, by its name in the record.
        called: names of methods that are called.
        spoken: texts that stay as they are, and words that aren't the model's names.
    """

    uses: list[NameUse] = field(default_factory=list)
    classes: dict[str, ClassDeclaration] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)
    spoken: set[str] = field(default_factory=set)


def renamed_uses(
    data: bytes, uses: list[NameUse], new: Iterator[bytes]
) -> tuple[bytes, list[tuple[int, int]]]:
    """A text with other names.

    Args:
        uses: the names' places, sorted.
        new: what stands there instead.

    Returns:
        The new text; and for each name, where it began and how many bytes longer it became.
    """
    pieces, end, longer = [], 0, []
    for use, name in zip(uses, new, strict=True):
        pieces += [data[end : use.start], name]
        longer.append((use.start, len(name) - (use.end - use.start)))
        end = use.end
    return b"".join([*pieces, data[end:]]), longer


# --- keywords

KEYWORDS = "|".join(keyword.kwlist)
ATTRIBUTES = re.compile(
    rf"""(?m)"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|(?<=\.)(?:{KEYWORDS})\b|(?<=^  )(?:{KEYWORDS})(?= : )"""
)
"""A keyword that names an attribute; or a text, to pass over it."""


def parsed(text: str) -> ast.Module:
    """The syntax tree of generated code.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: Python cannot parse it.
    """
    keywords = {*ATTRIBUTES.findall(text)} & {*keyword.kwlist}
    if not keywords:
        return ast.parse(text)
    taken = {*re.findall(r"\w+", text), *keyword.kwlist}
    stand_ins: dict[str, str] = {}  # for each keyword a name of the same length that isn't a word of the text
    for name in sorted(keywords):
        names = ("".join(letters) for letters in product(ascii_letters, repeat=len(name)))
        stand_in = next((other for other in names if other not in taken), None)
        if stand_in is None:
            raise ValueError("each name of that length is a word of the text")
        stand_ins[name] = stand_in
        taken.add(stand_in)
    tree = ast.parse(ATTRIBUTES.sub(lambda match: stand_ins.get(match[0], match[0]), text))
    originals = {stand_in: name for name, stand_in in stand_ins.items()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            node.attr = originals.get(node.attr, node.attr)
        elif isinstance(node, ast.Name):
            node.id = originals.get(node.id, node.id)
    return tree


# --- reading

TOKEN = re.compile(rb"\w+|[^\w\s.:=)\]}]|\n")
"""What may become a node of a syntax tree."""
ROOTS = ("__torch__", "torch", "ops", "CONSTANTS")
"""What names with dots begin with that no object has."""
LISTS = ("__parameters__", "__buffers__", "__forward_hooks__", "__forward_pre_hooks__")
"""Names of a class that hold names of its attributes and methods, as texts."""
ANNOTATIONS = "__annotations__"
PAIR = 2
"""Arguments of ``getattr``."""
VERSION = "op_version_set"
"""Is assigned at the beginning of code up to PyTorch 1.4."""
STATEMENTS = (
    *(ast.Assign, ast.AnnAssign, ast.Expr, ast.Return, ast.Pass, ast.Assert, ast.Raise),
    *(ast.If, ast.For, ast.While, ast.With, ast.FunctionDef),
)
EXPRESSIONS = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Call, ast.Constant, ast.keyword, ast.withitem),
    *(ast.List, ast.Tuple, ast.Dict, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp),
    *(ast.arguments, ast.arg, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)
ALLOWED = STATEMENTS + EXPRESSIONS


def parse_code(record: str, data: bytes) -> CodeNames:
    """The names in a record of code."""
    tokens = sum(1 for _ in TOKEN.finditer(data))
    with memory.lent(2 * memory.ROW * tokens, "names in code", record=record):
        code = _Reader(record, data).read()
    memory.take(memory.TEXT * len(code.uses), "names in code", record=record)
    return code


class _Reader:
    def __init__(self, record: str, data: bytes) -> None:
        self._record, self._data = record, data
        self._code = CodeNames()
        starts = [0]
        while (end := data.find(b"\n", starts[-1])) >= 0:
            starts.append(end + 1)
        self._lines = starts

    def read(self) -> CodeNames:
        if b"\r" in self._data or b"\f" in self._data:  # would be line breaks and blanks only to Python
            raise ArchiveError(record=self._record, expected="generated code", found="control characters")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = parsed(self._data.decode())
        except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
            why = f"generated code that Python can parse ({type(problem).__name__})"
            raise ArchiveError(record=self._record, expected=why) from problem
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                self._class(node)
            elif isinstance(node, ast.FunctionDef):
                self._function(node, NameKind.DEFINED)
            elif not (isinstance(node, ast.Assign) and _target(node) == VERSION):
                raise self._unexpected(node)
        return self._code

    # Classes

    def _class(self, node: ast.ClassDef) -> None:
        if node.decorator_list or node.keywords:
            raise self._unexpected(node)
        self._name_after("class ", node, NameKind.DEFINED)
        declared = self._code.classes[node.name] = ClassDeclaration()
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef):
                declared.methods[statement.name] = self._function(statement)
            elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                declared.fields.add(statement.target.id)
                self._name(statement.target)
                declared.types |= self._expressions(statement.annotation, set())
                self._expressions(statement.value, set())
            elif isinstance(statement, ast.Assign):
                self._assigned(statement, declared)
            elif not isinstance(statement, ast.Pass):
                raise self._unexpected(statement)

    def _assigned(self, node: ast.Assign, declared: ClassDeclaration) -> None:
        """A list of names, the type of an attribute whose name isn't an identifier, or an enum's member."""
        (target,) = node.targets
        name = _target(node)
        if name in LISTS and isinstance(node.value, ast.List | ast.Tuple):
            for element in node.value.elts:
                self._text(element)
        elif isinstance(target, ast.Subscript) and _is_name(target.value, ANNOTATIONS):
            declared.fields.add(self._text(target.slice))
            declared.types |= self._expressions(node.value, set())
        elif isinstance(target, ast.Name) and name != ANNOTATIONS:
            declared.fields.add(target.id)
            self._name(target)
            self._expressions(node.value, set())
        elif name != ANNOTATIONS:
            raise self._unexpected(node)

    # Functions

    def _function(self, node: ast.FunctionDef, kind: NameKind = NameKind.WORD) -> FunctionSignature:
        arguments = node.args
        others = (arguments.posonlyargs, arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
        if node.decorator_list or any(others):
            raise self._unexpected(node)
        self._name_after("def ", node, kind)
        known = {node.args.args[0].arg} if node.args.args else set()
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                known.add(inner.id)
            elif isinstance(inner, ast.arg):
                known.add(inner.arg)
            elif isinstance(inner, ast.FunctionDef) and inner is not node:
                known.add(inner.name)
                self._name_after("def ", inner, NameKind.WORD)
        signature = FunctionSignature([argument.arg for argument in node.args.args])
        for annotation in (*(argument.annotation for argument in node.args.args), node.returns):
            signature.types |= self._expressions(annotation, known)
        for default in node.args.defaults:
            self._expressions(default, known)
        for argument in node.args.args:
            self._argument(argument)
        for statement in node.body:
            self._expressions(statement, known)
        return signature

    def _argument(self, node: ast.arg) -> None:
        start = self._at(node.lineno, node.col_offset)
        self._use(start, node.arg)

    def _expressions(self, root: ast.AST | None, known: set[str]) -> set[str]:
        """Note the names in a statement, an expression or a type; return those with dots.

        ``known`` are the names of variables.
        """
        dotted = set()
        stack = [] if root is None else [root]
        while stack:
            node = stack.pop()
            if not isinstance(node, ALLOWED):
                raise self._unexpected(node)
            if isinstance(node, ast.Attribute) and (path := _path(node, known)):
                dotted.add(path)
                start = self._at(node.lineno, node.col_offset)
                end = start + len(path.encode())
                if self._data[start:end] != path.encode():
                    raise self._unexpected(node)
                self._code.uses.append(NameUse(start, end, NameKind.DOTTED))
                continue
            if isinstance(node, ast.Call) and _is_name(node.func, "getattr") and len(node.args) == PAIR:
                self._text(node.args[1])
                stack.append(node.args[0])
                continue
            match node:
                case ast.Name():
                    if node.id in known:
                        self._name(node)
                    else:
                        self._code.spoken.add(node.id)
                case ast.Attribute():
                    end = self._at(node.end_lineno, node.end_col_offset)
                    self._use(end - len(node.attr.encode()), node.attr)
                case ast.Call(func=ast.Attribute() as method) if not _path(method, known):
                    self._code.called.add(method.attr)
                case ast.Constant(value=str() as text):
                    self._code.spoken.add(text)
                case ast.keyword():
                    self._code.spoken.add(node.arg or "")
                case ast.arg():  # of a function within a function
                    self._argument(node)
            stack += ast.iter_child_nodes(node)
        return dotted

    # Places

    def _at(self, line: int | None, column: int | None) -> int:
        return self._lines[(line or 1) - 1] + (column or 0)

    def _name(self, node: ast.Name) -> None:
        self._use(self._at(node.lineno, node.col_offset), node.id)

    def _name_after(self, word: str, node: ast.ClassDef | ast.FunctionDef, kind: NameKind) -> None:
        self._use(self._at(node.lineno, node.col_offset) + len(word), node.name, kind)

    def _text(self, node: ast.AST) -> str:
        """Note a name in quotes."""
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            raise self._unexpected(node)
        self._use(self._at(node.lineno, node.col_offset) + 1, node.value)
        return node.value

    def _use(self, start: int, name: str, kind: NameKind = NameKind.WORD) -> None:
        end = start + len(name.encode())
        if self._data[start:end] != name.encode():  # escapes, blanks, or letters that Python normalises
            place = f"byte {start}"
            raise ArchiveError(record=self._record, place=place, expected=f"the name {name!r} as it is")
        self._code.uses.append(NameUse(start, end, kind))

    def _unexpected(self, node: ast.AST) -> ArchiveError:
        place = f"line {getattr(node, 'lineno', 1)}"
        what = "code as PyTorch writes it"
        return ArchiveError(record=self._record, place=place, expected=what, found=type(node).__name__)


def _target(node: ast.Assign) -> str:
    return node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _path(node: ast.Attribute, known: set[str]) -> str:
    """The parts of a name with dots; "" where it is an attribute of an object."""
    parts = []
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        parts.append(inner.attr)
        inner = inner.value
    if isinstance(inner, ast.Name) and inner.id in ROOTS and inner.id not in known:
        return ".".join([inner.id, *reversed(parts)])
    return ""
