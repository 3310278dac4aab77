"""Parameters and results of an exported program: as TorchScript writes them, and as its graph has them.

The graph takes and gives single values, the *leaves* of the arguments and results that the program was
exported with. A parameter is a tensor, a number, a text, None, or a tuple, list or dict of these. Leaves that
aren't tensors are part of the program: the graph has their values inside, and the sizes and types of tensors.
So each call is checked: other ones would have made another program of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch.utils import _pytree as pytree

from archive.backend.lower import codegen
from archive.base.errors import LoweringError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.backend.graph.graphs import Schema

JitType: TypeAlias = Any
"""A ``torch._C.Type``."""
Tree: TypeAlias = Any
"""A tuple, list or dict of trees, or the number of a leaf."""

TENSOR = torch._C.TensorType.get()
PLAIN_TYPES: dict[type, JitType] = {
    bool: torch._C.BoolType.get(),
    int: torch._C.IntType.get(),
    float: torch._C.FloatType.get(),
    complex: torch._C.ComplexType.get(),
    str: torch._C.StringType.get(),
}

SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
"""The classes of numbers that are known only when the program runs."""


def is_symbolic(value: object) -> bool:
    """Whether a value, or a size in it, is known only when the program runs."""
    if isinstance(value, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in value.shape)
    if isinstance(value, list | tuple):
        return any(map(is_symbolic, value))
    return isinstance(value, SYMBOLS)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a program.

    Attributes:
        tree: its structure; the leaves are numbers of the graph's inputs.
        by_name: whether it is given by name only: exported so, it has no place among the arguments.
    """

    name: str
    tree: Tree
    type: JitType
    by_name: bool


def parameters_of(program: Any, leaves: Sequence[object]) -> list[Parameter]:  # noqa: ANN401 (an ExportedProgram)
    """The parameters of a program.

    Args:
        leaves: the values of its inputs: tensors, or what the program was exported with.
    """
    recorded = program.module_call_graph[0].signature
    args, kwargs = _tree(recorded.in_spec, "the parameters")
    names = list(recorded.forward_arg_names or ())[: len(args)]
    names += [f"arg_{number}" for number in range(len(names), len(args))]
    named = [*zip(names, args, strict=True), *kwargs.items()]
    made = []
    for number, (name, tree) in enumerate(named):
        if not name.isidentifier():
            raise LoweringError(f"a parameter by the name {name!r}, which TorchScript does not have")
        try:
            kind = _type(tree, leaves, torch._C.OptionalType(TENSOR))  # None: a tensor that was not given
        except LoweringError as error:
            raise LoweringError(f"the parameter {name}: {error}") from error
        made.append(Parameter(name, tree, kind, number >= len(args)))
    return made


def result_of(program: Any, leaves: Sequence[object]) -> tuple[Tree, JitType]:  # noqa: ANN401
    """The structure of a program's result, with numbers of the graph's results as leaves, and its type.

    Args:
        leaves: the values of its results: tensors, or what the program always returns.
    """
    tree = _tree(program.module_call_graph[0].signature.out_spec, "the result")
    try:
        return tree, _type(tree, leaves, torch._C.NoneType.get())
    except LoweringError as error:
        raise LoweringError(f"the result: {error}") from error


def _tree(spec: Any, what: str) -> Tree:  # noqa: ANN401 (a TreeSpec)
    """The structure that a program has recorded; its leaves are numbers."""
    try:
        return pytree.tree_unflatten(range(spec.num_leaves), spec)
    except Exception as error:  # whatever the class raises
        raise LoweringError(f"{what}: TorchScript has no type for an object in it: {error}") from error


def schema_of(method: str, parameters: Sequence[Parameter], result: JitType) -> Schema:
    """The schema of a method; the first argument is ``self``."""
    argument = torch._C.Argument
    arguments = [
        argument(parameter.name, parameter.type, None, None, parameter.by_name, None)
        for parameter in parameters
    ]
    itself = argument("self", TENSOR, None, None, False, None)
    results = [argument("", result, None, None, False, None)]
    return torch._C.FunctionSchema(method, "", [itself, *arguments], results, False, False)


