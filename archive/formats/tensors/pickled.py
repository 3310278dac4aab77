"""The tensors in values of pickles: what a call makes, what belongs to it, and its name.

A tensor's name is the path to it, ``encoder.layers.0.weight``: attributes by name, the items of lists and
tuples by number, those of dicts by key. A tensor that several attributes hold has each path as a name.

Sources: ``torch/_utils.py``; for TorchScript, ``Pickler::pushLiteralTensor`` in
``torch/csrc/jit/serialization/pickler.cpp``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archive.base import memory
from archive.base.errors import one_line, shown
from archive.formats.record_kinds import DATA, DATA_FOLDER
from archive.formats.tensors.dtypes import dtype_of_storage
from archive.formats.tensors.tensor import (
    MATH_BITS,
    MOST_ELEMENTS,
    QUANTISER_PARTS,
    NamedTensors,
    Tensor,
    check_dimensions,
    path_below,
)
from archive.pickles.values import DICTS, HOLDERS, UNREAD, Global, Inert, bytes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


PLAIN, PARAMETER, SUBCLASS = "plain", "parameter", "subclass"
QUANTISED, META, SPARSE = "quantised", "meta", "sparse"
META_DEVICE = "meta"
"""Where tensors have no elements; TorchScript writes an empty record for each storage there."""
CALLS = {
    **{("torch._utils", f"_rebuild_{name}"): PLAIN for name in ("tensor", "tensor_v2", "tensor_v3")},
    **{("torch._utils", f"_rebuild_parameter{ending}"): PARAMETER for ending in ("", "_with_state")},
    **{
        (module, f"_rebuild_from_type{ending}"): SUBCLASS
        for module in ("torch._tensor", "torch.tensor")
        for ending in ("_v2", "")
    },
    ("torch._utils", "_rebuild_qtensor"): QUANTISED,
    ("torch._utils", "_rebuild_meta_tensor_no_storage"): META,
    ("torch._utils", "_rebuild_sparse_tensor"): SPARSE,
}
"""What PyTorch's functions make, by module and name. One that is called for a parameter takes a tensor first;
one for a subclass takes a function that makes a tensor, a class, arguments and a state. The module of these
was ``torch.tensor`` before PyTorch 1.9; ``torch.load`` still accepts that."""
SPARSE_PARTS = {
    "torch.sparse_coo": ("indices", "values"),
    **dict.fromkeys(("torch.sparse_csr", "torch.sparse_bsr"), ("crow_indices", "col_indices", "values")),
    **dict.fromkeys(("torch.sparse_csc", "torch.sparse_bsc"), ("ccol_indices", "row_indices", "values")),
}
"""The parts of a sparse tensor by its layout, named like PyTorch's methods that return them."""
META_ARGUMENTS, QUANTISER = 4, 4
"""Number of arguments of a call that makes a tensor without storage; the one that is a quantiser."""
DTYPE = 7
"""Arguments of a call that makes a tensor, up to the dtype of ``_rebuild_tensor_v3``."""
MAY_HOLD = (*HOLDERS, Tensor)
"""What may be a tensor, or hold one."""
ROW_BYTES = 400
"""Bytes of memory that a tensor and its name take, besides the name's characters."""
GROUPS = ("_parameters", "_buffers", "_modules")
"""The attributes of a module that hold what its ``state_dict`` names."""
WRAPPERS = 8
"""Calls that may wrap a tensor: as a parameter, as a subclass."""
INTS = {int, bool}
CLASS, STATE = "(class)", "(state)"
"""The names of a tensor's class and attributes among its parts."""
FIRST = 64
"""How many attributes of an object are searched for those that every module has."""
PATH_CHARACTERS = 512
"""Characters of a tensor's path, besides an ellipsis; a longer one keeps its last."""


def tensors_in(value: object) -> dict[str, Tensor]:
    """All tensors in a value of ``torch.save``, by their paths: ``model.fc.weight``."""
    named = NamedTensors()
    for path, part in walk(value):
        tensor = tensor_of(part)
        if tensor is not None:
            named.add(path, tensor)
    return named


