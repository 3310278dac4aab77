"""The path of a byte of JSON leads to the value that the byte is in."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from archive.base.limits import unbounded
from archive.privacy.pieces.piece import JsonPlaces
from archive.privacy.pieces.strings import PieceStrings
from tests.support.sampling import examples

Json = dict[str, "Json"] | list["Json"] | str | int | None
KEYS = st.text('ab{}[],:"\\ é', min_size=1, max_size=4)


def values(depth: int) -> st.SearchStrategy[Json]:
    leaves = st.integers() | st.none() | KEYS
    if not depth:
        return leaves
    inner = values(depth - 1)
    return leaves | st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)


def paths(value: Json, path: str) -> list[tuple[str, str]]:
    """The marks in a value, each with its path."""
    if isinstance(value, dict):
        return [one for key, some in value.items() for one in paths(some, f"{path}.{json.dumps(key)[1:-1]}")]
    if isinstance(value, list):
        return [one for at, some in enumerate(value) for one in paths(some, f"{path}[{at}]")]
    return [(str(value), path.removeprefix("."))] if str(value).startswith("mark") else []


@settings(max_examples=examples(40))
@given(st.data())
def test_a_path_leads_to_its_value(data: st.DataObject) -> None:
    number = iter(range(1000))

    def marked(value: Json) -> Json:
        if isinstance(value, dict):
            return {key: marked(some) for key, some in value.items()}
        return [marked(some) for some in value] if isinstance(value, list) else f"mark{next(number)}."

    value = [marked(data.draw(values(3))), {"x": marked(data.draw(values(3)))}]
    text = json.dumps(value, indent=data.draw(st.sampled_from([None, 1]))).encode()
    assert PieceStrings(text, unbounded()).json == text
    places = JsonPlaces(text, unbounded())
    found = {mark: places.path(text.index(mark.encode())) for mark, _ in paths(value, "")}
    assert found == dict(paths(value, ""))


def test_a_byte_in_a_key_or_behind_a_value_is_the_objects() -> None:
    text = b'{"a": {"key": [1, 2], "b": 3}}'
    places = JsonPlaces(text, unbounded())
    assert places.path(text.index(b"key")) == "a"
    assert places.path(text.index(b"2")) == "a.key[1]"
    assert places.path(text.index(b'"b"')) == "a"
    assert places.path(0) == ""


@given(st.text('[]{}:,"\\\\ a', max_size=40))
def test_broken_json_has_places_all_the_same(text: str) -> None:
    data = text.encode()
    places = JsonPlaces(data, unbounded())
    assert all(isinstance(places.path(at), str) for at in range(len(data)))