def _type(tree: Tree, leaves: Sequence[object], none: JitType) -> JitType:
    """The type of a structure, given its leaves and the type of None."""
    if isinstance(tree, int):
        value = leaves[tree]
        if value is None or isinstance(value, torch.Tensor):
            return none if value is None else TENSOR
        if type(value) not in PLAIN_TYPES:
            raise LoweringError(f"TorchScript has no type for an object of the class {type(value).__name__}")
        return PLAIN_TYPES[type(value)]
    if isinstance(tree, Mapping):
        keys = {type(key) for key in tree}
        if len(keys) > 1 or not keys <= {str, int}:
            raise LoweringError("TorchScript has no dict of such keys")
        (key,) = keys or {str}
        kinds = [_type(item, leaves, none) for item in tree.values()]
        return torch._C.DictType(PLAIN_TYPES[key], _one(kinds, "dict"))
    if isinstance(tree, tuple):
        return torch._C.TupleType([_type(item, leaves, none) for item in tree])
    if isinstance(tree, list):
        return torch._C.ListType(_one([_type(item, leaves, none) for item in tree], "list"))
    raise LoweringError(f"TorchScript has no type for an object of the class {type(tree).__name__}")


def _one(kinds: Sequence[JitType], holder: str) -> JitType:
    """The one type of all items; that of tensors if there are none."""
    texts = dict.fromkeys(kind.annotation_str for kind in kinds)
    if len(texts) > 1:
        raise LoweringError(f"TorchScript has no {holder} of several types ({', '.join(texts)})")
    return kinds[0] if kinds else TENSOR


# --- checks


def checks_of(parameters: Sequence[Parameter], leaves: Sequence[object]) -> list[str]:
    """Statements of TorchScript that raise where an argument is not like that of the export."""
    return [
        line
        for parameter in parameters
        for line in _checks(parameter.name, parameter.name, parameter.tree, leaves)
    ]


def _checks(word: str, name: str, tree: Tree, leaves: Sequence[object]) -> Iterator[str]:
    """The statements about a value: ``word`` is the expression for it, ``name`` what errors call it."""
    if isinstance(tree, int):
        yield from _leaf_checks(word, name, leaves[tree])
        return
    if isinstance(tree, Mapping):
        keys = ", ".join(map(str, tree))
        fits = [f"len({word}) == {len(tree)}", *(f"{codegen.literal(key)} in {word}" for key in tree)]
        yield from _refusing(" and ".join(fits), f"{name} with the keys [{keys}]", f"str({word}.keys())")
    elif isinstance(tree, list):
        yield from _refusing(
            f"len({word}) == {len(tree)}", f"{name} of length {len(tree)}", f"str(len({word}))"
        )
    for key, item in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
        yield from _checks(f"{word}[{codegen.literal(key)}]", f"{name}[{key!r}]", item, leaves)


def _leaf_checks(word: str, name: str, value: Any) -> Iterator[str]:  # noqa: ANN401
    if isinstance(value, torch.Tensor):
        size = list(value.shape)
        yield from _refusing(f"{word}.size() == {size}", f"{name} of size {size}", f"str({word}.size())")
        yield from _refusing(f"{word}.dtype == {value.dtype}", f"{name} of {value.dtype}", "'another type'")
    elif value is None:
        yield from _refusing(f"{word} is None", f"None for {name}", "'a tensor'")
    else:
        yield from _refusing(f"{word} == {codegen.literal(value)}", f"{value!r} for {name}", f"str({word})")


def _refusing(condition: str, expected: str, found: str) -> Iterator[str]:
    """Statements that raise unless a condition holds; ``found`` is the expression for what there is."""
    text = codegen.literal(f"expected {expected}, as exported; found ")
    yield f"if not ({condition}):"
    yield f"    raise Exception({text} + {found})"
