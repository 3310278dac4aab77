"""Scripts modules; what TorchScript refuses is said in words, with the model's line.

TorchScript's compiler is written in C++ and Python. Some of its errors come from Python code that meets an
unexpected object: these name neither a reason nor a line. The line is then where the compiler was; the
error's traceback shows that: its frames hold the source range or the node that they work on.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from typing import TYPE_CHECKING

import torch
from torch.nn.utils import parametrize

from archive.backend.graph.range_finder import RangeFinder
from archive.backend.lower.codegen import CHANGES_STATE
from archive.base.errors import LoweringError
from archive.base.source_files import is_pytorchs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

NEW_ATTRIBUTE = "Tried to set nonexistent attribute"
"""PyTorch's words about a statement that gives a module a new attribute."""
REASON_END = re.compile(r":?\s*\n(?=  File )")
VARIANTS = re.compile(
    r"(?:Arguments for call are not valid\.\nThe following variants are available:\s+)?"
    r"(?P<op>[\w:.]+)\(.*\) -> .*:\n\s*(?P<why>.+)"
)
"""The first operator or function that a call may mean, and why its arguments do not fit."""
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
UNKNOWN = r"the function \1 is unknown"
WORDS = (
    (r"Python builtin <built-in (?:function|method) (\w+).*> is currently not supported.*", UNKNOWN),
    (r"object has no attribute (\w+)", UNKNOWN),
    (r"Unknown builtin op: ([\w:]+)\.(?s:.*)", r"the operator \1 is unknown"),
    (r"Failed to get source for <function (\S+).*> using inspect\.getsource", r"\1 has no source"),
    (r"cannot create weak reference to '(\S+)' object", r"objects of the class \1 cannot be called"),
    (r"Expected a single top-level function: .*", "functions without a statement `def` are not supported"),
    (
        r"__init__\(\): incompatible constructor arguments(?s:.*)ErrorReport(?s:.*)",
        r"this statement is unknown",
    ),
    (r"\s*Could not export Python function call '(\w+)'\.(?s:.*)", r"the Python function \1 cannot be saved"),
    (r"could not get source code", "the class has no source file, which TorchScript reads"),
    (r"Could not cast attribute '(\w+)' to type (\S+):(?s:.*)", r"the attribute \1 does not fit the type \2"),
    (r"'(\w+)' object has no attribute '__name__'", r"an object of the class \1 is called, not a function"),
    (r"(Unknown type annotation: .*) at", r"\1"),
    (r"NamedExpr aren't supported", "assignments within expressions aren't supported"),
    (r"(Lambda|Set|Match) aren't supported", r"expressions and statements of the kind \1 aren't supported"),
    (r"Yield(?:From)? aren't supported", "generators aren't supported"),
)
"""PyTorch's words that are not about the model, or not in words, and their replacements."""


def scripted_module(module: torch.nn.Module) -> torch.jit.ScriptModule:
    """The module, scripted unless it is already."""
    for path, part in () if isinstance(module, torch.jit.ScriptModule) else module.named_modules():
        # PyTorch scripts parametrised weights, and raises an error whenever they are read.
        if parametrize.is_parametrized(part):
            names = ", ".join(f"{path}.{name}".removeprefix(".") for name in part.parametrizations)
            raise LoweringError(
                f"TorchScript does not read parametrised weights: {names}. lower(..., effects=True, "
                "example_inputs=...) does, and so does a traced module; remove_parametrizations of "
                "torch.nn.utils.parametrize leaves plain ones.\n"
                f"{_class_place(module)}".rstrip()
            )
    try:
        scripted = module if isinstance(module, torch.jit.ScriptModule) else torch.jit.script(module)
    except Exception as error:  # scripting runs the model's own code, and raises errors of many kinds
        raise LoweringError(f"TorchScript does not take the module: {refusal(error, module)}") from error
    if not isinstance(scripted, torch.jit.ScriptModule):
        raise LoweringError("PyTorch scripts nothing in this process: PYTORCH_JIT=0")
    if not scripted._c._method_names():
        raise LoweringError(_joined(f"{type(module).__name__} has no method forward", _class_place(module)))
    return scripted


def ranges_of(scripted: torch.jit.ScriptModule) -> RangeFinder:
    """The source ranges of a scripted module."""
    try:
        return RangeFinder.of(scripted._c)
    except RuntimeError as error:
        raise LoweringError(f"TorchScript does not save the module: {refusal(error, None)}") from error


def refusal(error: Exception, module: torch.nn.Module | None) -> str:
    """The reason of an error of TorchScript's compiler, and the model's line.

    Args:
        module: the module that was compiled, of Python; None for others.
    """
    said = str(error).strip()
    parts = REASON_END.split(said, maxsplit=1)
    place = parts[1] if len(parts) > 1 else next(_places(error), "") or _class_place(module)
    hint = f"\n{CHANGES_STATE}" if NEW_ATTRIBUTE in said else ""
    return _joined(_reason(parts[0]), place) + hint


def _joined(reason: str, place: str) -> str:
    return f"{reason}:\n{place.rstrip()}" if place else reason


def _reason(said: str) -> str:
    """PyTorch's words in one line, without addresses, and without the operators that a call does not mean."""
    for pattern, words in WORDS:
        if match := re.fullmatch(pattern, said):
            return match.expand(words)
    variant = VARIANTS.match(said)
    if variant:
        said = f"{variant['op']} does not take these arguments: {variant['why'].strip()}"
    return ADDRESS.sub("", " ".join(said.split())).rstrip(".:")


def _places(error: Exception) -> Iterator[str]:
    """Where the compiler was, innermost first, as PyTorch shows source."""
    frames: list[FrameType] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    held = [frame.f_locals for frame in reversed(frames)]
    for variables in held:
        node = next((value for value in variables.values() if isinstance(value, ast.stmt | ast.expr)), None)
        if isinstance(variables.get("loc"), torch._C._jit_tree_views.SourceRange):
            yield variables["loc"].highlight()
        elif node is not None and "ctx" in variables:
            end = node.end_col_offset if node.end_lineno == node.lineno else None
            yield (
                variables["ctx"]
                .make_range(node.lineno, node.col_offset, end or node.col_offset + 1)
                .highlight()
            )
    functions = [variables["fn"].__code__ for variables in held if hasattr(variables.get("fn"), "__code__")]
    for code in functions:
        if _is_model_s(code.co_filename):
            text = linecache.getline(code.co_filename, code.co_firstlineno).rstrip()
            yield f'  File "{code.co_filename}", line {code.co_firstlineno}\n{text}'


def _is_model_s(file: str) -> bool:
    """Whether a file is a model's: neither PyTorch's nor made up, as ``<string>``."""
    return not is_pytorchs(file) and not file.startswith("<")


def _class_place(module: torch.nn.Module | None) -> str:
    """The line of a module's class; "" if it is PyTorch's own or has no source."""
    try:
        lines, first = inspect.getsourcelines(type(module))
        file = inspect.getsourcefile(type(module)) or ""
    except (OSError, TypeError):
        return ""
    if not _is_model_s(file):
        return ""
    before = next((count for count, line in enumerate(lines) if line.lstrip().startswith("class ")), 0)
    return f'  File "{file}", line {first + before}\n{lines[before].rstrip()}'
