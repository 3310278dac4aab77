"""``redact --replace`` of what ``torch.save`` wrote: other texts in its pickle, and all else as it was.

The oracle is PyTorch: it saves the same values with the other texts, and the bytes of the file are the same.
"""

from __future__ import annotations

import base64
import io
import json
import pickletools
import re
import zipfile
from argparse import Namespace
from collections import OrderedDict
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, BinaryIO
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.serialization import config as serialization

import archive
from archive import CheckpointRedaction
from archive.base.errors import ArchiveError, ImpossibleError, LimitError, one_line
from archive.container.container import Container
from archive.container.write import alignment_of, member_from, new_member, write_archive
from tests.support.commands import run
from tests.support.corpus import KINDS
from tests.support.sampling import examples, sampled
from tests.support.zips import written

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from archive.container.write import Member

pytestmark = pytest.mark.torch
PROTOCOLS = range(2, 6)
VALUE, TEXT = "annabel", "<someone>"
PAIR = f"{VALUE}={TEXT}"
REPLACEABLE = {
    "state_dict.pt": {"fc.bias", "fc.weight", "scale"},
    "checkpoint.pt": {"dampening", "foreach"},
    "epoch1.pt": {"0.bias"},
}
PYTORCHS = {"cpu", "storage", "_metadata"}
"""Words of PyTorch's own, without which no file is loaded."""
FIXTURES = sorted(KINDS.parent.glob("*/epoch*.pt")) + [
    KINDS / f"{name}.pt" for name in ("checkpoint", "module", "object", "state_dict", "tensor")
]


def saved(value: object, protocol: int = 2) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, pickle_protocol=protocol)
    return file.getvalue()


def redacted(data: bytes, *pairs: str, partial: bool = False) -> tuple[bytes, CheckpointRedaction]:
    out = io.BytesIO()
    result = archive.redact_checkpoint(data, out, replace=pairs or [PAIR], partial=partial)
    return out.getvalue(), result


def loaded(data: bytes, *, weights_only: bool = False) -> Any:  # noqa: ANN401 (whatever was saved)
    return torch.load(io.BytesIO(data), weights_only=weights_only)


class Replaced:
    """A value with the other text; what is one object in it stays one, as the memo of a pickle has it."""

    def __init__(self) -> None:
        self.made: dict[int, Any] = {}

    def of(self, value: Any) -> Any:  # noqa: ANN401 (the same)
        if id(value) not in self.made:
            self.made[id(value)] = self._of(value)
        return self.made[id(value)]

    def _of(self, value: Any) -> Any:  # noqa: ANN401 (the same)
        if isinstance(value, str):
            return value.replace(VALUE, TEXT)
        if isinstance(value, list | tuple):
            return type(value)([self.of(item) for item in value])
        if isinstance(value, dict):
            return type(value)([(self.of(key), self.of(item)) for key, item in value.items()])
        return value


def same(left: Any, right: Any) -> bool:  # noqa: ANN401 (the same)
    """Whether two values are equal; numbers that are none, too."""
    if isinstance(left, torch.Tensor):
        return bool(left.dtype == right.dtype) and torch.equal(left, right)
    if isinstance(left, list | tuple):
        return (
            type(left) is type(right)
            and len(left) == len(right)
            and all(same(*pair) for pair in zip(left, right, strict=True))
        )
    if isinstance(left, dict):
        return type(left) is type(right) and same(list(left.items()), list(right.items()))
    return repr(left) == repr(right)


BASE = torch.arange(12, dtype=torch.float32)
PARTS = st.lists(st.sampled_from([VALUE, "ann", "\n", "é", "=\\", '"']), max_size=4)
TEXTS = PARTS.map("".join)
KEYS = st.just(VALUE) | TEXTS.filter(lambda text: VALUE not in text) | st.integers(0, 9)
TENSORS = st.sampled_from([BASE, BASE[:3], BASE.reshape(3, 4).t(), torch.ones(2, dtype=torch.int8)])
LEAVES = TEXTS | TENSORS | st.integers() | st.floats() | st.none() | st.booleans()
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.dictionaries(KEYS, inner, max_size=4).map(OrderedDict)
    ),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4), st.sampled_from(PROTOCOLS))
