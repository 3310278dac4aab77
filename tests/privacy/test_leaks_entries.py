"""Entries, prompts, keys and records that tell of people are found; versions and new years are not."""

from __future__ import annotations

import io
import json
import pickle
import zipfile

import numpy as np
import pytest

from archive import LeakKind, leaks
from tests.support.canaries import with_records
from tests.support.corpus import ORACLES

MODEL = ORACLES / "plain_stack.ptl"
KEY_LINES = [
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
    "MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3S",
]
PEM = "\n".join(["-----BEGIN PRIVATE KEY-----", *KEY_LINES, "-----END PRIVATE KEY-----"])


def new(data: bytes, name: str = "note") -> set[tuple[LeakKind, str]]:
    """What a model gives away with a record, and not without."""
    old = {(one.kind, one.text) for one in leaks(MODEL).findings}
    return {(one.kind, one.text) for one in leaks(with_records(MODEL, {name: data})).findings} - old


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


def test_a_record_that_is_called_like_a_path_names_a_home() -> None:
    found = new(b"x", "extra/home/zqannxz/notes.txt")
    assert {(LeakKind.HOME, "/home/zqannxz/notes.txt"), (LeakKind.USER, "zqannxz")} <= found


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
