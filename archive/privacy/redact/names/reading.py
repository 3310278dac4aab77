"""Reads generated code: text → the names in it, with their places.

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
from itertools import product
from string import ascii_letters
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.privacy.redact.names.code import Class, Code, Function, Kind, Use

if TYPE_CHECKING:
    from archive.base.limits import Allowance


# --- keywords

WORDS = "|".join(keyword.kwlist)
NAMED = re.compile(
    rf"""(?m)"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|(?<=\.)(?:{WORDS})\b|(?<=^  )(?:{WORDS})(?= : )"""
)
"""A keyword that names an attribute; or a text, to pass over it."""


def parsed(text: str) -> ast.Module:
    """The syntax tree of generated code.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: Python cannot parse it.
    """
    found = {*NAMED.findall(text)} & {*keyword.kwlist}
    if not found:
        return ast.parse(text)
    others = _others(found, text)
    tree = ast.parse(NAMED.sub(lambda one: others.get(one[0], one[0]), text))
    names = {other: name for name, other in others.items()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            node.attr = names.get(node.attr, node.attr)
        elif isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return tree


def _others(found: set[str], text: str) -> dict[str, str]:
    """For each keyword a name of the same length that is no word of a text."""
    taken = {*re.findall(r"\w+", text), *keyword.kwlist}
    others: dict[str, str] = {}
    for name in sorted(found):
        made = ("".join(letters) for letters in product(ascii_letters, repeat=len(name)))
        other = next((one for one in made if one not in taken), None)
        if other is None:
            raise ValueError("each name of that length is a word of the text")
        others[name] = other
        taken.add(other)
    return others


# --- reading

TOKEN = re.compile(rb"\w+|[^\w\s.:=)\]}]|\n")
"""What may become a node of a syntax tree."""
NODE_BYTES = 950
"""Bytes of memory that it costs meanwhile: measured, of the code that costs most."""
USE_BYTES = 250
"""Bytes of memory that a name's place costs."""
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


def parse_code(record: str, data: bytes, allowance: Allowance) -> Code:
    """The names in a record of code.

    Raises:
        ArchiveError: it is not as PyTorch writes code.
        LimitError: it costs more memory than allowed.
    """
    tokens = sum(1 for _ in TOKEN.finditer(data))
    with allowance.lent(NODE_BYTES * tokens, "names in code", record=record):
        code = _Reader(record, data).read()
    allowance.take(USE_BYTES * len(code.uses), "names in code", record=record)
    return code


class _Reader:
    def __init__(self, record: str, data: bytes) -> None:
        self._record, self._data = record, data
        self._code = Code()
        starts = [0]
        while (end := data.find(b"\n", starts[-1])) >= 0:
            starts.append(end + 1)
        self._lines = starts

    def read(self) -> Code:
        if b"\r" in self._data or b"\f" in self._data:  # would be line breaks and blanks to Python alone
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
                self._function(node, Kind.DEFINED)
            elif not (isinstance(node, ast.Assign) and _target(node) == VERSION):
                raise self._unexpected(node)
        return self._code

    # Classes

    def _class(self, node: ast.ClassDef) -> None:
        if node.decorator_list or node.keywords:
            raise self._unexpected(node)
        self._behind("class ", node, Kind.DEFINED)
        found = Class(node.bases[0].id if node.bases and isinstance(node.bases[0], ast.Name) else "")
        self._code.classes[node.name] = found
        for one in node.body:
            if isinstance(one, ast.FunctionDef):
                found.methods[one.name] = self._function(one)
            elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                found.fields.add(one.target.id)
                self._name(one.target)
                found.types |= self._expressions(one.annotation, set())
                self._expressions(one.value, set())
            elif isinstance(one, ast.Assign):
                self._assigned(one, found)
            elif not isinstance(one, ast.Pass):
                raise self._unexpected(one)

    def _assigned(self, node: ast.Assign, found: Class) -> None:
        """A list of names, the type of an attribute whose name is no identifier, or a member of an enum."""
        (target,) = node.targets
        name = _target(node)
        if name in LISTS and isinstance(node.value, ast.List | ast.Tuple):
            for one in node.value.elts:
                self._text(one)
        elif isinstance(target, ast.Subscript) and _is_name(target.value, ANNOTATIONS):
            found.fields.add(self._text(target.slice))
            found.types |= self._expressions(node.value, set())
        elif isinstance(target, ast.Name) and name != ANNOTATIONS:
            found.fields.add(target.id)
            self._name(target)
            self._expressions(node.value, set())
        elif name != ANNOTATIONS:
            raise self._unexpected(node)

    # Functions

    def _function(self, node: ast.FunctionDef, kind: Kind = Kind.WORD) -> Function:
        arguments = node.args
        others = (arguments.posonlyargs, arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
        if node.decorator_list or any(others):
            raise self._unexpected(node)
        self._behind("def ", node, kind)
        known = {node.args.args[0].arg} if node.args.args else set()
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                known.add(one.id)
            elif isinstance(one, ast.arg):
                known.add(one.arg)
            elif isinstance(one, ast.FunctionDef) and one is not node:
                known.add(one.name)
                self._behind("def ", one, Kind.WORD)
        signature = Function([one.arg for one in node.args.args])
        for annotation in (*(one.annotation for one in node.args.args), node.returns):
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
        """Note the names in a statement, an expression or a type; gives those with dots.

        Args:
            root: the statement or expression.
            known: the names of variables.
        """
        dotted = set()
        stack = [] if root is None else [root]
        while stack:
            node = stack.pop()
            if not isinstance(node, ALLOWED):
                raise self._unexpected(node)
            if isinstance(node, ast.Attribute) and (path := _path(node, known)):
                dotted.add(path)
                self._dotted(node, path)
                continue
            if isinstance(node, ast.Call) and _is_name(node.func, "getattr") and len(node.args) == PAIR:
                self._text(node.args[1])
                stack.append(node.args[0])
            else:
                self._note(node, known)
                stack += ast.iter_child_nodes(node)
        return dotted

    def _note(self, node: ast.AST, known: set[str]) -> None:
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

    # Places

    def _at(self, line: int | None, column: int | None) -> int:
        return self._lines[(line or 1) - 1] + (column or 0)

    def _name(self, node: ast.Name) -> None:
        self._use(self._at(node.lineno, node.col_offset), node.id)

    def _behind(self, word: str, node: ast.ClassDef | ast.FunctionDef, kind: Kind) -> None:
        self._use(self._at(node.lineno, node.col_offset) + len(word), node.name, kind)

    def _text(self, node: ast.AST) -> str:
        """Note a name in quotes."""
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            raise self._unexpected(node)
        self._use(self._at(node.lineno, node.col_offset) + 1, node.value)
        return node.value

    def _use(self, start: int, name: str, kind: Kind = Kind.WORD) -> None:
        end = start + len(name.encode())
        if self._data[start:end] != name.encode():  # escapes, blanks, or letters that Python normalises
            place = f"byte {start}"
            raise ArchiveError(record=self._record, place=place, expected=f"the name {name!r} as it is")
        self._code.uses.append(Use(start, end, kind))

    def _dotted(self, node: ast.Attribute, path: str) -> None:
        start = self._at(node.lineno, node.col_offset)
        end = start + len(path.encode())
        if self._data[start:end] != path.encode():
            raise self._unexpected(node)
        self._code.uses.append(Use(start, end, Kind.DOTTED))

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
