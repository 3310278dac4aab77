"""What is looked for before a pattern is in all that the pattern matches: no path ends elsewhere for it."""

from __future__ import annotations

from itertools import product

from archive.privacy.leaks.paths import ENDS_OF_SETTING, IN_PATH_ONLY, OF_SETTING, PATH_GOES_ON

LONGEST = 5


def texts(letters: bytes) -> list[bytes]:
    """All texts of some letters."""
    return [bytes(text) for size in range(LONGEST + 1) for text in product(letters, repeat=size)]


def test_a_setting_ends_as_it_is_said() -> None:
    matched = [text for text in texts(b"a-:=. \n\0") if OF_SETTING.search(text)]
    assert len(matched) > 1
    assert all(text.endswith(ENDS_OF_SETTING) for text in matched)


def test_what_goes_on_has_what_only_paths_have() -> None:
    matched = [text for text in texts(b"/\\.a1 (") if PATH_GOES_ON.search(text)]
    assert len(matched) > 1
    assert all(any(mark in text for mark in IN_PATH_ONLY) for text in matched)
