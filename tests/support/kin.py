"""Companions of kin: releases of one model. They differ in their ids, their prefixes and a line of source."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import table_over
from archive.companion.build import build_companion
from archive.companion.layout import CompanionLayout
from archive.companion.parse import parse_companion
from archive.normalform.form import NormalForm
from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from archive.companion.contents import Contents

FAMILIES = ("torch-1.9.0_nested.ptl", "torch-2.13.0_lowered-host.ptl", "oracles_plain_two_methods.pt")
"""The archives whose companions are changed: small ones."""
LEAST_PREFIX = 2_000_000_000


def id_of(number: int) -> str:
    """The archive id of a release."""
    return number.to_bytes(16, "big").hex()


@lru_cache(maxsize=1 << 10)
def kin(
    number: int, *, prefix: int | None = None, line: int | None = None, packed: bool = False, family: int = 0
) -> bytes:
    """The companion of a release.

    Args:
        number: of the release; its archive id follows from it.
        prefix: of its unique handles, by default its own.
        line: which line of source its own is, by default one by the number.
        packed: the layout; mapped companions are made faster.
        family: the model that it is a release of.
    """
    contents = _of_family(family)
    strings = contents.strings.copies()
    place = max(range(len(strings)), key=lambda at: len(strings[at]))
    own = str(number if line is None else line).encode()
    strings[place] = own + strings[place][len(own) :]
    table = table_over(memoryview(b"".join(strings)), np.array(list(map(len, strings))), borrowed=False)
    columns = {
        **contents.columns,
        "file.prefix": np.array([LEAST_PREFIX + number if prefix is None else prefix]),
    }
    form = NormalForm(columns, table)
    made = replace(contents, archive_id=number.to_bytes(16, "big"), form=form)
    return build_companion(made, CompanionLayout.PACKED if packed else CompanionLayout.MAPPED)


@cache
def _of_family(family: int) -> Contents:
    data = (FIXTURES / "frozen" / "v2" / "split" / f"{FAMILIES[family]}.ptdbg").read_bytes()
    return parse_companion(memoryview(data))
