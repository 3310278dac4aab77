"""URLs that lead to no file end in one sentence that a user understands."""

from __future__ import annotations

import pytest

from archive.base.errors import ArchiveError
from archive.base.remote import Location
from tests.support.commands import run


@pytest.mark.parametrize("url", ["data://", "data://x", "DATA://text/plain;base64,AAAA", "data://?a,b"])
def test_urls_that_hold_bytes_name_no_place(url: str) -> None:
    with pytest.raises(ArchiveError, match=r"no such place: \w+:// names no file$"):
        Location(url)


@pytest.mark.parametrize("command", ["inspect", "verify", "sizes", "digest", "leaks"])
@pytest.mark.parametrize(
    "url",
    ["data://", "data://text/plain;base64,AAAA", "unknown://x", "dir://x", "reference://", "http://[::1"],
)
def test_a_command_ends_in_one_line(command: str, url: str) -> None:
    done = run(command, url)
    text = (done.stderr + done.stdout).decode()
    assert done.returncode == 2
    assert text.count("\n") == 1
    assert url in text
    assert not any(error in text for error in ("IndexError", "AttributeError", "TypeError", "internal"))


def test_a_short_path_is_not_sought_in_other_words() -> None:
    place = Location("memory://e")
    with pytest.raises(OSError, match="cannot be read: ValueError: the letter") as told, place.told():
        raise ValueError("the letter")
    assert "memory://" not in str(told.value.strerror)
