"""Objects saved by ``torch.save``: recognised by their pickle, their tensors listed by name.

- *state dict*: a dict with names for keys and tensors for values. The ``OrderedDict`` of ``state_dict()``
  also has an attribute ``_metadata``.
- *whole module*: an object with ``_parameters`` and ``_modules``.
- *checkpoint*: another dict with tensors or modules somewhere in it.
"""

from __future__ import annotations

from archive.base.errors import one_line
from archive.formats.tensors.pickled import attribute_of, class_of, is_module, key_words, tensor_of, walk
from archive.pickles.values import DICTS, Global, Inert
from archive.reader.recognition.kinds import FileKind, Recognised

SHOWN_KEYS = 4


def recognised(value: object) -> Recognised:
    """Recognise an object that ``torch.save`` wrote."""
    kind = kind_of_object(value)
    return Recognised(kind, f"{object_words(value, kind)}, saved by torch.save")


def kind_of_object(value: object) -> FileKind:
    """The kind of a saved object."""
    if is_module(value):
        return FileKind.MODULE
    if not isinstance(value, Inert) or value.what not in DICTS:
        return FileKind.SAVED
    has_names = all(isinstance(key, str) for key, _ in value.pairs)
    whole = bool(value.pairs) and all(tensor_of(item) is not None for _, item in value.pairs)
    if has_names and (whole or attribute_of(value.state, "_metadata") is not None):
        return FileKind.STATE_DICT
    return FileKind.SAVED if next(walk(value), None) is None else FileKind.CHECKPOINT


def object_words(value: object, kind: FileKind | None = None) -> str:
    """The kind of a saved object in words, with details: ``a state dict of 2 tensors``."""
    kind, tensor = kind or kind_of_object(value), tensor_of(value)
    if tensor is not None:
        return f"a tensor of {tensor.dtype}"
    if not isinstance(value, Inert):
        return f"an object of class {type(value).__name__}"
    if kind is FileKind.STATE_DICT:
        tensors = sum(tensor_of(item) is not None for _, item in value.pairs)
        return f"a state dict of {tensors:,} tensor{'' if tensors == 1 else 's'}"
    if value.what in DICTS:
        keys = [key_words(key)[:60] for key, _ in value.pairs[:SHOWN_KEYS]]
        keys += ["…"] if len(value.pairs) > SHOWN_KEYS else []
        dict_words = f"a dict of {', '.join(keys)}" if keys else "an empty dict"
        return f"{'a checkpoint' if kind is FileKind.CHECKPOINT else 'an object'} ({dict_words})"
    if kind is not FileKind.MODULE and not isinstance(class_of(value), Global | str):
        return "an object"
    what = class_of(value)
    name = one_line(str(what)[:200]) if isinstance(what, Global | str) else "an unknown kind"
    return f"{'a whole module' if kind is FileKind.MODULE else 'an object'} of class {name}"
