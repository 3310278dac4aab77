"""Objects saved by ``torch.save``: recognised by their pickle, their tensors listed by name.

Nothing is executed: the pickle's values are :class:`~archive.formats.python_pickle.PyValue` objects.

- *state dict*: a dict with names for keys and tensors for values. The ``OrderedDict`` of ``state_dict()``
  also has an attribute ``_metadata``.
- *whole module*: an object with ``_parameters`` and ``_modules``.
- *checkpoint*: another dict with tensors or modules somewhere in it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archive.base.errors import one_line, shown
from archive.debuginfo.model import Global
from archive.formats.python_pickle import DICTS, UNREAD, PyValue, bytes_of
from archive.formats.record_kinds import DATA_FOLDER
from archive.formats.tensors.dtypes import dtype_of_storage
from archive.formats.tensors.tensor import MATH_BITS, QUANTISER_PARTS, Tensor, path_below
from archive.reader.recognition.kinds import FileKind, Recognised

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

REBUILT = [Global("torch._utils", f"_rebuild_{name}") for name in ("tensor_v2", "tensor_v3", "tensor")]
"""Functions in ``torch/_utils.py`` that are called with storage, offset, shape and strides."""
WRAPPED = [Global("torch._utils", f"_rebuild_parameter{ending}") for ending in ("", "_with_state")]
"""Functions whose first argument is a tensor."""
FROM_TYPE = [
    Global(module, f"_rebuild_from_type{ending}")
    for module in ("torch._tensor", "torch.tensor")
    for ending in ("_v2", "")
]
"""Functions that are called with a function that makes a tensor, a class, arguments and a state. The module
was ``torch.tensor`` before PyTorch 1.9; ``torch.load`` still accepts that."""
QUANTISED = Global("torch._utils", "_rebuild_qtensor")
META = Global("torch._utils", "_rebuild_meta_tensor_no_storage")
SPARSE = Global("torch._utils", "_rebuild_sparse_tensor")
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
VIEW = 5
"""The view of a storage before PyTorch 0.4: a key, where it begins, and its number of elements."""
GROUPS = ("_parameters", "_buffers", "_modules")
"""The attributes of a module that hold what its ``state_dict`` names."""
WRAPPERS = 8
"""Calls that may wrap a tensor: as a parameter, as a subclass."""
CLASS, STATE = "(class)", "(state)"
"""The names of a tensor's class and attributes among its parts."""
SHOWN_KEYS = 4
LARGEST, DIMENSIONS = (1 << 63) - 1, 256
FIRST = 64
"""How many attributes of an object are searched for those that every module has."""
PATH_CHARACTERS = 512
"""Characters of a tensor's path, besides an ellipsis; a longer one keeps its last."""


def recognised(value: object) -> Recognised:
    """Recognise an object that ``torch.save`` wrote."""
    kind = kind_of_object(value)
    return Recognised(kind, f"{object_words(value, kind)}, saved by torch.save")


def kind_of_object(value: object) -> FileKind:
    """The kind of a saved object."""
    if _is_module(value):
        return FileKind.MODULE
    if not isinstance(value, PyValue) or value.what not in DICTS:
        return FileKind.SAVED
    has_names = all(isinstance(key, str) for key, _ in value.pairs)
    whole = bool(value.pairs) and all(tensor_of(item) is not None for _, item in value.pairs)
    if has_names and (whole or _attribute(value.state, "_metadata") is not None):
        return FileKind.STATE_DICT
    return FileKind.SAVED if next(_walk(value), None) is None else FileKind.CHECKPOINT


def object_words(value: object, kind: FileKind | None = None) -> str:
    """The kind of a saved object in words, with details: ``a state dict of 2 tensors``."""
    kind, tensor = kind or kind_of_object(value), tensor_of(value)
    if tensor is not None:
        return f"a tensor of {tensor.dtype}"
    if not isinstance(value, PyValue):
        return f"an object of class {type(value).__name__}"
    if kind is FileKind.STATE_DICT:
        tensors = sum(tensor_of(item) is not None for _, item in value.pairs)
        return f"a state dict of {tensors:,} tensor{'' if tensors == 1 else 's'}"
    if value.what in DICTS:
        keys = [_key(key)[:60] for key, _ in value.pairs[:SHOWN_KEYS]]
        keys += ["…"] if len(value.pairs) > SHOWN_KEYS else []
        dict_words = f"a dict of {', '.join(keys)}" if keys else "an empty dict"
        return f"{'a checkpoint' if kind is FileKind.CHECKPOINT else 'an object'} ({dict_words})"
    if kind is not FileKind.MODULE and not isinstance(class_of(value), Global | str):
        return "an object"
    what = class_of(value)
    name = one_line(str(what)[:200]) if isinstance(what, Global | str) else "an unknown kind"
    return f"{'a whole module' if kind is FileKind.MODULE else 'an object'} of class {name}"


