"""Machines are known by what they are called, or by what stands around them; attributes are none."""

from __future__ import annotations

import io
import zipfile

import pytest

from archive import LeakKind, leaks

USER, HOST = LeakKind.USER, LeakKind.HOST


def of_record(text: str) -> set[tuple[LeakKind, str]]:
    """What a zip gives away by a record."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        target.writestr(zipfile.ZipInfo("a/note"), text.encode())
    return {(one.kind, one.text) for one in leaks(file.getvalue()).counted()}


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("worker gpu01.internal.acme.io ready", "gpu01.internal.acme.io"),
        ("connecting to gpu07.acme-corp.com:29500", "gpu07.acme-corp.com:29500"),
        ("at atlas.physics.acme.edu.", "atlas.physics.acme.edu"),
        ("ip-10-0-3-17.eu-west-1.compute.internal", "ip-10-0-3-17.eu-west-1.compute.internal"),
        ("annas-macbook-pro.local", "annas-macbook-pro.local"),
        ("rank 0 at dgx-a100-07:29500", "dgx-a100-07:29500"),
        ("rank 0 on gpu07:2950", "gpu07:2950"),
        ('{"host": "gpu07:29500"}', "gpu07:29500"),
        ("SLURM_NODELIST=gpu[01-04]", "gpu[01-04]"),
        ("runs/Nov12_14-03-22_gpu07-acme/x", "gpu07-acme"),
        ("events.out.tfevents.1699797802.gpu07.acme-x.12345.0", "gpu07.acme-x"),
        ("on DESKTOP-4F2K9QZ", "DESKTOP-4F2K9QZ"),
        ("eth0 00:1A:2B:3C:4D:5E up", "00:1A:2B:3C:4D:5E"),
    ],
)
def test_a_machine_is_named(text: str, host: str) -> None:
    assert of_record(text) == {(HOST, host)}


@pytest.mark.parametrize(
    "text",
    [
        "ssh zqann@gpu07",
        "rsync -a zqann@gpu07:runs/ .",
        "[zqann@gpu07 ~]$ python",
        "zqann@gpu07",
        '{"at": "zqann@gpu07"}',
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI zqann@gpu07",
    ],
)
def test_a_user_at_a_machine_names_both(text: str) -> None:
    assert of_record(text) == {(USER, "zqann"), (HOST, "gpu07")}


def test_a_share_begins_a_word_and_leads_to_a_file() -> None:
    path = "//zqfiles/team/net.py"
    assert of_record(f"at {path}") == {(LeakKind.UNC, path), (HOST, "zqfiles")}
    for text in (
        "x = a//zqfiles/team/net",
        "//torch/csrc/jit",
        "//cdn.acme/x",
        "https://zqfiles/team/net.py",
    ):
        assert LeakKind.UNC not in {kind for kind, _ in of_record(text)}


@pytest.mark.parametrize(
    "text",
    [
        "self.layer1.conv.net, conv1.a.internal.b, torch.nn.functional.conv1d, layer1.0.bn1.weight",
        "model-v1.0.pt, resnet-50.v2.pt, my-net.best.py, 2.1.0-rc1.dev1, numpy-1.26.0.tar.gz",
        "x@w1, y = query@key1.T, (hidden@proj2)",
        "conv1:1024, fc1:25088, layer1:1024, cuda:0, step-5:2000, net.py:1234",
        "free@GLIBC_2.2.5\0memcpy@@GLIBC_2.14\0",
        "12:30:45, 00:11:22:33, aa:bb:cc:dd:ee:ff:00",
        "docs.pytorch.org, download-r2.pytorch.org, www.python.org",
    ],
)
def test_names_of_code_and_files_are_no_machines(text: str) -> None:
    assert {one for one in of_record(text) if one[0] in (HOST, USER, LeakKind.UNC)} == set()


@pytest.mark.parametrize("address", ["zqann@acme.photography", "zqann@acme.engineering", "zqann@uni.zuerich"])
def test_newer_top_domains_are_known_within_a_sentence(address: str) -> None:
    assert of_record(f"mail {address} now") == {(LeakKind.EMAIL, address)}


@pytest.mark.parametrize(
    "text",
    [
        "@author: Ann Leexz",
        "Created by Ann Leexz on Monday",
        ":author: Ann Leexz",
        "author = Ann Leexz",
        "Signed-off-by: Ann Leexz",
        "by the team; maintainer: Ann Leexz, see there",
    ],
)
def test_a_text_is_signed(text: str) -> None:
    assert of_record(text) == {(USER, "Ann Leexz")}


@pytest.mark.parametrize(
    "text", ["created by PyTorch Lightning", "author of the paper", "Author: see below", "by Ann Leexz"]
)
def test_products_and_sentences_sign_nothing(text: str) -> None:
    assert of_record(text) == set()
