"""Redacted compiled models: the same kernels at the same lines, and nothing of what was removed."""

from __future__ import annotations

import io
import json
import platform
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive.failures.explainer import LogExplainer
from archive.formats.elf.parse import parse_object
from archive.formats.elf.source_texts import source_texts
from archive.privacy.redact.compiled import in_place
from tests.support.elf_files import AARCH64, elf_file
from tests.support.exported import COMPILED, PACKAGES, changed_package, member, package, written
from tests.support.sampling import sampled
from tests.support.scanner import everything_in, holds

if TYPE_CHECKING:
    from pathlib import Path

    from archive import Redaction

OBJECTS = ("compiled", "plain", "profiled")
"""Packages with a shared object."""
SOME = sampled(PACKAGES, most=3, by=[OBJECTS.__contains__])
PLANTED = ("/opt/py", "/opt/cache", "models/mixer.py", "self.warm(left)", "F.linear(input")
CUDA = 190
MAPS = ("/opt/py=python", "/opt/cache/=")


@cache
def redacted(name: str, **choices: Any) -> tuple[bytes, bytes, Redaction]:  # noqa: ANN401
    out, companion = io.BytesIO(), io.BytesIO()
    facts = archive.redact(package(name), out, companion, **(choices or {"preset": "publish"}))
    return out.getvalue(), companion.getvalue(), facts


def shared_object(data: bytes) -> bytes:
    with archive.open(data) as opened:
        (name,) = [record for record in opened.records if record.endswith(".so")]
        return bytes(opened.records[name].view())


def names_in(name: str) -> list[str]:
    with archive.open(package(name)) as opened:
        return list(opened.records)


def explained(log: bytes, data: bytes, companion: bytes | None = None) -> bytes:
    with archive.open(data, companion=companion) as opened:
        return b"".join(LogExplainer.of(opened).explain([log]))


@pytest.mark.parametrize("name", SOME)
def test_nothing_is_left_and_the_model_is_the_same(name: str) -> None:
    choices = {} if name in OBJECTS else {"preset": "publish", "maps": MAPS}
    out, companion, facts = redacted(name, **choices)
    assert (facts.remaining, facts.problems, facts.unread, facts.stays) == ((), (), (), ())
    assert [text for text in PLANTED if holds(out, text)] == []
    assert [text for text in PLANTED[:2] if not holds(package(name), text)] == []
    assert archive.digest(out) == archive.digest(package(name)) or name not in OBJECTS
    assert archive.diff(package(name), out).same_model or name not in OBJECTS
    back = io.BytesIO()
    assert archive.join(out, companion, back).exact
    assert back.getvalue() == package(name)


def test_flags_for_the_compiler_stay_unless_they_are_mapped() -> None:
    _, _, facts = redacted("sources", preset="publish", partial=True)
    told = {one.place.rpartition(".wrapper_")[2].partition(",")[0] for one in facts.remaining}
    assert told == {"compile_flags.json", "linker_flags.json"}
    assert {text.rpartition(".wrapper_")[2].partition(":")[0] for text in facts.stays} == told
    out, _, _ = redacted("sources", maps=MAPS)
    assert holds(out, '"python/lib/python3.11/site-packages/torch/include"')


def test_flags_stay_json_whatever_a_map_says() -> None:
    place = r'C:\py "x"'
    out, _, facts = redacted("sources", maps=("/opt/py=" + place, "/opt/cache/="))
    assert facts.is_clean
    with archive.open(out) as opened:
        (name,) = [record for record in opened.records if record.endswith("_compile_flags.json")]
        flags = json.loads(bytes(opened.records[name].view()))
    assert flags["include_dirs"][1] == place + "/lib/python3.11/site-packages/torch/include"
    assert flags["cflags"] == json.loads(member("sources", name))["cflags"]


def test_paths_of_flags_are_those_that_json_means(tmp_path: Path) -> None:
    name = next(one for one in names_in("sources") if one.endswith("_compile_flags.json"))
    flags = json.loads(member("sources", name)) | {"include_dirs": ["/srv/zoë/include"]}
    source = changed_package("sources", {name: json.dumps(flags).encode()}, tmp_path)
    out = io.BytesIO()
    facts = archive.redact(source, out, io.BytesIO(), maps=("/srv/zoë=home", *MAPS))
    assert facts.is_clean
    assert holds(out.getvalue(), "home/include")
    with pytest.raises(archive.ArchiveError, match=r"would be left: (path|folder) /srv/zoë"):
        archive.redact(source, io.BytesIO(), io.BytesIO(), paths="none", maps=MAPS)


def test_code_to_be_compiled_keeps_its_lines() -> None:
    out, _, _ = redacted("sources", preset="publish", maps=MAPS)
    with archive.open(out) as opened:
        (name,) = [record for record in opened.records if record.endswith(".cpp")]
        after = bytes(opened.records[name].view())
    before = member("sources", name)
    assert after != before
    pairs = zip(before.split(b"\n"), after.split(b"\n"), strict=True)
    assert all(old.startswith(b"// ") and new.startswith(b"// ") for old, new in pairs if old != new)
    assert (
        archive.digest(out).parts[f"record/{name}"]
        == archive.digest(package("sources")).parts[f"record/{name}"]
    )