@settings(max_examples=examples(150), deadline=None)
def test_the_file_is_the_one_that_pytorch_writes_of_the_other_texts(value: object, protocol: int) -> None:
    data = saved(value, protocol)
    out, result = redacted(data)
    expected = Replaced().of(value)
    assert same(loaded(out), expected)
    if protocol == 2:
        assert same(loaded(out, weights_only=True), expected)
    assert out == saved(expected, protocol)
    assert isinstance(result, CheckpointRedaction)
    assert bool(result.changed) == (out != data)
    assert VALUE.encode() not in out


@pytest.mark.parametrize("file", FIXTURES, ids=lambda file: file.name)
def test_a_text_that_is_replaced_and_put_back_gives_the_file_to_the_byte(file: Path) -> None:
    data = file.read_bytes()
    with zipfile.ZipFile(file) as records:
        pickled = records.read(next(name for name in records.namelist() if name.endswith("/data.pkl")))
    texts = {text for op, text, _ in pickletools.genops(pickled) if op.name == "BINUNICODE" and text}
    named = texts & (REPLACEABLE.get(file.name, set()) | PYTORCHS)
    replaceable = set()
    for text in sorted(named.union(sampled(sorted(texts - named)))):
        out, result = redacted(data, f"{text}=<>", partial=True)
        if result.is_clean:
            replaceable.add(text)
            assert redacted(out, f"<>={text}", partial=True)[0] == data
    assert replaceable >= REPLACEABLE.get(file.name, set())
    assert not replaceable & PYTORCHS


def test_a_checkpoint_with_optimiser_and_config_trains_on() -> None:
    model = torch.nn.Linear(3, 2)
    optimiser = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimiser.step()
    config = Namespace(data=f"/home/{VALUE}/data", epochs=3)
    state = {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "args": config, VALUE: [VALUE]}
    out, result = redacted(saved(state))
    assert result.sought["text"] == 1
    after = loaded(out)
    assert after["args"] == Namespace(data=f"/home/{TEXT}/data", epochs=3)
    assert after[TEXT] == [TEXT]
    assert after["model"]._metadata == state["model"]._metadata
    model.load_state_dict(after["model"])
    optimiser.load_state_dict(after["optimiser"])
    with pytest.raises(ImpossibleError, match="in the state of"):
        redacted(saved(torch.nn.Conv2d(1, 1, 1)), "zeros=z")


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        ("cpu=gpu", r"text cpu in data\.pkl, byte \d+: part of a storage's id"),
        ("storage=x", r"text storage in data\.pkl, byte \d+: part of a storage's id"),
        ("Float=x", r"text Float in data\.pkl, byte \d+: the name of a class or function"),
        ("OrderedDict=x", r"text OrderedDict in data\.pkl, byte \d+: the name of a class or function"),
        ("_metadata=x", r"text _metadata in data\.pkl, byte \d+: the name of an attribute"),
        ("weigh=x", r"text weigh in data\.pkl, byte \d+: in the key 'weight', which is replaced only as a"),
        ("0=7", r"text 0 in data\.pkl, byte \d+: part of a storage's id"),
        ("secret=x", r"text secret in data\.pkl, byte \d+: (in bytes|an argument of _codecs\.encode)"),
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_needed_is_refused_with_its_place_and_nothing_is_written(
    pair: str, why: str, protocol: int, tmp_path: Path
) -> None:
    file, out = tmp_path / "model.pt", tmp_path / "out.pt"
    file.write_bytes(saved({"model": torch.nn.Linear(1, 1).state_dict(), "key": b"a secret"}, protocol))
    with pytest.raises(ImpossibleError, match=f"would be left: {why}"):
        archive.redact_checkpoint(file, out, replace=[pair])
    assert not out.exists()
    result = archive.redact_checkpoint(file, out, replace=[pair], partial=True)
    assert not result.is_clean
    assert same(loaded(out.read_bytes()), loaded(file.read_bytes()))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("value", "path"),
    [
        (PurePosixPath("/mnt/scratch/ann/net.py"), "/mnt/scratch/ann/net.py"),
        ([PurePosixPath("data/of/ann/net.py")], "data/of/ann/net.py"),
        (PureWindowsPath(r"C:\data\ann\net.py"), r"C:\data\ann\net.py"),
        (["/", "home", "ann", "net.py"], "/home/ann/net.py"),
        (("C:", "Users", "ann", "net.py"), r"C:\Users\ann\net.py"),
        (json.dumps(["/", "home", "ann", "net.py"]), "/home/ann/net.py"),
    ],
    ids=str,
)
def test_a_path_that_stands_in_parts_is_refused_by_each_text_that_it_has(
    value: object, path: str, protocol: int
) -> None:
    data = saved({"of": value}, protocol)
    for text in {path[begin:] for begin in range(len(path) - 8)}:
        with pytest.raises(ImpossibleError, match=rf"left: text {re.escape(one_line(text))} in data"):
            redacted(data, f"{text}=x")
    result = redacted(data, f"{path}s=x")[1]
    assert isinstance(result, CheckpointRedaction)
    assert result.absent == (f"{path}s",)


