"""Entries name people, hosts and keys however name and value are stored, and whoever the people are."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from archive import LeakKind, leaks
from tests.support.sampling import crossed

if TYPE_CHECKING:
    from collections.abc import Callable


def of_record(data: bytes) -> set[tuple[LeakKind, str]]:
    """What a zip gives away by a record."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        target.writestr(zipfile.ZipInfo("a/note"), data)
    return {(one.kind, one.text) for one in leaks(file.getvalue()).counted()}


def users(data: bytes) -> set[str]:
    return {text for kind, text in of_record(data) if kind is LeakKind.USER}


FIRST = {"author": "Ann Leexz", "user": "zqannxz", "password": "hunter2!a", "host": "box-17"}
SECOND = {"author": "Bob Rayxz", "user": "zqbobxz", "password": "hunter2!b", "host": "box-18"}
FORMS: dict[str, Callable[[Any], bytes]] = {
    **{f"pickle {one}": lambda value, one=one: pickle.dumps(value, one) for one in range(6)},  # type: ignore[misc]
    "a pickle in a pickle": lambda value: pickle.dumps([1, pickle.dumps(value, 2)], 4),
    "JSON": lambda value: json.dumps(value).encode(),
    "JSON in JSON": lambda value: json.dumps({"a": json.dumps(value)}).encode(),
}
"""Ways to store entries. From protocol 0 on, pickles remember each string, and ask for it by its number."""


@pytest.mark.parametrize("form", FORMS)
def test_each_value_is_read_though_its_name_was_stored_before(form: str) -> None:
    found = of_record(FORMS[form]([FIRST, SECOND, {"a": FIRST["user"]}]))
    assert {text for _, text in found} == {*FIRST.values(), *SECOND.values()}


def test_a_value_that_was_stored_before_its_name_is_read() -> None:
    name = "zqannxz"
    for protocol in range(6):
        assert users(pickle.dumps([name, {"user": name}], protocol)) == {name}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("called", ["Host", "Owner", "User"])
def test_a_module_beside_its_class_is_nobody(form: str, called: str) -> None:
    pair = f"__torch__.net.{called}", "encoder7"
    for value in (pair, dict([pair])):
        assert of_record(FORMS[form](value)) == set()
        assert of_record(FORMS[form](value).replace(b"__torch__.", b"__other__.")) or value is pair


@pytest.mark.parametrize("protocol", range(6))
def test_texts_of_a_list_are_no_entries_in_a_pickle(protocol: int) -> None:
    columns = ["user", "zqannxz", "host", "gpuxz", "author", "title"]
    assert of_record(pickle.dumps({"columns": columns, "b": [columns]}, protocol)) == set()


PEOPLE = [
    "zqannxz",
    "Ann Leexz",
    "ann leexz",
    "Jürgen Müllerxz",
    "Ägid Ößxz",
    "Vincent van Goghxz",
    "Conan O'Brienxz",
    "Jean-Luc D. Picardxz",
    "van der Leyenxz",
    "王小明",
]
CALLED = ["author", "Author", "AUTHOR", "authors", "__author__", "created_by", "createdBy", "general.author"]
STORED: dict[str, Callable[[str, Any], bytes]] = {
    "JSON": lambda name, value: json.dumps({"a": 1, name: value}).encode(),
    "JSON in UTF-8": lambda name, value: json.dumps({name: value}, ensure_ascii=False).encode(),
    "pickle": lambda name, value: pickle.dumps({name: value}, 2),
    "Python": lambda name, value: f'{name} = "{value}"\n'.encode(),
    "YAML": lambda name, value: f"license: mit\n{name}: {value}\n".encode(),
    "INI": lambda name, value: f"[project]\n{name} = {value}\n".encode(),
}


@pytest.mark.parametrize(("called", "form"), crossed(CALLED, STORED, most=48))
def test_one_vocabulary_of_people_counts_in_every_form(called: str, form: str) -> None:
    for person in PEOPLE:
        assert users(STORED[form](called, person)) == {person}


@pytest.mark.parametrize(
    "value", ["Ann Leexz, Bob van Rayxz", "Ann Leexz and Bob van Rayxz", "Ann Leexz; Bob van Rayxz"]
)
def test_a_value_may_name_several(value: str) -> None:
    both = {"Ann Leexz", "Bob van Rayxz"}
    for form in STORED.values():
        assert users(form("authors", value)) == both
    for name in ("JSON", "pickle"):
        assert users(STORED[name]("authors", sorted(both))) == both


def test_items_of_yaml_are_those_of_the_name_before() -> None:
    assert users(b"license: mit\nauthors:\n- Ann Leexz\n- Bob Rayxz\n") == {"Ann Leexz", "Bob Rayxz"}


