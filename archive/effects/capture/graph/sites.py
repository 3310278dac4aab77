"""Statements of the model, and facts about its code.

Statements: the one that runs now, its range of the source, and the calls that lead to it.

For what some code reads and sets by itself (globals, variables of enclosing functions, attributes of
objects), only uses that are certain from the instructions count. An object that the code passes on, stores or
compares escapes: what else happens to it is unknown.
"""

from __future__ import annotations

import builtins
import dis
import functools
import importlib
import inspect
import linecache
import os
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, TypeVarTuple

import torch

from archive.debuginfo.sites import SELF, CallStep, Site, Span
from archive.effects.code import codes_in
from archive.effects.errors import CaptureError
from archive.effects.placeholders import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CellType, FrameType


OWN_FOLDER = str(Path(__file__).parents[2]) + os.sep
TORCH_FOLDER = str(Path(torch.__file__).parent) + os.sep
TORCH_CHECKPOINT = str(Path(TORCH_FOLDER, "utils", "checkpoint.py"))
TORCH_MODULES = str(Path(TORCH_FOLDER, "nn", "modules")) + os.sep
STANDARD_LIBRARY = sysconfig.get_path("stdlib") + os.sep
INSTALLED = (sysconfig.get_path("purelib") + os.sep, sysconfig.get_path("platlib") + os.sep)
LOADS = ("LOAD_ATTR", "LOAD_METHOD")
COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")

Rest = TypeVarTuple("Rest")
Result = TypeVar("Result")


def remembered(function: Callable[[CodeType, *Rest], Result]) -> Callable[[CodeType, *Rest], Result]:
    """A function that remembers its results by the code object itself.

    ``functools.cache`` would mix up files: code objects that do the same at the same lines are equal.
    """
    results: dict[tuple[object, ...], tuple[CodeType, Result]] = {}  # with the code, to keep its id

    @functools.wraps(function)
    def remembering(code: CodeType, *rest: *Rest) -> Result:
        key = (id(code), *rest)
        if key not in results:
            results[key] = code, function(code, *rest)
        return results[key][1]

    return remembering


@dataclass(frozen=True, slots=True)
class ModelStatement:
    """A statement of the model.

    Attributes:
        steps: the calls that lead to it, outermost first, without that of the captured method.
    """

    filename: str
    line: int
    span: Span | None
    steps: tuple[CallStep, ...] = ()

    def site(self, op: str) -> Site:
        """The site of an operation in this statement."""
        return Site(op, self.span, self.steps)


@dataclass(frozen=True, slots=True)
class Owner:
    """The module whose method runs.

    Attributes:
        instance: the attribute that holds it.
    """

    number: int
    type_name: str
    instance: str


@cache
def of_model(filename: str) -> bool:
    """Whether a file's code belongs to a model; that of PyTorch's own modules does."""
    if filename.startswith(OWN_FOLDER):
        return False
    if filename.startswith(TORCH_FOLDER):
        return filename.startswith(TORCH_MODULES) and not filename.endswith("module.py")
    if filename.startswith(STANDARD_LIBRARY) and not filename.startswith(INSTALLED):
        return False
    return bool(linecache.getlines(filename)) or not filename.startswith("<")


def _frames(outermost: CodeType) -> Iterator[FrameType]:
    """The frames that run now, innermost first, up to the one that runs some code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not outermost:
        yield frame
        frame = frame.f_back


def error_at(message: str, statement: ModelStatement | None) -> CaptureError:
    """An error that names a statement of the model, if there is one."""
    if statement is None:
        return CaptureError(message)
    if is_of_pytorch(statement.filename):
        found = line_of(statement.site(""))
        if found is not None:
            return CaptureError(message, *found)
    return CaptureError(message, statement.filename, statement.line)


def is_of_pytorch(filename: str) -> bool:
    """Whether a file is PyTorch's: its line is named only if the model has none."""
    return filename.startswith(TORCH_FOLDER)