def test_a_text_that_stays_counts_once_wherever_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "model.pt"
    torch.save({"berenike.a": 0, "berenike.b": 0, "by": VALUE}, file)
    words = [word for value in ("berenike", VALUE, "0") for word in ("--replace", f"{value}=x")]
    done = run("redact", file, "-o", tmp_path / "out.pt", *words, "--partial", "--json")
    (facts,) = json.loads(done.stdout)["files"]
    assert (
        sum(one["text"] == "berenike" and one["place"].startswith("data.pkl") for one in facts["remaining"])
        == 2
    )
    assert (facts["sought"]["text"], facts["found"]) == (2, {"text": 1})
    done = run("redact", file, "-o", tmp_path / "other.pt", *words, "--partial")
    assert b"Removed 1 text; 1 of 2 texts left, in " in done.stdout


def test_what_stands_elsewhere_than_in_the_pickle_is_left(tmp_path: Path) -> None:
    file, out = tmp_path / f"{VALUE}.pt", tmp_path / "out.pt"
    torch.save({"by": VALUE}, file)
    with pytest.raises(ImpossibleError, match=f"would be left: text {VALUE} in between records"):
        archive.redact_checkpoint(file, out, replace=[PAIR])
    letters = torch.tensor(list(f"..{VALUE}..".encode()), dtype=torch.uint8)
    for value in (letters, f"..{VALUE}..".encode("utf-16-le"), "66" + VALUE.encode().hex()):
        with pytest.raises(ImpossibleError, match=f"would be left: text {VALUE} in data"):
            redacted(saved({"a": value}))
    name = "annabel lee of paris"
    with pytest.raises(ImpossibleError, match=f"would be left: text {name} in data"):
        redacted(saved({"a": base64.b64encode(f"by {name}".encode()).decode()}), f"{name}=x")


def test_texts_of_python_2_and_whole_names_of_classes_are_told() -> None:
    data = saved(["Ann Lee", "x", torch.float32, OrderedDict()])
    with zipfile.ZipFile(io.BytesIO(data)) as zipped, io.BytesIO() as made:
        with zipfile.ZipFile(made, "w") as again:  # with other checksums
            for name in zipped.namelist():
                again.writestr(name, zipped.read(name).replace(b"X\x07\0\0\0Ann", b"T\x07\0\0\0Ann"))
        old = made.getvalue()
    with pytest.raises(ImpossibleError, match=r"text Ann Lee in data\.pkl, byte \d+: in bytes, or"):
        redacted(old, "Ann Lee=x")
    with pytest.raises(ImpossibleError, match=r"text collections\.Ord in data\.pkl, byte \d+: the name"):
        redacted(data, "collections.Ord=x")


