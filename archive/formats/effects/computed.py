"""Operations of computed numbers: conditions on counters, sizes and lengths, as Python computes them.

A model that asks ``if self.count > 2`` is captured with a guard on ``self.count > 2``, whose parts are rows
of the record. There are no powers and shifts: a few of them would make numbers that fill the memory.
"""

from __future__ import annotations

COMPUTED = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "truediv": "{} / {}",
    "floordiv": "{} // {}",
    "mod": "{} % {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "lt": "{} < {}",
    "le": "{} <= {}",
    "gt": "{} > {}",
    "ge": "{} >= {}",
    "eq": "{} == {}",
    "ne": "{} != {}",
    "neg": "-{}",
    "abs": "abs({})",
    "int": "int({})",
    "float": "float({})",
    "min": "min({}, {})",
    "max": "max({}, {})",
    "size_of": "{}.size({})",
    "numel": "{}.numel()",
}
"""Python's text of each operation; its blanks are the operands."""
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
"""Those whose result is True or False."""


def operand_count(op: str) -> int:
    """The number of operands of an operation."""
    return COMPUTED[op].count("{}")