def line_of(site: Site) -> tuple[str, int] | None:
    """The innermost line of a site outside PyTorch, or None."""
    for span in (site.span, *(step.span for step in reversed(site.steps))):
        if span is not None:
            filename = span.filename.decode("utf-8", "surrogateescape")
            if not is_of_pytorch(filename):
                return filename, span.first_line
    return None


def is_recomputed(outermost: CodeType) -> bool:
    """Whether ``torch.utils.checkpoint`` will run the current statement again in the backward pass."""
    return any(frame.f_code.co_filename == TORCH_CHECKPOINT for frame in _frames(outermost))


TIMES, SUBSCRIPT = (5, 18), 26
"""Arguments of ``BINARY_OP`` for ``*``, ``*=``, and since Python 3.14 for ``[]``."""


def _caller() -> FrameType | None:
    """The innermost frame of other Python code, which called this package or C code that did."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OWN_FOLDER):
        frame = frame.f_back
    return frame


def is_loading() -> bool:
    """Whether the Python code that called this package loads an attribute; otherwise C code called."""
    frame = _caller()
    return frame is not None and dis.opname[frame.f_code.co_code[frame.f_lasti]] in LOADS


def use_of_index() -> str:
    """What Python code does when it asks for a number as an index; repetition and calls ask, too."""
    frame = _caller()
    if frame is not None:
        opcode, argument = frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 2]
        name = dis.opname[opcode]
        if name == "BINARY_OP" and argument in TIMES:
            return "how often something is repeated"
        if "SUBSCR" in name or "SLICE" in name or (name == "BINARY_OP" and argument == SUBSCRIPT):
            return "an index"
        if name.startswith("CALL"):
            return "an int that a function needs"
    return "an index or a size"


def model_frames(outermost: CodeType) -> list[FrameType]:
    """The frames of the model that run now, outermost first."""
    return [frame for frame in _frames(outermost) if of_model(frame.f_code.co_filename)][::-1]


def here(frames: list[FrameType], owner_of: Callable[[FrameType], Owner | None]) -> ModelStatement | None:
    """The statement that runs in the innermost of some frames; None without frames.

    Args:
        owner_of: the module whose method a frame runs; None for functions.
    """
    return statement_in(frames, owner_of, _position(frames[-1])) if frames else None


Position = tuple[int, int, int, int]
"""First line, last line, first byte in the first line, end in the last line, in bytes."""


def statement_in(
    frames: list[FrameType],
    owner_of: Callable[[FrameType], Owner | None],
    position: Position | None,
    called: tuple[CodeType, Owner | None] | None = None,
) -> ModelStatement:
    """A statement in the innermost of some frames, or in code that this frame has called.

    Args:
        called: the code that the statement is in, and its module, if the innermost frame has called it.
    """
    calls = [(frame.f_code, owner_of(frame)) for frame in frames]
    code, _ = called or calls[-1]
    steps = []
    outer = calls[0][1] if calls else None
    for caller, (inner, owner) in zip(frames, [*calls[1:], *([called] if called else [])], strict=False):
        if inner.co_name in COMPREHENSIONS:
            continue
        call = span_of(caller.f_code, _position(caller))
        if owner is None:
            steps.append(CallStep(inner.co_name, None, None, call))
        else:
            instance = SELF if outer is not None and outer.number == owner.number else owner.instance
            steps.append(CallStep(inner.co_name, owner.type_name, instance, call))
            outer = owner
    line = position[0] if position else code.co_firstlineno
    return ModelStatement(code.co_filename, line, span_of(code, position), tuple(steps))


@remembered
def _positions(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return list(code.co_positions())


def position_of(code: CodeType, instruction: int) -> Position | None:
    """The place of an instruction in the source; None where the code does not say."""
    positions = _positions(code)
    line, last, start, end = positions[instruction] if instruction < len(positions) else (None,) * 4
    if line is None:
        return None
    if last is None or start is None or end is None:
        text = linecache.getline(code.co_filename, line).encode()
        return line, line, len(text) - len(text.lstrip()), len(text.rstrip())
    return line, last, start, end


def _position(frame: FrameType) -> Position | None:
    return position_of(frame.f_code, frame.f_lasti // 2)


@remembered
def _block_size(code: CodeType, first: int) -> int:
    """The number of lines of the block that begins at a line."""
    return len(inspect.getblock(linecache.getlines(code.co_filename)[first - 1 :]))


@remembered
def span_of(code: CodeType, position: Position | None) -> Span | None:
    """A position in some code as a range of the source; None where the source is not known."""
    lines = linecache.getlines(code.co_filename)
    if position is None or not lines:
        return None
    line, last, start, end = position
    first = min(code.co_firstlineno, line)
    block = lines[first - 1 : max(first - 1 + _block_size(code, first), last)]
    encoded = [line_text.encode() for line_text in block]
    before = [0]
    for line_text in encoded:
        before.append(before[-1] + len(line_text))
    return Span(
        b"".join(encoded),
        code.co_filename.encode("utf-8", "surrogateescape"),
        first,
        before[line - first] + start,
        before[last - first] + end,
    )


# --- code uses

READS, SETS = ("LOAD_ATTR", "LOAD_METHOD"), "STORE_ATTR"
NOT_OF_VARIABLES = (*READS, "LOAD_GLOBAL", "LOAD_NAME")
GLOBAL_SETS = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_NAME", "DELETE_NAME")


class AttributeUse(NamedTuple):
    """The use of an object through its attributes: ``x.held.count`` or ``x.held.count = …``.

    Attributes:
        is_set: whether the last one is set.
    """

    names: tuple[str, ...]
    is_set: bool = False


def globals_read(code: CodeType) -> list[str]:
    """Names that code looks up in its globals, in order."""
    steps = [step for each in codes_in(code) for step in dis.get_instructions(each)]
    return list(
        dict.fromkeys(str(step.argval) for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    )


def sets_globals(code: CodeType) -> bool:
    """Whether code sets or deletes globals."""
    return any(step.opname in GLOBAL_SETS for each in codes_in(code) for step in dis.get_instructions(each))


def uses_of(code: CodeType, variable: str) -> list[AttributeUse] | None:
    """The uses of the object that a variable holds; None if it escapes.

    Args:
        variable: an argument of the function, or a variable of a function around it.
    """
    uses: list[AttributeUse] = []
    for each in codes_in(code):
        steps = [step for step in dis.get_instructions(each) if step.opname != "EXTENDED_ARG"]
        for place, step in enumerate(steps):
            if _loads(each, step, variable):
                on_top = loaded(step).index(variable) == len(loaded(step)) - 1
                uses_here = _uses_at(steps, place + 1) if on_top else None
                if uses_here is None:
                    return None
                uses += uses_here
    return uses


def loaded(step: dis.Instruction) -> tuple[str, ...]:
    """The names that an instruction loads: variables, globals, attributes.

    Since Python 3.13 one instruction may load two variables, or store one and load another.
    """
    if step.opname == "LOAD_CONST" or "LOAD_" not in step.opname:
        return ()
    names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
    return names[1:] if step.opname.startswith("STORE_") else names


def _loads(code: CodeType, step: dis.Instruction, variable: str) -> bool:
    """Whether an instruction reads a variable, rather than pass its cell to an inner function.

    Cells are passed by ``LOAD_CLOSURE``, and since Python 3.13 by the instructions that read other variables.
    """
    is_cell = variable in code.co_cellvars or variable in code.co_freevars
    if step.opname in (*NOT_OF_VARIABLES, "LOAD_CLOSURE") or (is_cell and "LOAD_FAST" in step.opname):
        return False
    return variable in loaded(step)


def _uses_at(steps: list[dis.Instruction], place: int) -> list[AttributeUse] | None:
    """The uses of an object that has just been read: a chain of attributes, the last of which may be set."""
    names: list[str] = []
    while True:
        step = steps[place]
        if step.opname in READS:
            names.append(str(step.argval))
            place += 1
        elif step.opname == SETS:
            return [AttributeUse((*names, str(step.argval)), is_set=True)]
        elif step.opname == "COPY" and step.arg == 1 and steps[place + 1].opname in READS:
            # `x.count += 1` reads the attribute, and sets it afterwards.
            used = AttributeUse((*names, str(steps[place + 1].argval)))
            return [used, AttributeUse(used.names, is_set=True)]
        else:
            return [AttributeUse(tuple(names))] if names else None


# --- function code

LIBRARIES = frozenset({"torch", "numpy", *sys.stdlib_module_names}) - {"__main__"}
"""Top-level packages whose functions run as they are."""
GLOBAL_STORES = ("STORE_GLOBAL", "DELETE_GLOBAL")
CELL_STORES = ("STORE_DEREF", "DELETE_DEREF")


def is_model_module(module: object) -> bool:
    """Whether the name of a Python module belongs to a model, not to a library."""
    return isinstance(module, str) and module.partition(".")[0] not in LIBRARIES


def importable(value: Any) -> str | None:
    """The name by which a function or class can be imported, as ``module:qualname``; or None."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    try:
        imported: Any = importlib.import_module(module)
        for part in name.split("."):
            imported = getattr(imported, part)
    except (ImportError, AttributeError):
        return None
    return f"{module}:{name}" if imported is value else None


