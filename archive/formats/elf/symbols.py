"""The symbols of a shared object: functions and variables by name, each with its section and value.

The loader's table (DT_SYMTAB) is followed by the table of names (DT_STRTAB), as linkers write them; nothing
says how many symbols there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from archive.formats.elf.headers import SYMBOL_64
from archive.formats.elf.model import DT_STRSZ, DT_STRTAB, DT_SYMTAB

if TYPE_CHECKING:
    import numpy as np

    from archive.formats.elf.model import SharedObject


class SymbolTable(NamedTuple):
    """Symbols and their names.

    Attributes:
        symbols: the rows (n); ``name`` is an offset in the names.
        names: texts, each followed by NUL.
    """

    symbols: np.ndarray
    names: bytes

    def defined(self, name: bytes) -> tuple[int, int] | None:
        """The section and value of a symbol that is defined in the object; None where there is none."""
        at = self.names.find(b"\0" + name + b"\0")
        is_it = (self.symbols["name"] == at + 1) & (self.symbols["shndx"] != 0)
        if at < 0 or not is_it.any():
            return None
        number = int(is_it.argmax())
        return int(self.symbols["shndx"][number]), int(self.symbols["value"][number])


def loaded_symbols(data: memoryview, made: SharedObject) -> SymbolTable | None:
    """The symbols that the loader reads; None if they are not found in the file."""
    entries = made.dynamic(data)
    address, names, size = (entries.get(tag, 0) for tag in (DT_SYMTAB, DT_STRTAB, DT_STRSZ))
    name_span, span = made.in_file(names, names + size), made.in_file(address, names)
    if not name_span or not span or span[1] <= span[0]:
        return None
    return SymbolTable(SYMBOL_64.columns(data[slice(*span)]), bytes(data[slice(*name_span)]))