def test_keys_and_elements_that_would_be_the_same_are_refused() -> None:
    for value in ({VALUE: 1, TEXT: 2}, {"in": OrderedDict({TEXT: 1, VALUE: 1})}, {"set": {VALUE, TEXT}}):
        for protocol in PROTOCOLS:
            with pytest.raises(ArchiveError, match=re.escape(f"would both be '{TEXT}'")):
                redacted(saved(value, protocol))
    with pytest.raises(ArchiveError, match="would both be"):
        redacted(saved({"b": 1, "c": 1}), "b=a", "c=a")
    assert loaded(redacted(saved({VALUE: 1, "x": TEXT}))[0]) == {TEXT: 1, "x": TEXT}


@pytest.mark.parametrize("pairs", [[], ["a"], ["=b"], ["a=ba"], ["\udcff=b"]])
def test_a_replacement_that_is_none_is_refused(pairs: list[str]) -> None:
    with pytest.raises(ArchiveError, match=r"VALUE=TEXT|would be there again|nothing to redact"):
        archive.redact_checkpoint(saved({}), io.BytesIO(), replace=pairs)


def test_the_longest_text_counts_and_short_ones_are_told() -> None:
    out, result = redacted(saved(["anna annabel", "xy"]), "anna=A", "annabel=B", "x=z")
    assert loaded(out) == ["A B", "zy"]
    assert set(map(str, result.not_searched_for)) == {"text anna", "text x"}


@pytest.mark.parametrize("alignment", [1, 100, 4096, 1 << 16])
def test_records_stay_aligned_as_torch_save_was_told(alignment: int, tmp_path: Path) -> None:
    with serialization.patch("save.storage_alignment", alignment):
        data, expected = (saved({"a": text, "b": BASE, "c": BASE[:3]}) for text in (VALUE, TEXT))
    assert redacted(data)[0] == expected
    out, companion, joined = tmp_path / "out.pt", io.BytesIO(), io.BytesIO()
    archive.redact(data, out, companion, paths="none")
    with serialization.patch({"load.calculate_storage_offsets": True}):
        assert torch.equal(torch.load(out, mmap=True)["b"], BASE)
    archive.join(out, companion, joined)
    assert joined.getvalue() == data


@pytest.mark.parametrize("told", [b"", b"0", b"x", b"-64", b"4096", b"65600"])
def test_records_that_lie_otherwise_than_the_file_says_are_aligned_as_usual(told: bytes) -> None:
    with Container.open(saved({"a": VALUE, "b": BASE})) as container:
        members = [member_from(record) for record in container.records.values()]
    members = [
        new_member(member.name, told) if member.name == ".storage_alignment" else member for member in members
    ]
    with Container.open(redacted(written(*members))[0]) as container:
        assert bytes(container.records[".storage_alignment"].view()) == told
        assert alignment_of(container.records) == 64
        assert not any(record.place.data % 64 for record in container.records.values())


def test_texts_that_would_take_too_much_memory_are_refused() -> None:
    with pytest.raises(LimitError):
        redacted(saved(["a" * 1_000_000]), f"a={'b' * 10_000}")


