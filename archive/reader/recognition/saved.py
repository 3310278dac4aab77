"""Objects saved by ``torch.save`` are recognised by their pickle, and their tensors listed by name.

Nothing is executed: the pickle's values are :class:`~archive.formats.python_pickle.Value` objects.

- *state dict*: a dict with names for keys and tensors for values. The ``OrderedDict`` of ``state_dict()``
  also has an attribute ``_metadata``.
- *whole module*: an object with ``_parameters`` and ``_modules``.
- *checkpoint*: another dict with tensors or modules somewhere in it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from archive.base.errors import one_line, shown
from archive.debuginfo.model import Global
from archive.formats.python_pickle import Value
from archive.reader.recognition.kinds import FileKind, Recognised

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

REBUILT = [
    Global("torch._utils", f"_rebuild_{name}") for name in ("tensor_v2", "tensor_v3", "tensor", "qtensor")
]
"""Functions in ``torch/_utils.py`` that are called with storage, offset, shape and strides."""
WRAPPED = [Global("torch._utils", f"_rebuild_parameter{ending}") for ending in ("", "_with_state")]
"""Functions whose first argument is a tensor."""
DTYPES = {
    "Float": ("float32", 4),
    "Double": ("float64", 8),
    "Half": ("float16", 2),
    "BFloat16": ("bfloat16", 2),
    "Long": ("int64", 8),
    "Int": ("int32", 4),
    "Short": ("int16", 2),
    "Char": ("int8", 1),
    "Byte": ("uint8", 1),
    "Bool": ("bool", 1),
    "ComplexFloat": ("complex64", 8),
    "ComplexDouble": ("complex128", 16),
    "QInt8": ("qint8", 1),
    "QUInt8": ("quint8", 1),
    "QInt32": ("qint32", 4),
}
"""For each storage class, ``FloatStorage`` and so on: the dtype of its elements, and bytes per element."""
FLOAT8 = ("e5m2", "e4m3fn", "e5m2fnuz", "e4m3fnuz", "e8m0fnu")
WIDTHS = {
    **dict(DTYPES.values()),
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "complex32": 4,
    **{f"float8_{name}": 1 for name in FLOAT8},
}
"""Bytes per element by dtype, also of dtypes without a storage class."""
DICTS = ("dict", Global("collections", "OrderedDict"), Global("collections", "defaultdict"))
FROM_TYPE = Global("torch._tensor", "_rebuild_from_type_v2")
DTYPE = 7
"""Arguments of a call that makes a tensor, up to the dtype of ``_rebuild_tensor_v3``."""
WRAPPERS = 8
"""Calls that may wrap a tensor: of a parameter, of a subclass."""
SHOWN_KEYS = 4
LARGEST, DIMENSIONS = (1 << 63) - 1, 256
FIRST = 64
"""Attributes of an object that are searched for those that every module has."""
PATH_CHARACTERS = 512
"""Characters of a tensor's path. Tensors with longer paths are left out."""


@dataclass(frozen=True, slots=True)
class SavedTensor:
    """A tensor that a pickle describes.

    Attributes:
        dtype: of its elements, as PyTorch names it.
        shape: elements per dimension.
        bytes: size of its elements; None for a dtype that is not known here.
        storage: key of its storage, which is the record ``data/KEY``. Several tensors may share one.
    """

    dtype: str
    shape: tuple[int, ...]
    bytes: int | None
    storage: str


def recognised(value: object) -> Recognised:
    """Recognise an object that ``torch.save`` wrote."""
    return Recognised(kind_of_object(value), f"{object_words(value)}, saved by torch.save")


def kind_of_object(value: object) -> FileKind:
    """The kind of a saved object."""
    if _is_module(value):
        return FileKind.MODULE
    if not isinstance(value, Value) or value.what not in DICTS:
        return FileKind.SAVED
    if _is_state_dict(value):
        return FileKind.STATE_DICT
    return FileKind.SAVED if next(_walk(value), None) is None else FileKind.CHECKPOINT


def object_words(value: object) -> str:
    """The kind of a saved object in words, with details: ``a state dict of 2 tensors``."""
    kind, tensor = kind_of_object(value), tensor_of(value)
    if tensor is not None:
        return f"a tensor of {tensor.dtype}"
    if not isinstance(value, Value):
        return f"an object of class {type(value).__name__}"
    if kind is FileKind.STATE_DICT:
        tensors = sum(tensor_of(item) is not None for _, item in value.pairs)
        return f"a state dict of {tensors:,} tensor{'' if tensors == 1 else 's'}"
    if value.what in DICTS:
        return f"{'a checkpoint' if kind is FileKind.CHECKPOINT else 'an object'} ({_keys(value)})"
    if kind is not FileKind.MODULE and not isinstance(value.what, Global | str):
        return "an object"
    return f"{'a whole module' if kind is FileKind.MODULE else 'an object'} of class {_name(value.what)}"


def _is_state_dict(value: Value) -> bool:
    named = all(isinstance(key, str) for key, _ in value.pairs)
    whole = bool(value.pairs) and all(tensor_of(item) is not None for _, item in value.pairs)
    return named and (whole or _attribute(value.state, "_metadata") is not None)


