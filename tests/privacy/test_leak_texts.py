"""What texts and entries give away as people write them: one finding of its kind, or none at all."""

from __future__ import annotations

import base64
import io
import json
import pathlib
import pickle
import zipfile
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from archive import LeakKind, leaks
from archive.privacy.leaks.vocabulary import HOME_FOLDERS, HomeFolder, home_of, homes_in_name
from tests.support.canaries import with_records
from tests.support.corpus import ORACLES
from tests.support.sampling import crossed

if TYPE_CHECKING:
    from collections.abc import Callable

UNSTABLE = "q8Zr2Lx0Vb7Kp3Wd9Ty5"
"""What keys look like."""


def of_record(data: bytes) -> set[tuple[LeakKind, str]]:
    """What a zip gives away by a record."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        target.writestr(zipfile.ZipInfo("a/note"), data)
    return {(one.kind, one.text) for one in leaks(file.getvalue()).counted()}


@pytest.mark.parametrize("behind", ["", "\n", " and more", ")", ". More.", "/docs", "/docs\n"])
@pytest.mark.parametrize(
    "url", ["https://pytorch.org", "http://docs.python.org", "https://github.com/pytorch"]
)
def test_urls_that_everyone_knows_tell_nothing_wherever_they_end(url: str, behind: str) -> None:
    assert of_record(f"see {url}{behind}\n".encode()) == set()
    assert of_record(f"see {url}{behind}".encode()) == set()


@pytest.mark.parametrize(
    "url", ["https://pytorch.org.corp.com", "https://pytorch.org@corp.com", "https://arxiv.orgs.com"]
)
def test_urls_that_only_begin_so_tell_something(url: str) -> None:
    assert of_record(f"see {url} and".encode()) >= {(LeakKind.URL, url)}


@pytest.mark.parametrize(
    ("text", "path", "user"),
    [
        ("HOME=/home/ann", "/home/ann", "ann"),
        ("/var/home/ann/m.py", "/var/home/ann/m.py", "ann"),
        ("/nfs/home2/ann/m.py", "/nfs/home2/ann/m.py", "ann"),
        ("/scratch/users/ann/m.py", "/scratch/users/ann/m.py", "ann"),
        ("/cygdrive/c/Users/ann/m.py", "/cygdrive/c/Users/ann/m.py", "ann"),
        ("../../home/ann/m.py", "/home/ann/m.py", "ann"),
        ("../../home2/ann/m.py", "/home2/ann/m.py", "ann"),
        ("c:\\users\\ann\\m.py", "c:\\users\\ann\\m.py", "ann"),
        (r"C:\\Users\\ann\\m.py", r"C:\Users\ann\m.py", "ann"),
        ("C:/Users/ann/m.py", "C:/Users/ann/m.py", "ann"),
        (r"C:\Users\ann", r"C:\Users\ann", "ann"),
        ("path=%2Fhome%2Fann%2Fm.py", "/home/ann/m.py", "ann"),
        ("C%3A%5CUsers%5Cann%5Cm.py", r"C:\Users\ann\m.py", "ann"),
        ("File ~/src/team/m.py:12, in forward", "~/src/team/m.py", None),
    ],
)
def test_a_home_is_told_however_it_is_written(text: str, path: str, user: str | None) -> None:
    names = {(LeakKind.USER, user)} if user else set()
    assert of_record(text.encode()) == {(LeakKind.HOME, path)} | names


@pytest.mark.parametrize("text", [b"file:///home/ann/m.py", b"file%3A%2F%2F%2Fhome%2Fann%2Fm.py"])
def test_the_url_of_a_file_tells_the_path_too(text: bytes) -> None:
    assert of_record(text) == {
        (LeakKind.URL, "file:///home/ann/m.py"),
        (LeakKind.HOME, "/home/ann/m.py"),
        (LeakKind.USER, "ann"),
    }


@pytest.mark.parametrize(
    "path", ["/app/train.py", "/src/models.py", "/opt/team", "/mnt/ann/disk", "/data/ann", "/workspace/net"]
)
def test_a_short_path_of_a_machine_is_told(path: str) -> None:
    assert of_record(f"see {path}, please".encode()) == {(LeakKind.PATH, path)}


@pytest.mark.parametrize(
    ("text", "path", "host"),
    [
        (r"\\wsl$\Ubuntu\srv\m.py", r"\\wsl$\Ubuntu\srv\m.py", "wsl$"),
        (r"\\files01\team", r"\\files01\team", "files01"),
        (r"\\\\files01\\team", r"\\files01\team", "files01"),
        (r"\\?\UNC\files01\team\m.py", r"\\?\UNC\files01\team\m.py", "files01"),
    ],
)
def test_a_network_path_is_told_with_its_host(text: str, path: str, host: str) -> None:
    assert of_record(text.encode()) == {(LeakKind.UNC, path), (LeakKind.HOST, host)}


def test_a_home_on_another_system_names_its_user() -> None:
    assert (LeakKind.USER, "ann") in of_record(rb"\\wsl.localhost\Ubuntu\home\ann\m.py")


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        ("mailto:ann@team.example.org", LeakKind.EMAIL, "ann@team.example.org"),
        ("author:ann@team.example.org", LeakKind.EMAIL, "ann@team.example.org"),
        ("ANN@TEAM.COM", LeakKind.EMAIL, "ANN@TEAM.COM"),
        ("ann@team.xyz, ask", LeakKind.EMAIL, "ann@team.xyz"),
        ("<ann@team.in>", LeakKind.EMAIL, "ann@team.in"),
        ("ännchen@team.org", LeakKind.EMAIL, "ännchen@team.org"),
        ("ssh ann@10.1.2.3", LeakKind.EMAIL, "ann@10.1.2.3"),
        ("git@github.com:team/net.git", LeakKind.URL, "git@github.com:team/net.git"),
        ("HTTPS://TEAM.EXAMPLE.COM/x", LeakKind.URL, "HTTPS://TEAM.EXAMPLE.COM/x"),
        ("postgres://ann:pw@db/x", LeakKind.URL, "postgres://ann:pw@db/x"),
        ("smb://files01/team", LeakKind.URL, "smb://files01/team"),
        ("www.team.org/net", LeakKind.URL, "www.team.org/net"),
        ("at 192.168.13.37:8080", LeakKind.HOST, "192.168.13.37:8080"),
        ("S-1-5-21-3623811015-3361044348-30300820-1013", LeakKind.USER, None),
        ("USER=ann", LeakKind.USER, "ann"),
        ("HOSTNAME='box-17'", LeakKind.HOST, "box-17"),
        ("DB_PASSWORD=hunter2zz", LeakKind.KEY, "hunter2zz"),
        ("password = 'hunter2 zz'", None, None),
        ("password = 'hunter2!zz'", LeakKind.KEY, "hunter2!zz"),
        (f"Authorization: Bearer {UNSTABLE}", LeakKind.KEY, UNSTABLE),
        ("ghu_" + "a1B2" * 9, LeakKind.KEY, None),
        ("gsk_" + "a1B2" * 12, LeakKind.KEY, None),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----", LeakKind.KEY, None),
    ],
)
def test_what_names_a_person_a_host_or_a_door(text: str, kind: LeakKind | None, shown: str | None) -> None:
    found = {one for one in of_record(text.encode()) if one[0] not in (LeakKind.COMMENT, LeakKind.SOURCE)}
    if kind is None:
        assert not found
    else:
        assert (kind, shown or text) in found
        assert len(found) == 1 or kind is LeakKind.EMAIL  # an address of a network in one of mail


ENVIRONMENT = {"USER": "ann", "HOSTNAME": "box-17", "WANDB_API_KEY": UNSTABLE, "password": "hunter2"}
"""What programs keep of the machine that they train on."""


@pytest.mark.parametrize("form", ["json", "json in json", "text", "pickle 2", "pickle 4"])
def test_entries_are_told_where_name_and_value_are_strings_of_their_own(form: str) -> None:
    data = {
        "json": json.dumps(ENVIRONMENT).encode(),
        "json in json": json.dumps({"env": json.dumps(ENVIRONMENT)}).encode(),
        "text": repr(ENVIRONMENT).encode(),
        "pickle 2": pickle.dumps(ENVIRONMENT, 2),
        "pickle 4": pickle.dumps(ENVIRONMENT, 4),
    }[form]
    assert of_record(data) == {
        (LeakKind.USER, "ann"),
        (LeakKind.HOST, "box-17"),
        (LeakKind.KEY, UNSTABLE),
        (LeakKind.KEY, "hunter2"),
    }


@pytest.mark.parametrize("protocol", [2, 4])
def test_paths_of_pathlib_are_put_together_again(protocol: int) -> None:
    first = pathlib.PurePosixPath("/home/ann/net.py")
    second = pathlib.PurePosixPath("/home/bob/net.py")
    windows = pathlib.PureWindowsPath(r"C:\Users\eve\net.py")
    found = of_record(pickle.dumps({"first": first, "second": [second], "third": windows}, protocol))
    assert found == {
        (LeakKind.HOME, "/home/ann/net.py"),
        (LeakKind.HOME, "/home/bob/net.py"),
        (LeakKind.HOME, r"C:\Users\eve\net.py"),
        *((LeakKind.USER, name) for name in ("ann", "bob", "eve")),
    }


PARTED = {
    "/home/ann/src": ["/", "home", "ann", "src"],
    "/home/ann": ["", "home", "ann"],
    "/corp/homes2/ann/net.py": ["/", "corp", "homes2", "ann", "net.py"],
    "/home/ann/net.py": ["home", "ann", "net.py"],
    "/nfs/home2/ann": ["/", "nfs", "home2", "ann"],
    "C:\\Users\\ann\\src": ["C:\\", "Users", "ann", "src"],
    "C:\\Users\\ann": ["C:", "Users", "ann"],
    "/home/ann/größe.pt": ("/", "home", "ann", "größe.pt"),
}
"""Paths, and the parts that they may stand in."""
LISTS: dict[str, Callable[[Any], bytes]] = {
    **{f"pickle {one}": lambda parts, one=one: pickle.dumps({"a": 1, "b": parts}, one) for one in range(6)},  # type: ignore[misc]
    "twice in a pickle": lambda parts: pickle.dumps([parts, [*parts]], 2),
    "a pickle in a pickle": lambda parts: pickle.dumps([1, pickle.dumps(parts, 2)], 4),
    "JSON": lambda parts: json.dumps({"a": 1, "b": parts}).encode(),
    "JSON on lines": lambda parts: json.dumps([parts], indent=2, ensure_ascii=False).encode(),
    "JSON in JSON": lambda parts: json.dumps({"a": json.dumps(parts)}).encode(),
    "JSON in a pickle": lambda parts: pickle.dumps({"a": json.dumps(parts)}, 2),
    "base64 of JSON": lambda parts: base64.b64encode(json.dumps(parts).encode()),
    "Python": lambda parts: f"x = {parts!r}\n".encode().replace(b"\\\\", b"\\"),
}


@pytest.mark.parametrize(("path", "form"), crossed(PARTED, LISTS, most=18))
def test_a_path_in_parts_is_a_path(path: str, form: str) -> None:
    found = of_record(LISTS[form](PARTED[path]))
    assert {one for one in found if one[0] is not LeakKind.SOURCE} == {
        (LeakKind.HOME, path),
        (LeakKind.USER, "ann"),
    }


@pytest.mark.parametrize("form", LISTS)
@pytest.mark.parametrize(
    "labels",
    [
        ["home", "away", "draw"],
        ["/", "0", "1", "2", "3", "home"],
        ["", "a", "b", "c", "users"],
        ["car", "home", "ann", "net.py"],
        ["home", *"abcdefghijklmnopqrstuvwxyzabcdefgh", "x.py"],
    ],
)
def test_a_list_of_labels_is_no_path(labels: list[str], form: str) -> None:
    assert of_record(LISTS[form](labels)) == set()


def test_keys_and_values_are_no_parts() -> None:
    for entries in ({"home": "ann", "a": "net.py"}, {"/": "home", "ann": "a"}):
        for form in ("pickle 0", "pickle 2", "pickle 4", "JSON"):
            assert of_record(LISTS[form](entries)) == set()


@pytest.mark.parametrize(
    "text",
    [
        "x@y.mT, self.w@x.to(0), ~mask/2, a[~i]/b, ~/.cache/torch",
        "10.2.89.1090, v10.1.2.3, 1.10.2.3, cuda 10.1.243",
        r"\\text\beta, \\frac{\alpha}, r'\\d\w+', '\\n\\t'",
        "/predict, /v1/models, GET /health",
        '"tokenizer_class": "Team2TokenizerWithALongName"',
        '{"username": null, "password": "password", "USER": "root", "hostname": "localhost"}',
        "def login(user: str, password: str = None, username=args.username)",
        "env://, tcp://{}:{}, 100%2Fs",
        "# inputs\nx: USER_INPUT\n# outputs\ny: USER_OUTPUT\n",
    ],
)
def test_what_only_looks_like_it_is_nothing(text: str) -> None:
    assert {one for one in of_record(text.encode()) if one[0] is not LeakKind.SOURCE} == set()


# --- Entries, prompts, keys and records that tell of people are found; versions and new years are not


MODEL = ORACLES / "plain_unicode.ptl"
KEY_LINES = [
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
    "MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3S",
]
PEM = "\n".join(["-----BEGIN PRIVATE KEY-----", *KEY_LINES, "-----END PRIVATE KEY-----"])


def new(data: bytes, name: str = "note") -> set[tuple[LeakKind, str]]:
    """What a model gives away with a record, and not without."""
    return {(one.kind, one.text) for one in leaks(with_records(MODEL, {name: data})).findings} - old()


@cache
def old() -> set[tuple[LeakKind, str]]:
    return {(one.kind, one.text) for one in leaks(MODEL).findings}


@pytest.mark.parametrize("form", ["json", "pickle 2", "pickle 4", "code"])
@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        *((name, "zqannxz", LeakKind.USER) for name in ("user", "author", "owner", "created_by", "login")),
        ("SLURM_JOB_USER", "zqannxz", LeakKind.USER),
        ("author", "Zqann Leexz", LeakKind.USER),
        ("host", "zqgpuxz07", LeakKind.HOST),
        ("node", "zqgpuxz07", LeakKind.HOST),
        ("secret", "zqhunterxz2", LeakKind.KEY),
        ("client_secret", "zqhunterxz2", LeakKind.KEY),
    ],
)
def test_entries_that_name_people_machines_and_secrets_are_found(
    name: str, value: str, kind: LeakKind, form: str
) -> None:
    data = {
        "json": json.dumps({name: value}).encode(),
        "pickle 2": pickle.dumps({name: value}, 2),
        "pickle 4": pickle.dumps({name: value}, 4),
        "code": f"{name} = '{value}'".encode(),
    }[form]
    assert (kind, value) in new(data)


@pytest.mark.parametrize("text", ["zqannxz@zqnodexz:~/proj$ python", "scp zqannxz@zqnodexz:/data/m.pt ."])
def test_a_prompt_names_a_user_and_a_host(text: str) -> None:
    assert {(LeakKind.USER, "zqannxz"), (LeakKind.HOST, "zqnodexz")} <= new(text.encode())


@pytest.mark.parametrize("data", [PEM.encode(), json.dumps({"pem": PEM}).encode(), pickle.dumps([PEM], 2)])
def test_the_body_of_a_private_key_is_found(data: bytes) -> None:
    assert {line for kind, line in new(data) if kind is LeakKind.KEY} >= set(KEY_LINES)


@pytest.mark.parametrize(
    ("record", "path"),
    [
        ("extra/home/zqannxz/notes.txt", "/home/zqannxz/notes.txt"),
        ("extra/home/zqannxz/my (own) notes.txt", "/home/zqannxz/my (own) notes.txt"),
        ("extra/homes/zqannxz/notes.txt", "/extra/homes/zqannxz/notes.txt"),
        ("extra/users/zqannxz/net.py", "/extra/users/zqannxz/net.py"),
        ("extra/nfs/users/zqannxz/net.py", "/nfs/users/zqannxz/net.py"),
        ("extra/srv/people/zqannxz/net.py", "/srv/people/zqannxz/net.py"),
        ("code/__torch__/home/zqannxz/net.py", "/home/zqannxz/net.py"),
    ],
)
def test_a_record_that_is_called_like_a_path_names_a_home(record: str, path: str) -> None:
    found = new(b"x", record)
    assert {(LeakKind.HOME, path), (LeakKind.USER, "zqannxz")} <= found


@pytest.mark.parametrize(
    "record",
    [
        "code/__torch__/shop/users/zqannxz/net.py",
        "extra/home/zqannxz",
        "extra/users/zqannxz",
        "extra/tree/root/zqannxz/net.py",
    ],
)
def test_a_python_package_or_the_last_name_of_a_record_is_no_home(record: str) -> None:
    assert {kind for kind, _ in new(b"x", record)} <= {LeakKind.EXTRA, LeakKind.GENERATED, LeakKind.CLASS}


def test_a_record_in_two_homes_names_both() -> None:
    found = new(b"x", "extra/home/zqannxz/backup/home/zqbobxz/notes.txt")
    assert {(LeakKind.USER, "zqannxz"), (LeakKind.USER, "zqbobxz")} <= found


def test_a_long_name_of_a_record_costs_little() -> None:
    name = b"home/zqannxz/" * 5_000
    assert sum(map(len, homes_in_name(name, is_module=False))) <= 4 * (len(name) + 1)


@pytest.mark.parametrize("folder", HOME_FOLDERS, ids=lambda folder: folder.name.decode())
@pytest.mark.parametrize("digit", ["", "2"])
def test_each_folder_of_homes_counts_in_texts_lists_and_names_alike(folder: HomeFolder, digit: str) -> None:
    name = folder.name.decode() + digit
    is_folder = folder.is_numbered or not digit
    for way, counts in (("", folder.at_root), ("nfs/", folder.in_shared), ("corp/", False)):
        path = f"/{way}{name}/zqannxz"
        assert (home_of(path.encode()) is not None) == (counts and is_folder)
        longer = f"{path}/net.py"
        is_home = is_folder and (bool(way) or counts)
        assert (home_of(longer.encode()) is not None) == is_home
        parts = ["", *longer.split("/")[1:]]
        for data in (longer.encode(), json.dumps(parts).encode(), pickle.dumps(parts, 2)):
            assert ((LeakKind.HOME, longer) in new(data)) == is_home
    for text in (f"../../{name}/zqannxz/net.py".encode(), json.dumps([name, "zqannxz", "net.py"]).encode()):
        assert ((LeakKind.HOME, f"/{name}/zqannxz/net.py") in new(text)) == (folder.at_root and is_folder)


@pytest.mark.parametrize(
    "data",
    [
        b'version = "10.1.2.3"',
        b'{"cuda": "10.1.2.3"}',
        pickle.dumps({"cudnn_version": "10.1.2.3"}, 2),
        b"nvidia-curand-cu12==10.3.9.90",
    ],
)
def test_a_version_is_no_address(data: bytes) -> None:
    assert not [one for one in new(data) if one[0] is LeakKind.HOST]


@pytest.mark.parametrize("data", [b"master at 10.1.2.3", b'{"addr": "10.1.2.3"}', b"tcp://10.1.2.3:29500"])
def test_an_address_of_a_private_network_is_one(data: bytes) -> None:
    assert [one for one in new(data) if "10.1.2.3" in one[1]]


def test_midnight_of_a_new_year_is_no_date() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr(zipfile.ZipInfo("a.npy", (2000, 1, 1, 0, 0, 0)), np.arange(3).tobytes())
        made.writestr(zipfile.ZipInfo("b.npy", (2024, 5, 6, 7, 8, 10)), np.arange(3).tobytes())
    assert {text for kind, text in new(out.getvalue(), "x.npz") if kind is LeakKind.TIME} == {
        "2024-05-06 07:08:10"
    }