def tensors_in(value: object) -> dict[str, Tensor]:
    """All tensors in a pickled object, by their paths: ``model.fc.weight``."""
    tensors: dict[str, Tensor] = {}
    same = Counter[str]()
    for way, part in _walk(value):
        tensor, path = tensor_of(part), way
        while tensor is not None and path in tensors:  # both values of {"a.b": …, "a": {"b": …}} are at a.b
            same[way] += 1
            path = f"{way} ({same[way] + 1})"
        if tensor is not None:
            tensors[path] = tensor
    return tensors


def _walk(top: object) -> Iterator[tuple[str, object]]:
    """Tensors and modules in an object, each with its path; each container is visited once.

    Attributes of modules come last: a tensor there that is also a parameter is already listed.
    """
    seen: dict[int, object] = {}  # by id; held, so that nothing else gets its id
    stack: list[tuple[str, object]] = [("", top)]
    attributes: list[tuple[str, object]] = []
    are_last = False
    while stack or attributes:
        if not stack:
            stack, attributes, are_last = attributes[::-1], [], True
        path, value = stack.pop()
        if not isinstance(value, PyValue):
            continue
        if tensor_of(value) is not None:  # a tied tensor is there under each of its names
            if not (are_last and id(value) in seen):
                seen[id(value)] = value
                yield path, value
                parts = reversed(tensor_parts(value).items())
                stack.extend((_path(path, "" if name == STATE else name), part) for name, part in parts)
            continue
        if id(value) in seen and value.what != SPARSE:  # which may be tied like others
            continue
        seen[id(value)] = value
        below = []
        for part, keyed in _parts(value):
            if id(part) not in seen:  # shared by several values, perhaps
                seen[id(part)] = part
                below += [(_path(path, _key(key)), item) for key, item in keyed(part)]
        stack.extend(reversed(below))
        if _is_module(value):
            yield path, value
            others = value.state.pairs if isinstance(value.state, PyValue) else ()
            if id(others) not in seen:
                seen[id(others)] = others
                named = ((_key(key), item) for key, item in others if key not in GROUPS)
                attributes += [(_path(path, key), item) for key, item in named]


def _path(path: str, step: str) -> str:
    """The path of a value in another one; a long one is cut to its end."""
    whole = path_below(path, step)
    return whole if len(whole) <= PATH_CHARACTERS else f"…{whole[-PATH_CHARACTERS:]}"


def _parts(
    value: PyValue,
) -> Iterator[tuple[Sequence[Any], Callable[[Any], Iterable[tuple[object, object]]]]]:
    """The parts of a value, each with a function that names its items.

    A module's are its parameters, buffers and modules, which ``state_dict`` names without the dicts' names.
    Its other attributes are not among them.
    """
    if _is_module(value):
        groups = (_attribute(value.state, name) for name in GROUPS)
        yield from ((group.pairs, _last_of_each) for group in groups if isinstance(group, PyValue))
        return
    if value.what == SPARSE and len(value.arguments) > 1:
        layout, parts = value.arguments[:2]
        layout = layout.arguments[0] if isinstance(layout, PyValue) and layout.arguments else layout
        names = SPARSE_PARTS.get(str(layout), ())
        yield list(zip(names, parts.items if isinstance(parts, PyValue) else (), strict=False)), iter
        return
    yield value.pairs, _last_of_each
    yield value.items, enumerate
    if not isinstance(value.what, str):
        yield value.arguments, _unnamed
    if isinstance(value.state, PyValue) and value.what not in DICTS:
        yield [value.state], _unnamed


def _quantiser(value: object) -> list[tuple[str, object]]:
    """The tensors that hold a quantised tensor's scales, by name."""
    value = _unwrapped(value)
    if not isinstance(value, PyValue) or value.what != QUANTISED or len(value.arguments) <= QUANTISER:
        return []
    quantiser = value.arguments[QUANTISER]
    parts = zip(QUANTISER_PARTS, quantiser.items if isinstance(quantiser, PyValue) else (), strict=False)
    return [(name, part) for name, part in parts if name is not None and isinstance(part, PyValue)]


def tensor_parts(value: object) -> dict[str, object]:
    """What belongs to a tensor besides its elements: scales, its class where it has one, its attributes."""
    own = dict(_quantiser(value))
    for _ in range(WRAPPERS):
        if not isinstance(value, PyValue) or not value.arguments:
            break
        if value.what in FROM_TYPE:
            own[CLASS] = value.arguments[1]
        if value.what in FROM_TYPE or value.what in WRAPPED:
            for state in value.arguments[3:]:
                own[f"({len(own)})" if STATE in own else STATE] = state
        if value.what not in WRAPPED:
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
    """The tensor that a call would make; None where the value isn't such a call."""
    if not isinstance(value, PyValue):
        return None
    if value.made is UNREAD:
        value.made = _tensor_of(value)
    made: Tensor | None = value.made
    return made