def _keys(value: Value) -> str:
    """A dict in words, with its first keys."""
    keys = [_key(key)[:60] for key, _ in value.pairs[:SHOWN_KEYS]]
    more = ["…"] if len(value.pairs) > SHOWN_KEYS else []
    return f"a dict of {', '.join(keys + more)}" if keys else "an empty dict"


def tensors_in(value: object) -> dict[str, SavedTensor]:
    """All tensors in a pickled object, by their paths: ``model.fc.weight``."""
    found: dict[str, SavedTensor] = {}
    same = Counter[str]()
    for way, part in _walk(value):
        tensor, path = tensor_of(part), way
        while tensor is not None and path in found:  # both values of {"a.b": …, "a": {"b": …}} are at a.b
            same[way] += 1
            path = f"{way} ({same[way] + 1})"
        if tensor is not None:
            found[path] = tensor
    return found


def _walk(top: object) -> Iterator[tuple[str, object]]:
    """Tensors and modules in an object, each with its path, and only once though it is held twice."""
    seen: set[int] = set()
    stack: list[tuple[str, object]] = [("", top)]
    while stack:
        path, value = stack.pop()
        if not isinstance(value, Value) or id(value) in seen or len(path) > PATH_CHARACTERS:
            continue
        seen.add(id(value))
        if tensor_of(value) is not None:
            yield path, value
            continue
        if _is_module(value):
            yield path, value
        below = []
        for part, keyed in _parts(value):
            if id(part) not in seen:  # shared by several values, perhaps
                seen.add(id(part))
                below += [(_below(path, key), item) for key, item in keyed(part)]
        stack.extend(reversed(below))


def _parts(value: Value) -> Iterator[tuple[Sequence[Any], Callable[[Any], Iterable[tuple[object, object]]]]]:
    """The parts of a value, each with a function that names its items.

    A module's are its parameters, buffers and modules, which ``state_dict`` names without the dicts' names.
    """
    if _is_module(value):
        groups = (_attribute(value.state, name) for name in ("_parameters", "_buffers", "_modules"))
        yield from ((group.pairs, iter) for group in groups if isinstance(group, Value))
        return
    yield value.pairs, iter
    yield value.items, enumerate
    if not isinstance(value.what, str):
        yield value.arguments, _unnamed
    if isinstance(value.state, Value) and value.what not in DICTS:
        yield [value.state], _unnamed


def _unnamed(items: Sequence[object]) -> Iterable[tuple[object, object]]:
    return (("", item) for item in items)


def _below(path: str, key: object) -> str:
    step = _key(key)
    return f"{path}.{step}" if path and step else path or step


def tensor_of(value: object) -> SavedTensor | None:
    """The tensor that a call would make; None where the value is no such call."""
    for _ in range(WRAPPERS):
        if not isinstance(value, Value) or not value.arguments:
            return None
        if value.what == FROM_TYPE and len(value.arguments) > 2:  # noqa: PLR2004 (function, class, arguments)
            inner = value.arguments[2]
            value = Value(value.arguments[0], inner.items if isinstance(inner, Value) else ())
        elif value.what in WRAPPED:
            value = value.arguments[0]
        else:
            break
    return _tensor(*value.arguments[:DTYPE]) if isinstance(value, Value) and value.what in REBUILT else None


def _tensor(  # the parameters of torch._utils._rebuild_tensor_v3
    storage: object = None,
    _offset: object = None,
    shape: object = None,
    _strides: object = None,
    _requires_grad: object = None,
    _hooks: object = None,
    dtype: object = None,
) -> SavedTensor | None:
    told = storage.arguments[0] if isinstance(storage, Value) and storage.what == "persistent" else None
    if not isinstance(told, Value) or len(told.items) < 3 or not isinstance(shape, Value):  # noqa: PLR2004
        return None
    if len(shape.items) > DIMENSIONS:
        return None
    sizes = tuple(size for size in shape.items if isinstance(size, int) and 0 <= size <= LARGEST)
    if len(sizes) < len(shape.items):
        return None
    _, kind, key = told.items[:3]
    name = dtype.name if isinstance(dtype, Global) and dtype.module == "torch" else _element(kind)
    width = WIDTHS.get(name)
    return SavedTensor(
        name, sizes, None if width is None else prod(sizes) * width, str(key)[:PATH_CHARACTERS]
    )


def _element(storage: object) -> str:
    """The dtype of a storage class."""
    name = storage.name.removesuffix("Storage") if isinstance(storage, Global) else "unknown"
    return DTYPES.get(name, (name.lower(), 0))[0]


def _key(key: object) -> str:
    """A dict's key, for a path or message."""
    if isinstance(key, str):
        return one_line(key[:PATH_CHARACTERS])
    return shown(key) if isinstance(key, int | float | bytes | None) else "(…)"


def _is_module(value: object) -> bool:
    return (
        isinstance(value, Value)
        and isinstance(value.what, Global)
        and _attribute(value.state, "_parameters") is not None
        and _attribute(value.state, "_modules") is not None
    )


def _attribute(state: object, name: str) -> object:
    if not isinstance(state, Value) or state.what != "dict":
        return None
    return next((value for key, value in state.pairs[:FIRST] if key == name), None)


def _name(what: object) -> str:
    return one_line(str(what)[:200]) if isinstance(what, Global | str) else "an unknown kind"