def test_an_account_may_have_a_domain() -> None:
    for form in ("JSON", "pickle", "INI"):
        found = of_record(STORED[form]("user", "CORPXZ\\zqannxz"))
        assert found == {(LeakKind.USER, "zqannxz"), (LeakKind.HOST, "CORPXZ")}


@pytest.mark.parametrize(
    "text",
    [
        "owner: Module\nuser = find_user(x)\n",
        "def f(x):\n    user = args\n    host = node\n",
        "class A:\n    user: Node\n    owner: Scope\n",
        "user: what is it\nassistant: a model that answers\nno entry\n",
        "author: unknown\nowner: n/a\nuser: user\n",
        "            owner = holder\n",
    ],
)
def test_lines_of_code_and_of_talk_name_nobody(text: str) -> None:
    assert users(text.encode()) == set()
    assert users(pickle.dumps([text], 2)) == set()


HOMES = "/home"


@pytest.mark.parametrize(
    ("path", "user"),
    [
        (f"{HOMES}/users/zqannxz/net.py", "zqannxz"),
        ("/global/homes/q/zqannxz/net.py", "zqannxz"),
        ("/nfs/home/z/zqannxz/net.py", "zqannxz"),
        ("/global/homes/zqannxz/net.py", "zqannxz"),
        (f"{HOMES}/users/net.py", "users"),
    ],
)
def test_a_folder_of_a_letter_or_of_users_is_nobody(path: str, user: str) -> None:
    assert users(path.encode()) == {user}


def of_gguf(key: str, values: list[str]) -> bytes:
    """A key and a text, or a list of texts, as GGUF stores them."""

    def text(one: str) -> bytes:
        return len(one.encode()).to_bytes(8, "little") + one.encode()

    string, array = (number.to_bytes(4, "little") for number in (8, 9))
    head = text(key) + (string if len(values) == 1 else array + string + len(values).to_bytes(8, "little"))
    return b"GGUF\3\0\0\0" + bytes(16) + head + b"".join(map(text, values)) + text("general.type") + string


@pytest.mark.parametrize(
    "key", ["general.author", "general.authors", "general.base_model.0.author", "made.owner"]
)
@pytest.mark.parametrize("people", [["Ann Leexz"], ["Jürgen Müllerxz", "Bob van Rayxz"]])
def test_keys_of_gguf_name_people(key: str, people: list[str]) -> None:
    assert users(of_gguf(key, people)) == set(people)


@pytest.mark.parametrize("domain", ["acme.bank", "team.engineering", "uni.zuerich", "x.y.photography"])
@pytest.mark.parametrize("around", ["{}", "<{}>", "Ann <{}>, Bob", "mail: '{}'", 'mailto:{}"'])
def test_an_address_may_have_any_top_domain(domain: str, around: str) -> None:
    address = f"zqannxz@{domain}"
    assert (LeakKind.EMAIL, address) in of_record(around.format(address).encode())


@pytest.mark.parametrize(
    "text", ["y = x@self.weight", "(a@b.weight)", "h = hidden@w.transpose\n", "u@v.bias"]
)
def test_a_product_of_matrices_is_no_address(text: str) -> None:
    assert not [one for one in of_record(text.encode()) if one[0] is LeakKind.EMAIL]


TOKENS = [
    "dapi" + "0a1b2c3d" * 4,
    "hvs." + "CAESI" + "a1B2" * 8,
    "glrt-" + "a1B2" * 5,
    "xai-" + "a1B2" * 20,
    "dop_v1_" + "0a1b" * 16,
]


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("form", FORMS)
def test_tokens_are_known_by_what_their_issuer_begins_them_with(token: str, form: str) -> None:
    assert (LeakKind.KEY, token) in of_record(FORMS[form]({"a": token}))


@pytest.mark.parametrize("name", ["MASTER_ADDR", "SLURM_NODELIST", "HOSTNAME"])
@pytest.mark.parametrize("form", ["JSON", "pickle", "Python"])
def test_variables_of_clusters_name_hosts(name: str, form: str) -> None:
    assert of_record(STORED[form](name, "zqgpuxz07")) == {(LeakKind.HOST, "zqgpuxz07")}
    assert of_record(STORED[form](name, "127.0.0.1")) == set()


def test_a_home_may_be_that_of_a_user_after_a_tilde() -> None:
    found = of_record(b"at ~zqannxz/src/net.py, please")
    assert found == {(LeakKind.HOME, "~zqannxz/src/net.py"), (LeakKind.USER, "zqannxz")}
    for text in (b"a = ~mask/2/x", b"x[~is_big/n]", b"https://www.zq.edu/~zqann/net.py"):
        assert not [one for one in of_record(text) if one[0] is LeakKind.HOME]