def script_tensors(root: object) -> Iterator[tuple[str, Tensor]]:
    """The tensors in a value of TorchScript, with their paths; "" if the value is itself a tensor."""

    def below(path: str, step: str) -> str:
        whole = path_below(path, step)
        memory.take(ROW_BYTES + len(whole), "tensors", record=DATA)
        return whole

    for path, value in walk(root, below):
        tensor = tensor_of(value)
        if tensor is not None:
            yield path, tensor


def _short_path(path: str, step: str) -> str:
    """The path of a value in another one; a long one is cut to its end."""
    whole = path_below(path, step)
    return whole if len(whole) <= PATH_CHARACTERS else f"…{whole[-PATH_CHARACTERS:]}"


def walk(top: object, below: Callable[[str, str], str] = _short_path) -> Iterator[tuple[str, Tensor | Inert]]:
    """Tensors and modules in a value, each with its path; each container is visited once.

    Attributes of modules come last: a tensor there that is also a parameter is already listed.

    Args:
        below: the path of a part, by the path of what holds it and its name there.
    """
    seen: dict[int, object] = {}  # by id; held, so that nothing else gets its id
    stack: list[tuple[str, object]] = [("", top)]
    attributes: list[tuple[str, object]] = []
    are_last = False
    while stack or attributes:
        if not stack:
            stack, attributes, are_last = attributes[::-1], [], True
        path, value = stack.pop()
        if isinstance(value, Tensor | Inert) and tensor_of(value) is not None:
            if not (are_last and id(value) in seen):  # a tied tensor is there under each of its names
                seen[id(value)] = value
                yield path, value
                parts = reversed(tensor_parts(value).items())
                stack.extend((below(path, "" if name == STATE else name), part) for name, part in parts)
            continue
        if id(value) in seen and not _is_sparse(value):  # which may be tied like others
            continue
        found = []
        for part, named in _parts(value):
            if id(part) not in seen:  # shared by several values, perhaps
                seen[id(part)] = part
                holding = ((key, item) for key, item in named(part) if isinstance(item, MAY_HOLD))
                found += [(below(path, key_words(key)), item) for key, item in holding]
        seen[id(value)] = value
        stack.extend(reversed(found))
        if isinstance(value, Inert) and is_module(value):
            yield path, value
            others = value.state.pairs if isinstance(value.state, Inert) else ()
            if id(others) not in seen:
                seen[id(others)] = others
                pairs = ((key_words(key), item) for key, item in others if key not in GROUPS)
                attributes += [(below(path, key), item) for key, item in pairs]


def _is_sparse(value: object) -> bool:
    return call_of(value) == SPARSE


def _parts(value: object) -> Iterator[tuple[Any, Callable[[Any], Iterable[tuple[object, object]]]]]:
    """The parts of a value, each with a function that names its items.

    A module's are its parameters, buffers and modules, which ``state_dict`` names without the dicts' names.
    Its other attributes are not among them.
    """
    if isinstance(value, list | tuple):
        yield value, enumerate
    elif isinstance(value, dict):
        yield value, dict.items
    elif isinstance(value, Inert):
        yield from _parts_of_object(value)


def _parts_of_object(
    value: Inert,
) -> Iterator[tuple[Sequence[Any], Callable[[Any], Iterable[tuple[object, object]]]]]:
    if is_module(value):
        groups = (attribute_of(value.state, name) for name in GROUPS)
        yield from ((group.pairs, _last_of_each) for group in groups if isinstance(group, Inert))
        return
    if _is_sparse(value) and len(value.arguments) > 1:
        layout, parts = value.arguments[:2]
        layout = layout.arguments[0] if isinstance(layout, Inert) and layout.arguments else layout
        names = SPARSE_PARTS.get(str(layout), ())
        yield list(zip(names, parts if isinstance(parts, list | tuple) else (), strict=False)), iter
        return
    yield value.pairs, _last_of_each
    yield value.items, enumerate
    if not isinstance(value.what, str):
        yield value.arguments, _unnamed
    if isinstance(value.state, HOLDERS) and value.what not in DICTS:
        yield [value.state], _unnamed


