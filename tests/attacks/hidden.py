"""Secrets that are hidden in a record that stays: ``redact --for publish`` must not say that nothing is left.

They are no code, so there is no file for loaders and scanners.
"""

from __future__ import annotations

from tests.attacks.attack import Attack
from tests.attacks.records import ONE_LINE
from tests.attacks.zips import entries_of, entry, zipped
from tests.support.encodings import ENCODINGS

SECRETS = ("/home/zqannxz/net/model.py", "ghp_zq" + "a1B2" * 9)
COMMANDS = tuple(
    command.format(number)
    for number in range(len(SECRETS))
    for command in ("leaks {0}.bin", "redact {0}.bin -o {0}.out -c {0}.ptdbg --for publish")
)
WAYS = (
    *("pickle 0", "pickle 1", "pickle 1 in JSON", "utf-32-le", "utf-32-be", "percent", "percent twice"),
    *("hexadecimal escapes", "octal escapes", "escapes of Python", "numbers of HTML", "base85", "Ascii85"),
)


def _hidden(way: str) -> dict[str, bytes]:
    return {
        f"{number}.bin": zipped(*entries_of(ONE_LINE), entry("m/note", ENCODINGS[way](secret)))
        for number, secret in enumerate(SECRETS)
    }


ATTACKS = {
    f"hidden: {way}": Attack(
        f"A path and a key in `{way}`, in a record that a redaction keeps: found, and no success.",
        lambda way=way: _hidden(way),  # type: ignore[misc]
        COMMANDS,
        statuses=frozenset({1}),
    )
    for way in WAYS
}