def test_what_no_text_has_is_told_but_not_what_stays(tmp_path: Path) -> None:
    file, out = tmp_path / "model.pt", tmp_path / "out.pt"
    torch.save({"by": VALUE, f"{VALUE}'s": 1, "of": OrderedDict()}, file)
    values = ["nobody", "anna", VALUE, "OrderedDict", "collections"]
    result = archive.redact_checkpoint(file, out, replace=[f"{value}=" for value in values], partial=True)
    assert result.absent == ("nobody",)
    done = run("redact", file, "-o", out, "--replace", "nobody=", "--replace", "no\nne=", "--force")
    assert done.stdout.count(b"nothing to replace: no text has ") == 2
    assert b"no text has 'nobody'" in done.stdout
    assert b"no text has 'no\\nne'" in done.stdout
    left = run("redact", file, "-o", out, "--replace", "OrderedDict=x", "--partial", "--force")
    assert (left.returncode, b"nothing to replace" in left.stdout) == (1, False)


def test_other_files_are_refused() -> None:
    for name in ("exported.pt2", "tensors.safetensors", "legacy.pt"):
        with pytest.raises(ArchiveError):
            archive.redact_checkpoint(KINDS / name, io.BytesIO(), replace=[PAIR])


def test_an_input_that_cannot_be_read_is_what_is_wrong_not_its_options(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pt"
    cut.write_bytes((KINDS / "checkpoint.pt").read_bytes()[:500])
    for file, why in ((tmp_path / "none.pt", b"No such file"), (cut, b"a zip without its end")):
        for options in ((), ("-c", tmp_path / "c.ptdbg")):
            done = run("redact", file, "-o", tmp_path / "out.pt", "--replace", "a=b", *options)
            assert (done.returncode, why in done.stderr, b"--replace" in done.stderr) == (2, True, False)


def test_another_record_than_the_file_has_is_found_out(tmp_path: Path) -> None:
    def changed(out: BinaryIO, root: str, members: Iterable[Member], *, alignment: int) -> None:
        others = [new_member(one.name, b"0" * 24) if one.name == "data/0" else one for one in members]
        write_archive(out, root, others, alignment=alignment)

    with (
        mock.patch("archive.privacy.redact.checkpoints.write_archive", changed),
        pytest.raises(ArchiveError, match="data/0: a record would not be the same"),
    ):
        archive.redact_checkpoint(KINDS / "checkpoint.pt", tmp_path / "out.pt", replace=["a=b"])
    assert not (tmp_path / "out.pt").exists()


def test_the_command(tmp_path: Path) -> None:
    file, out = tmp_path / "model.pt", tmp_path / "out.pt"
    torch.save({"by": VALUE, VALUE: 1}, file)
    done = run("redact", file, "-o", out, "--replace", PAIR)
    assert re.search(rb"replaced: byte \d+, a key", done.stdout)
    assert b"Removed 1 text; none left, in " in done.stdout
    assert loaded(out.read_bytes()) == {"by": TEXT, TEXT: 1}
    again = run("redact", file, "-o", out, "--replace", "nobody=x", "--force", "--json")
    assert json.loads(again.stdout)["files"][0]["changed"] == []
    left = run("redact", file, "-o", out, "--replace", "annab=x", "--force")
    assert (left.returncode, b"left: text annab in data.pkl" in left.stdout + left.stderr) == (1, True)
    for unfit in ([], ["-c", "x"], ["--for", "publish"], ["--paths", "none"]):
        asked = run("redact", file, "-o", out, *unfit)
        assert (asked.returncode, b"--replace VALUE=TEXT" in asked.stderr) == (2, True)
    for more in (["-c", "x"], ["--for", "publish"], ["--source", "none"], ["--map", "a=b"], ["--no-inputs"]):
        refused = run("redact", file, "-o", out, "--replace", PAIR, "--force", *more)
        assert (refused.returncode, refused.stderr.count(b"\n") > 0) == (2, True)
        assert (b"-c" if more[0] == "-c" else more[0].replace("no-", "").encode()) in refused.stderr
    folder = tmp_path / "several"
    several = run("redact", file, out, "-o", folder, "--replace", PAIR)
    assert (several.returncode, loaded((folder / "model.pt").read_bytes())) == (0, {"by": TEXT, TEXT: 1})