@pytest.mark.parametrize("name", [name for name in SOME if name in OBJECTS])
def test_a_shared_object_differs_in_texts_about_source_alone(name: str) -> None:
    out, _, _ = redacted(name)
    before, after = (memoryview(shared_object(data)) for data in (package(name), out))
    made = parse_object(before)
    assert len(after) == made.needed
    texts = source_texts(before, made)
    assert source_texts(after, parse_object(after)) == texts
    old, new = bytearray(before[64 : made.needed]), bytearray(after[64:])
    for start, end, _ in texts:
        old[start - 64 : end - 64] = new[start - 64 : end - 64] = bytes(end - start)
    assert old == new
    assert len([one for one in texts if one.is_path]) == {"profiled": 16}.get(name, 6)


@pytest.mark.parametrize(
    ("path", "new", "wanted"),
    [
        (b"/srv/ann/net.cpp", b"net.cpp", b".////////net.cpp"),
        (b"/net.cpp", b"net.cpp", b".net.cpp"),
        (b"/srv/a.h", b"include/longer/a.h", b".////a.h"),
        (b"/srv/ann/a.h", b"?", b".//////////?"),
        (b"/a.h", b"a_very_long_name.h", b".//?"),
        (b"/srv/a.h", b"/srv/a.h", b"/srv/a.h"),
    ],
)
def test_a_path_takes_as_many_bytes_as_before(path: bytes, new: bytes, wanted: bytes) -> None:
    assert in_place(path, new) == wanted
    assert len(wanted) == len(path)


def test_logs_are_explained_as_before_with_the_companion() -> None:
    name = "profiled"
    text = (COMPILED / "profiled.right.txt").read_bytes()
    out, companion, _ = redacted(name)
    wanted = explained(text, package(name))
    assert wanted != text
    assert explained(text, out, companion) == wanted
    out, companion, _ = redacted(name, preset="vendor")
    alone = explained(text, out)
    assert b'File "torch/nn/modules/linear.py", line 134, in forward' in alone
    assert b"    b = self.warm(right)\n" in alone


def test_the_packages_own_files_keep_their_names() -> None:
    out, _, _ = redacted("plain", paths="none", text="none")
    found = b"\0".join(everything_in(out))
    assert b"//cr2vcpbnitlla5b6hms25eeehm2xvtjyrbsipg45cpheyglybotf.wrapper.cpp\0" in found
    assert b"/?\0" in found


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="code for x86-64")
def test_it_runs_and_fails_alike_in_pytorch(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", exc_type=ImportError)
    from tests.support.running_exported import failure, outcome  # noqa: PLC0415 (they need PyTorch)

    path, public = written("profiled", tmp_path), tmp_path / "public.pt2"
    public.write_bytes(redacted("profiled")[0])
    assert outcome(public) == outcome(path)
    assert failure(public) == failure(path)
    told = [line for line in capfd.readouterr().err.splitlines() if line.startswith("Error: ")]
    after, before = (line.rpartition(" API call failed at ") for line in told)
    assert after[0] == before[0]
    assert after[2].startswith(".//")
    assert after[2].rpartition("/")[2] == before[2].rpartition("/")[2]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (elf_file(machine=AARCH64).data, "ELF for AArch64"),
        (b"\xcf\xfa\xed\xfe" + bytes(60), "Mach-O"),
        (elf_file().data[:70], "expected"),
    ],
)
def test_objects_that_cannot_be_rewritten_are_told(data: bytes, why: str, tmp_path: Path) -> None:
    """The name of such an object, and each path in it."""
    name = "data/aotinductor/model/x.wrapper.so"
    path = changed_package("sources", {name: data + b"\0/home/ann/net/x.cpp\0"}, tmp_path)
    out, companion = io.BytesIO(), io.BytesIO()
    facts = archive.redact(path, out, companion, paths="basename", maps=MAPS, partial=True)
    assert [one for one in facts.stays if one.startswith(name) and why in one]
    assert [one for one in facts.remaining if str(one).startswith("path /home/ann/net/x.cpp in " + name)]


@pytest.mark.parametrize("ending", sampled(["cubin", "fatbin", "o", "unknown"], most=2))
def test_machine_code_beside_an_object_stays_and_its_paths_are_told(ending: str, tmp_path: Path) -> None:
    """No map changes it either: other lengths would break it."""
    name = f"data/aotinductor/model/x.{ending}"
    path = changed_package(
        "sources", {name: elf_file(machine=CUDA).data + b"\0/home/ann/net/x.cu\0"}, tmp_path
    )
    out = io.BytesIO()
    facts = archive.redact(path, out, io.BytesIO(), paths="basename", maps=MAPS, partial=True)
    assert f"{name}: paths in machine code" in facts.stays
    assert [one for one in facts.remaining if str(one).startswith(f"path /home/ann/net/x.cu in {name}")]
    with archive.open(path) as before, archive.open(out.getvalue()) as after:
        assert before.records[name].view() == after.records[name].view()


def test_a_path_that_is_a_value_stays_and_is_told(tmp_path: Path) -> None:
    path = b"/opt/py/lib/python3.11/site-packages/torch/include/torch/csrc/inductor/cpp_prefix.h"
    (name,) = [one for one in names_in("plain") if one.endswith(".kernel.cpp")]
    code = member("plain", name)
    harmless = b'#include "%b"\n// %b\n' % (path, path)
    for lines, left in ((b'auto path = "%b";\n' % path, 1), (harmless, 0)):
        source = changed_package("plain", {name: lines + code}, tmp_path)
        facts = archive.redact(source, io.BytesIO(), io.BytesIO(), preset="publish", partial=True)
        assert len([one for one in facts.remaining if one.what == "path"]) == left
        assert all(".wrapper.so" in one.place for one in facts.remaining)
