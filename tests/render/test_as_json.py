"""Facts as JSON: what is written can be read back, and no two texts are written alike."""

from __future__ import annotations

import io
import json
import re
import zipfile
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from archive.base.quick_dataclass import dataclass
from archive.base.strings import HeldStrings, StringView, Text
from archive.batches.line_file import built
from archive.render.as_json import as_json
from tests.support.commands import run
from tests.support.documents import file_of

if TYPE_CHECKING:
    from pathlib import Path

ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4}))")
PARTS = ("\\", "x", "ff", "5c", "u", "dcff", "d800", "\udcff", "\ud800", "a", "é", "\n", "\x1b", '"')
TEXTS = st.one_of(st.text(st.characters()), st.lists(st.sampled_from(PARTS), max_size=9).map("".join))


def read_back(text: str) -> str:
    """The text that was meant, by the rule that the page of statuses gives."""

    def meant(one: re.Match[str]) -> str:
        if one[2] is not None:
            return chr(int(one[2], 16))
        return "\\" if one[1] == "5c" else chr(0xDC00 + int(one[1], 16))

    return ESCAPE.sub(meant, text)


@given(st.lists(TEXTS, max_size=5, unique=True))
def test_every_text_is_read_back(texts: list[str]) -> None:
    written = json.loads(as_json({text: [text] for text in texts}))
    assert {read_back(key): [read_back(one) for one in some] for key, some in written.items()} == {
        text: [text] for text in texts
    }
    names = [json.loads(built(text, {}))["input"] for text in texts]
    assert [read_back(name) for name in names] == texts


@given(st.lists(st.one_of(st.binary(max_size=9), TEXTS.map(lambda one: one.encode(errors="replace")))))
def test_bytes_and_views_of_them_are_read_back(texts: list[bytes]) -> None:
    held = HeldStrings(texts)
    views = [StringView(held, at) for at in range(len(texts))]
    whole = Text(held, np.arange(len(texts)))
    facts = json.loads(as_json([texts, views, [whole]]))
    read = [[read_back(one).encode(errors="surrogateescape") for one in some] for some in facts]
    assert read == [texts, texts, [b"".join(texts)]]


@dataclass(frozen=True, slots=True)
class Listed:
    """A class that lists its keys."""

    kept: int
    data: bytes
    empty: str
    hidden: int

    _json_ = ("text=data", "kept", "empty?")


@given(st.integers(), st.binary(max_size=5), st.text(max_size=2))
def test_a_class_that_lists_its_keys_has_just_these(kept: int, data: bytes, empty: str) -> None:
    written = json.loads(as_json(Listed(kept, data, empty, 1)))
    assert list(written) == ["text", "kept", *["empty"] * bool(empty)]
    assert (written["kept"], read_back(written["text"]).encode(errors="surrogateescape")) == (kept, data)


def test_two_records_have_two_names_in_json(tmp_path: Path) -> None:
    names = ["a\udcff", r"a\xff", r"a\x5cxff", r"a\b"]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        for name in names:
            target.writestr(name.replace("\udcff", "#"), b"mail %d@zqcorpxz.com" % len(name))
    (tmp_path / "m.zip").write_bytes(out.getvalue().replace(b"a#", b"a\xff"))
    facts = file_of(run("leaks", tmp_path / "m.zip", "--json", "--kind", "e-mail address").stdout)
    found = {place["record"] for one in facts["findings"] for place in one["places"]}
    assert {read_back(name) for name in found} == set(names)
