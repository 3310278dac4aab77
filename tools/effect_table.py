"""The table of cases in ``docs/explanation/effects.md``: of each kind of state, how many end equal.

python -m tools.effect_table

A case says how it ends, and ``tests/effects/test_cases.py`` runs it.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from typing import TYPE_CHECKING

from tests.effects.effect_cases import FOLDER, KINDS, cases_of
from tools.pages import ROOT

if TYPE_CHECKING:
    from tests.effects.effect_cases import Case

PAGE = ROOT / "docs" / "explanation" / "effects.md"
BEGIN, END = "<!-- cases -->\n", "<!-- end of cases -->\n"
TABLE = re.compile(f"(?<={re.escape(BEGIN)}).*?(?={re.escape(END)})", re.DOTALL)


def table() -> str:
    """The table, in Markdown, after a sentence with the sums."""
    found = {kind: list(cases_of(kind).values()) for kind in KINDS}
    every = [case for cases in found.values() for case in cases]
    upstream = [case for case in every if case.upstream]
    lines = [["kind", "cases", "equal", "refused", "because"], ["---", "---:", "---:", "---:", "---"]]
    lines += [_line(kind, cases) for kind, cases in found.items()]
    rows = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"{_sums(every)} Of them {_sums(upstream, 'are after a test of PyTorch: ')}\n\n{rows}"


def rewritten(text: str) -> str:
    """The page with a true table."""
    return TABLE.sub(lambda _: table(), text)


def _sums(cases: list[Case], words: str = "cases: ") -> str:
    refused = sum(bool(case.says) for case in cases)
    return f"{len(cases)} {words}{len(cases) - refused} equal, {refused} refused."


def _line(kind: str, cases: list[Case]) -> list[str]:
    reasons = Counter(_reason(kind, case) for case in cases if case.says)
    counts = "; ".join(f"{reason} ({number})" for reason, number in reasons.most_common())
    refused = sum(reasons.values())
    return [KINDS[kind], str(len(cases)), str(len(cases) - refused), str(refused), counts]


def _reason(kind: str, case: Case) -> str:
    """What refuses a case, without names of its classes and numbers of calls."""
    text = re.sub(r"^call \d+: ", "", case.says)
    if "expected " in text:
        return "a guard of a later call"
    for name, one in vars(importlib.import_module(f"{FOLDER}.{kind}")).items():
        if isinstance(one, type):
            text = re.sub(rf"\b{name}\b", "…", text)
    return re.split(r"[:;]", text)[0]


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