def call_of(value: object) -> str:
    """What a value makes, as a call of one of PyTorch's functions; "" for all others."""
    what = value.what if isinstance(value, Inert) else None
    return CALLS.get((what.module, what.name), "") if isinstance(what, Global) else ""


def tensor_parts(value: object) -> dict[str, object]:
    """What belongs to a tensor besides its elements: scales, its class where it has one, its attributes."""
    own: dict[str, object] = {}
    inner = _unwrapped(value)
    if call_of(inner) == QUANTISED and len(inner.arguments) > QUANTISER:
        quantiser = inner.arguments[QUANTISER]
        parts = zip(QUANTISER_PARTS, quantiser if isinstance(quantiser, tuple) else (), strict=False)
        own = {name: part for name, part in parts if name is not None and isinstance(part, Tensor | Inert)}
    for _ in range(WRAPPERS):
        call = call_of(value)
        if not isinstance(value, Inert) or call not in {PARAMETER, SUBCLASS} or not value.arguments:
            break
        if call == SUBCLASS:
            own[CLASS] = value.arguments[1]
        for state in value.arguments[3:]:
            own[f"({len(own)})" if STATE in own else STATE] = state
        if call == SUBCLASS:
            break
        value = value.arguments[0]
    return own


def _last_of_each(pairs: Sequence[tuple[object, object]]) -> Iterable[tuple[object, object]]:
    """The items of a dict as it is loaded: the last value of a key that a pickle sets twice."""
    texts = {key: item for key, item in pairs if isinstance(key, str)}
    if len(texts) == sum(isinstance(key, str) for key, _ in pairs):
        return pairs
    others = ((key, item) for key, item in pairs if not isinstance(key, str))
    return (*texts.items(), *others)


def _unnamed(items: Sequence[object]) -> Iterable[tuple[object, object]]:
    return (("", item) for item in items)


def tensor_of(value: object) -> Tensor | None:
    """The tensor that a value is, or that a call would make; None for other values.

    Its record is in the folder of the storages of ``data.pkl``, or of the pickle of TorchScript that has it.
    """
    if isinstance(value, Tensor):
        return value
    if not isinstance(value, Inert):
        return None
    if value.made is UNREAD:
        value.made = made_by(value, DATA_FOLDER)
    made: Tensor | None = value.made
    return made


def storages_of(pickle: str) -> str:
    """The folder of the storages that a pickle of TorchScript names."""
    return f"{pickle.removesuffix('.pkl')}/"


def made_by(value: Inert, folder: str) -> Tensor | None:
    """The same, read anew, with a folder for its record."""
    made = _unwrapped(value)
    call = call_of(made)
    if call == META:
        return _meta(*made.arguments[:META_ARGUMENTS])
    if call == QUANTISED:
        return _quantised(folder, made.arguments)
    if call != PLAIN:
        return None
    tensor = _tensor(folder, *made.arguments[:DTYPE])
    if tensor is not None and made is not value and call_of(value) == PARAMETER:
        asks = value.arguments[1] if len(value.arguments) > 1 else None
        return replace(tensor, requires_grad=asks) if isinstance(asks, bool) else tensor
    return tensor


def _quantised(folder: str, arguments: Sequence[object]) -> Tensor | None:
    """A tensor whose elements are steps of a scale."""
    tensor = _tensor(folder, *arguments[:QUANTISER], *arguments[QUANTISER + 1 : QUANTISER + 2])
    parts = arguments[QUANTISER] if len(arguments) > QUANTISER else ()
    parts = parts if isinstance(parts, tuple) else ()
    plain = (part.name if isinstance(part, Global) else part for part in parts)
    quantiser = tuple(part for part in plain if isinstance(part, str | int | float))
    return None if tensor is None else replace(tensor, quantiser=quantiser)