def _tensor_of(value: PyValue) -> Tensor | None:
    made = _unwrapped(value)
    if not isinstance(made, PyValue):
        return None
    if made.what == META:
        return _meta(*made.arguments[:META_ARGUMENTS])
    if made.what == QUANTISED:
        return _quantised(made.arguments)
    tensor = _tensor(*made.arguments[:DTYPE]) if made.what in REBUILT else None
    asks = value.arguments[1] if value.what in WRAPPED else None
    return replace(tensor, requires_grad=asks) if tensor is not None and isinstance(asks, bool) else tensor


def _quantised(arguments: Sequence[object]) -> Tensor | None:
    """A tensor whose elements are steps of a scale."""
    tensor = _tensor(*arguments[:QUANTISER], *arguments[QUANTISER + 1 : QUANTISER + 2])
    quantiser_value = arguments[QUANTISER] if len(arguments) > QUANTISER else None
    parts = quantiser_value.items if isinstance(quantiser_value, PyValue) else ()
    plain = (part.name if isinstance(part, Global) else part for part in parts)
    quantiser = tuple(part for part in plain if isinstance(part, str | int | float))
    return None if tensor is None else replace(tensor, quantiser=quantiser)


def _unwrapped(value: object) -> object:
    """What a parameter or a tensor of a subclass wraps; any other value itself."""
    for _ in range(WRAPPERS):
        if not isinstance(value, PyValue) or not value.arguments:
            return None
        if value.what in FROM_TYPE and len(value.arguments) > 2:  # noqa: PLR2004 (function, class, arguments)
            inner = value.arguments[2]
            value = PyValue(value.arguments[0], inner.items if isinstance(inner, PyValue) else ())
        elif value.what in WRAPPED:
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
    storage: object = None,
    offset: object = None,
    shape: object = None,
    strides: object = None,
    requires_grad: object = None,
    _hooks: object = None,
    dtype: object = None,  # of _rebuild_tensor_v2: a dict of bits
) -> Tensor | None:
    storage_id = (
        storage.arguments[0] if isinstance(storage, PyValue) and storage.what == "persistent" else None
    )
    sizes, steps = _sizes(shape), _sizes(strides)
    if not isinstance(storage_id, PyValue) or len(storage_id.items) < 3 or sizes is None:  # noqa: PLR2004
        return None
    _, kind, key = storage_id.items[:3]
    if isinstance(dtype, Global) and dtype.module == "torch":
        name = dtype.name
    else:
        name = dtype_of_storage(kind.name) if isinstance(kind, Global) else "unknown"
    bits = dtype.pairs if isinstance(dtype, PyValue) else ()
    view = storage_id.items[VIEW] if len(storage_id.items) > VIEW else None
    begin = view.items[1] if isinstance(view, PyValue) and len(view.items) > 1 else 0
    return Tensor(
        name,
        sizes,
        steps or (),
        sum(number for number in (offset, begin) if isinstance(number, int)),
        f"{DATA_FOLDER}{str(key)[:PATH_CHARACTERS]}",
        requires_grad if isinstance(requires_grad, bool) else None,
        math_bits=tuple(sorted(bit for bit, is_set in bits if bit in MATH_BITS and is_set is True)),
    )


def _sizes(value: object) -> tuple[int, ...] | None:
    """Sizes or strides; None where they aren't a tuple of numbers."""
    if not isinstance(value, PyValue) or len(value.items) > DIMENSIONS:
        return None
    sizes = tuple(size for size in value.items if isinstance(size, int) and 0 <= size <= LARGEST)
    return sizes if len(sizes) == len(value.items) else None


def _key(key: object) -> str:
    """A dict's key, for a path or message."""
    if isinstance(key, str):
        return one_line(key[:PATH_CHARACTERS])
    key = bytes_of(key)
    return shown(key) if isinstance(key, int | float | bytes | None) else "(…)"


def class_of(value: PyValue) -> object:
    """What a value was made by: before PyTorch 1.6, a module's class comes with its source."""
    match value.what:
        case PyValue(what="persistent", arguments=[PyValue(items=["module", Global() as name, *_])]):
            return name
    return value.what


def _is_module(value: object) -> bool:
    return (
        isinstance(value, PyValue)
        and isinstance(class_of(value), Global)
        and _attribute(value.state, "_parameters") is not None
        and _attribute(value.state, "_modules") is not None
    )


def _attribute(state: object, name: str) -> object:
    if not isinstance(state, PyValue) or state.what != "dict":
        return None
    return next((value for key, value in state.pairs[:FIRST] if key == name), None)
