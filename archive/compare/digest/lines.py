r"""Names in the lines of a list of digests: printable, on one line, and read back whatever they hold.

As in lists of ``sha256sum``, a backslash is written twice, and line ends as ``\n`` and ``\r``. So are all
other characters that do not print: ``\u2028``, and bytes that are no UTF-8 as Python has them, ``\udcff``.
"""

from __future__ import annotations

import re

ESCAPE = re.compile(r"\\(?:[\\nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")


def written(name: str) -> str:
    r"""A name as a list has it.

    >>> print(written("a\nb\\"))
    a\nb\\
    """
    if name.isprintable() and "\\" not in name:
        return name
    return "".join(c if c.isprintable() and c != "\\" else _escape(c) for c in name)


def read(text: str) -> str:
    """The name that a list has as a text."""
    return ESCAPE.sub(lambda escape: escape[0].encode().decode("unicode_escape"), text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
