r"""Names in digests: of classes, which no process decides; and in lists of digests, which can be read back.

PyTorch makes the name of a class unique in its process: the second ``models.Block`` is
``models.___torch_mangle_0.Block``. Here classes of one name are numbered by their first use, beginning at
the module tree: ``models.Block``, ``models.Block#1``. So it matters which of them is used where, and not how
PyTorch called them. Texts in quotes stay as they are. The constants of a class are sorted.

In the lines of a list, a name is printable and on one line. As in lists of ``sha256sum``, a backslash is
written twice, and line ends as ``\n`` and ``\r``. So are all other characters that do not print: ``\u2028``,
and bytes that aren't UTF-8 as Python has them, ``\udcff``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from archive.compare.generated_code import constants_sorted
from archive.formats.mangling import MANGLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEFINED = re.compile(r"^(?:class|def) ([^\s(:]+)", re.MULTILINE)
"""The beginning of a class or function at the left margin."""
TOKENS = re.compile(r'"(?:[^"\\]|\\.)*+"?|\'(?:[^\'\\]|\\.)*+\'?|(?<!\w)[^\W\d]\w*+(?:\.\w++)+')
"""A text in quotes, or a name with dots. What no quote closes goes to the end, and no search begins inside
of a word: each character is looked at once."""
LONGEST = 1024
"""Characters of a name that is looked up."""
MANGLED = re.compile(rf"\.{MANGLE}(\d+)")


class Definitions:
    """The classes and functions of generated code, which is given by module: ``__torch__.models``."""

    def __init__(self, code: Mapping[str, str]) -> None:
        texts = defaultdict[str, list[str]](list)
        self._names: dict[str, str] = {}
        for module, text in code.items():
            starts = [*(match.start() for match in DEFINED.finditer(text)), len(text)]
            if text[: starts[0]].strip():
                texts[module].append(text[: starts[0]])
            for start, stop in pairwise(starts):
                match = DEFINED.match(text, start)
                name = f"{module}.{match[1]}" if match else module
                texts[name].append(constants_sorted(text[start:stop]))
        self._texts = {name: "".join(parts) for name, parts in texts.items()}

    def number(self, used: Iterable[str]) -> None:
        """Number classes of one name by their first use: outside of code, in order, then in it."""
        counts = defaultdict[str, int](int)
        queue = [*used, *sorted(self._texts, key=_by_mangle)]
        queue.reverse()
        while queue:
            name = self._defined(queue.pop())
            if name is None or name in self._names:
                continue
            plain = MANGLED.sub("", name)
            self._names[name] = f"{plain}#{counts[plain]}" if counts[plain] else plain
            counts[plain] += 1
            queue += reversed(TOKENS.findall(self._texts[name]))

    def named(self, text: str) -> str:
        """A text of code, a type or a name, with the names of this archive's classes as they are numbered."""
        return TOKENS.sub(lambda found: self._renamed(found[0]), text)

    def texts(self) -> dict[str, str]:
        """The text of each class and function, by its name."""
        return {self._names.get(name, name): self.named(text) for name, text in self._texts.items()}

    def _renamed(self, token: str) -> str:
        name = self._defined(token)
        return token if name is None else self._names[name] + token[len(name) :]

    def _defined(self, token: str) -> str | None:
        """The class or function that a token begins with."""
        if token[:1] in "\"'":
            return None
        end = len(token) if len(token) <= LONGEST else token.rfind(".", 0, LONGEST)
        while end > 0:
            if token[:end] in self._texts:
                return token[:end]
            end = token.rfind(".", 0, end)
        return None


def _by_mangle(name: str) -> tuple[str, list[int]]:
    return MANGLED.sub("", name), [int(number) for number in MANGLED.findall(name)]


# --- in lists

ESCAPE = re.compile(r"\\(?:[\\nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")


def escaped_name(name: str) -> str:
    r"""A name as a list has it.

    >>> print(escaped_name("a\nb\\"))
    a\nb\\
    """
    if name.isprintable() and "\\" not in name:
        return name
    return "".join(c if c.isprintable() and c != "\\" else c.encode("unicode_escape").decode() for c in name)


def unescaped_name(text: str) -> str:
    """The name that a list has as a text."""
    return ESCAPE.sub(lambda escape: escape[0].encode().decode("unicode_escape"), text)