def _unwrapped(value: Any) -> Any:  # noqa: ANN401 (any value)
    """What a parameter or a tensor of a subclass wraps; any other value itself."""
    for _ in range(WRAPPERS):
        call = call_of(value)
        if call == SUBCLASS and len(value.arguments) > 2:  # noqa: PLR2004 (function, class, arguments)
            inner = value.arguments[2]
            value = Inert(value.arguments[0], inner if isinstance(inner, tuple) else ())
        elif call == PARAMETER and value.arguments:
            value = value.arguments[0]
        else:
            break
    return value


def _meta(
    dtype: object = None, shape: object = None, strides: object = None, requires_grad: object = None
) -> Tensor | None:
    """A tensor without storage."""
    sizes, steps = _sizes(shape), _sizes(strides)
    if sizes is None or steps is None or not isinstance(dtype, Global):
        return None
    return Tensor(dtype.name, sizes, steps, 0, "", requires_grad if isinstance(requires_grad, bool) else None)


def _tensor(  # noqa: PLR0917 (the parameters of torch._utils._rebuild_tensor_v3)
    folder: str,
    storage: object = None,
    offset: object = None,
    shape: object = None,
    strides: object = None,
    requires_grad: object = None,
    _hooks: object = None,
    dtype: object = None,  # of _rebuild_tensor_v2: a dict of bits
) -> Tensor | None:
    sizes, steps = _sizes(shape), _sizes(strides)
    match storage:
        case Inert(what="persistent", arguments=[(_, kind, key, *more)]) | ((_, kind, key, *more),):
            pass
        case _:
            return None
    if sizes is None:
        return None
    if isinstance(dtype, Global) and dtype.module == "torch":
        name = dtype.name
    else:
        name = dtype_of_storage(kind.name) if isinstance(kind, Global) else "unknown"
    bits = dtype.pairs if isinstance(dtype, Inert) else dtype.items() if isinstance(dtype, dict) else ()
    device, _, view = (*more[:3], None, None, None)[:3]
    begin = view[1] if isinstance(view, tuple) and len(view) > 1 else 0
    return Tensor(
        name,
        sizes,
        steps or (),
        sum(number for number in (offset, begin) if isinstance(number, int)),
        "" if device == META_DEVICE else f"{folder}{str(key)[:PATH_CHARACTERS]}",
        requires_grad if isinstance(requires_grad, bool) else None,
        math_bits=tuple(sorted(bit for bit, is_set in bits if bit in MATH_BITS and is_set is True)),
        device="" if device is None else str(device),
    )


def _sizes(value: object) -> tuple[int, ...] | None:
    """Sizes or strides; None where they aren't a tuple of numbers."""
    if not isinstance(value, tuple):
        return None
    check_dimensions(len(value))  # before each number is checked: many tensors may share them
    if not INTS.issuperset(map(type, value)):
        return None
    return value if not value or 0 <= min(value) <= max(value) <= MOST_ELEMENTS else None


def key_words(key: object) -> str:
    """A dict's key, for a path or message."""
    if isinstance(key, str):
        return one_line(key[:PATH_CHARACTERS])
    key = bytes_of(key)
    return shown(key) if isinstance(key, int | float | bytes | None) else "(…)"


def class_of(value: Inert) -> object:
    """What a value was made by: before PyTorch 1.6, a module's class comes with its source."""
    match value.what:
        case Inert(what="persistent", arguments=[("module", Global() as name, *_)]):
            return name
    return value.what


def is_module(value: object) -> bool:
    """Whether ``torch.save`` wrote a value as a whole module."""
    return (
        isinstance(value, Inert)
        and isinstance(class_of(value), Global)
        and attribute_of(value.state, "_parameters") is not None
        and attribute_of(value.state, "_modules") is not None
    )


def attribute_of(state: object, name: str) -> object:
    """A state's attribute, if it is among the first ones."""
    if not isinstance(state, Inert) or state.what != "dict":
        return None
    return next((value for key, value in state.pairs[:FIRST] if key == name), None)
