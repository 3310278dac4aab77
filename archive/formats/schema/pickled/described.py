r"""A declaration as lines, from which the reference of all formats is made.

::

    >>> from archive.formats.schema.pickled import Int, Sequence, String, Tuple
    >>> row = Tuple(offset=Int() * "in the code", name=String())
    >>> print("\n".join(tree(Sequence(row))))
    (tuple, ...)
      offset: int    in the code
      name: str

A declaration used in several tuples may have a doc in only some: the doc belongs to the tuple's field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.formats.schema.pickled.containers import Keyed, Opening, Sequence, Tuple
from archive.formats.schema.pickled.scalars import Int, Optional
from archive.formats.schema.pickled.shared import Chain, Memo, Shared

if TYPE_CHECKING:
    from archive.formats.schema.pickled.core import Declaration


def tree(schema: Declaration) -> list[str]:
    """A declaration as lines: each field in one with its type and doc, its own fields below."""
    return [words(schema), *_fields(schema)]


def _fields(schema: Declaration) -> list[str]:
    """The lines for the fields of a declaration, or of its items."""
    if isinstance(schema, Tuple | Keyed):
        lines = []
        for name, field in schema.fields.items():
            doc = f"    {schema.docs[name]}" if name in schema.docs else ""
            lines += [f"  {name}: {words(field)}{doc}", *(f"  {line}" for line in _fields(field))]
        return lines
    item = schema.item if isinstance(schema, Sequence | Optional | Memo | Shared | Chain) else None
    return _fields(item) if item else []


def words(schema: Declaration) -> str:
    """What is declared, in a few words."""
    if isinstance(schema, Tuple):
        return "tuple that begins with" if isinstance(schema, Opening) else "tuple"
    if isinstance(schema, Keyed):
        return "pairs of key and value"
    if isinstance(schema, Sequence):
        return f"({f'{words(schema.head)}, ' if schema.head else ''}{words(schema.item)}, ...)"
    if isinstance(schema, Memo):
        return words(schema.item)
    if isinstance(schema, Shared):
        return f"shared {words(schema.item)}"
    if isinstance(schema, Optional):
        return f"{words(schema.item)} or None"
    if isinstance(schema, Chain):
        return f"chain by {schema.link} of {words(schema.item)}"
    if type(schema) is Int and schema.low > Int().low:
        return f"int from {schema.low}"
    return str(schema)