def contents_of(cell: CellType) -> object:
    """The contents of a cell; ``ABSENT`` if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


@remembered
def comparison_by_identity(code: CodeType) -> tuple[CodeType, int] | None:
    """The first ``is`` of two values, neither of which is a constant, a builtin or PyTorch's own.

    Returns:
        The code that has it, which may be inside the given one, and the instruction; or None.
    """
    steps = [step for step in dis.get_instructions(code) if step.opname != "CACHE"]
    for place, step in enumerate(steps):
        before, first = steps[place - 1], steps[place - 2]
        fixed = before.opname == "LOAD_CONST" or (
            before.opname == "LOAD_GLOBAL" and hasattr(builtins, str(before.argval))
        )
        of_torch = before.opname == "LOAD_ATTR" and (first.opname, first.argval) == ("LOAD_GLOBAL", "torch")
        if step.opname == "IS_OP" and not (fixed or of_torch):
            return code, step.offset // 2
    inner = (comparison_by_identity(const) for const in code.co_consts if isinstance(const, CodeType))
    return next(filter(None, inner), None)


@cache
def asks_super_alone(code: CodeType, name: str) -> bool:
    """Whether some code reads a method with this name only from ``super()``."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("PRECALL", "CACHE")]
    for place, step in enumerate(steps):
        if step.argval != name or step.opname.startswith("LOAD_SUPER"):
            continue
        before = [each.opname for each in steps[max(place - 2, 0) : place]]
        if before != ["LOAD_GLOBAL", "CALL"] or steps[place - 2].argval != "super":
            return False
    return True


@remembered
def first_read(code: CodeType, name: str) -> Position | None:
    """The place where some code first reads a variable; None if it does not."""
    for instruction in dis.get_instructions(code):
        if name in loaded(instruction):
            return position_of(code, instruction.offset // 2)
    return None


@remembered
def stores_of(code: CodeType) -> dict[str, tuple[CodeType, int]]:
    """The instruction that last stores each global and each shared variable, as code and its number in it."""
    stores: dict[str, tuple[CodeType, int]] = {}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = stores_of(constant).items()
            stores |= {name: at for name, at in inner if name not in code.co_cellvars}
    for instruction in dis.get_instructions(code):
        stores_cell = instruction.opname in CELL_STORES and instruction.argval in code.co_freevars
        if instruction.opname in GLOBAL_STORES or stores_cell:
            stores[instruction.argval] = code, instruction.offset // 2
    return stores
