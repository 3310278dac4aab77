"""Names become hashes: in code, pickles, tables and names of records alike, and nothing else changes."""

from __future__ import annotations

import io
import re
from functools import partial
from typing import TYPE_CHECKING

import pytest

import archive
from archive.base import memory
from archive.base.errors import ImpossibleError, LimitError
from archive.base.limits import DEFAULT_LIMITS
from archive.companion.hashed_names import hashed
from archive.container.container import Container
from archive.failures.code_records import RenamedLines
from archive.formats.record_kinds import code_of
from archive.io.mapped import Mapped
from archive.privacy.redact.names.code import parse_code
from archive.privacy.redact.names.words import ModelNames
from archive.privacy.redact.proof import prove
from archive.privacy.redact.removed import Removed
from tests.support import halves
from tests.support.canaries import with_records
from tests.support.commands import run
from tests.support.corpus import FIXTURES
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from pathlib import Path


RELEASES, ORACLES = FIXTURES / "releases", FIXTURES / "oracles"
NESTED = RELEASES / "torch-2.13.0" / "nested.pt"
HASH = re.compile(rb"\b[aC][0-9a-f]{8}\b")
SAMPLES = (
    *(RELEASES / f"torch-{release}" / "nested.pt" for release in ("1.4.0", "1.8.0", "1.10.0", "2.13.0")),
    *(
        RELEASES / "torch-2.13.0" / name
        for name in ("traced.ptl", "frozen.pt", "consts.pt", "nested-nodebug.ptl")
    ),
    RELEASES / "torch-1.7.0" / "nested.ptl",
    *(ORACLES / name for name in ("plain_free_functions.ptl", "plain_unicode.pt", "lowered_two.ptl")),
)


redacted = partial(halves.redacted, names="hash", paths="none")


def former(data: bytes, before: bytes, companion: bytes) -> bytes:
    """Bytes with each hash replaced by the name that it stands for, one of those in ``before``."""
    with archive.open(companion) as opened:
        assert opened.companion is not None
        salt = opened.companion.salt
    names = {hashed(word.decode(), salt).encode(): word for word in set(re.findall(rb"\w+", before))}
    return HASH.sub(lambda found: names.get(found[0], found[0]), data)


@pytest.mark.parametrize(
    "path",
    sampled(SAMPLES, by=[lambda path: path.suffix]),
    ids=lambda path: f"{path.parent.name}-{path.name}",
)
def test_names_alone_change_and_a_join_gives_them_back(path: Path) -> None:
    out, companion, facts = redacted(path)
    assert facts.is_clean
    assert facts.sought["name"] > 0
    with archive.open(path) as before, archive.open(out) as after:
        texts = b"\n".join(bytes(one.view()) for one in before.container.records.values())
        names = "\n".join(before.container.records).encode()
        known = texts + b"\n" + names
        assert former("\n".join(after.container.records).encode(), known, companion) == names
        pairs = zip(before.container.records.items(), after.container.records.values(), strict=True)
        for (name, old), new in pairs:
            if name.endswith(".py"):
                assert former(bytes(new.view()), known, companion) == bytes(old.view())
        assert after.bytecode == before.bytecode or HASH.search(out)
        assert list(after.handles) == list(before.handles)
    assert halves.joined(out, companion) == (path.read_bytes(), True)


def test_source_ranges_begin_at_the_same_words() -> None:
    out, companion, _ = redacted(NESTED)
    known = NESTED.read_bytes()
    with archive.open(NESTED) as before, archive.open(out) as after:
        known = b"\n".join(bytes(one.view()) for one in before.container.records.values())
        old, new = before.range_table, after.range_table
        (old_name,), (new_name,) = old.names, new.names
        code = bytes(before.records[code_of(old_name)].view())
        hashes = bytes(after.records[code_of(new_name)].view())
        assert old.offset.tolist() != new.offset.tolist()
        for one, other in zip(old.offset.tolist(), new.offset.tolist(), strict=True):
            assert former(hashes[:other], known, companion) == code[:one]


def test_the_same_name_has_the_same_hash_in_one_file_and_another_one_in_the_next() -> None:
    made = (redacted(source).out for source in (NESTED, NESTED.read_bytes()))  # neither is the other's
    first, second = (set(HASH.findall(b"".join(_texts(out)))) for out in made)
    assert len(first) == len(second) > 10
    assert first.isdisjoint(second)


def _texts(data: bytes) -> list[bytes]:
    with archive.open(data) as opened:
        return [bytes(one.view()) for name, one in opened.container.records.items() if name.endswith(".py")]


def test_what_callers_need_stays_and_is_told() -> None:
    out, _, facts = redacted(NESTED)
    (code,) = _texts(out)
    signatures = re.findall(rb"def (\w+)\(self: __torch__\.\w+\.\w+,\n    (\w+)", code)
    assert signatures[:4] == [(b"forward", b"x"), (b"names", b"xs"), (b"pair", b"a"), (b"step", b"h")]
    assert facts.stays == ("9 names that callers need: 'a', 'b', 'h', 'i', 'names', 4 more",)


def test_names_stand_in_source_text_which_goes_too() -> None:
    with pytest.raises(archive.ArchiveError, match="hashes need --source none"):
        redacted(NESTED, text="lines")
    told = run("redact", NESTED, "-o", "x", "-c", "y", "--names", "hash", "--source", "keep")
    assert (told.returncode, b"hashes need --source none" in told.stderr) == (2, True)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("kinds/package.pt", r"\(torch.package\): its Python source runs by them"),
        ("kinds/state_dict.pt", r"\(state dict\): programs that load it look values up by them"),
        ("kinds/compiled.pt2", r"\(AOTInductor package\): its loader finds weights by them"),
        ("effects/counting.pt", "effects.pkl: names of a model with side effects stay"),
        ("releases/torch-1.2.0/nested.pt", "names in archives of PyTorch 1.0 to 1.2 stay"),
    ],
)
def test_a_file_whose_names_stand_elsewhere_is_redacted_without_names_alone(name: str, why: str) -> None:
    with pytest.raises(ImpossibleError, match=f"{why}.*; paths, source text and inputs go without --names"):
        redacted(FIXTURES / name)
    archive.redact(FIXTURES / name, io.BytesIO(), io.BytesIO(), paths="none", text="none", partial=True)


def test_an_attribute_may_have_a_name_that_python_keeps_for_itself() -> None:
    text = (
        "class A(Module):\n"
        "  in : __torch__.B\n"
        "  secret : __torch__.B\n"
        "  def forward(self: __torch__.A,\n"
        "    x: Tensor) -> Tensor:\n"
        '    for0 = self.in if torch.eq("self.in : in", "  in : ") else self.secret\n'
        "    return (for0.lambda).forward(x, )\n"
    )
    code = parse_code("code/__torch__.py", text.encode())
    assert code.classes["A"].fields == {"in", "secret"}
    assert {"self.in : in", "  in : "} <= code.spoken
    names = [text[use.start : use.end] for use in sorted(code.uses)]
    wanted = (
        "A in __torch__.B secret __torch__.B forward self __torch__.A x for0 self in torch.eq self secret"
    )
    assert " ".join(names) == f"{wanted} for0 lambda forward x"


def test_programs_keep_attributes_and_lose_classes() -> None:
    path = FIXTURES / "exported" / "shop_strict.pt2"
    out, companion, facts = redacted(path)
    assert (facts.is_clean, facts.sought["name"]) == (True, 3)
    assert "4 names of attributes, which programs are called by" in facts.stays
    with archive.open(path) as before, archive.open(out) as after, archive.open(companion) as private:
        sites = [next(iter(one.programs.values())).sites.values() for one in (before, after, private)]
        old, new, kept = (next(iter(some)).metadata["nn_module_stack"] for some in sites)
    assert old == kept != new
    assert re.sub(r"a\w{8}\.C\w{8}", "X", new) == re.sub(r"shop\.\w+", "X", old)
    assert halves.joined(out, companion) == (path.read_bytes(), True)


def test_a_split_archive_is_refused_for_its_companion_would_lead_to_other_places() -> None:
    out = io.BytesIO()
    archive.split(ORACLES / "plain_stack.ptl", out, io.BytesIO())
    with pytest.raises(ImpossibleError, match="`join` them, redact that, and split it then"):
        archive.redact(out.getvalue(), io.BytesIO(), io.BytesIO(), names="hash", paths="none")


def test_a_companion_that_leads_to_names_is_not_given_away() -> None:
    companion = redacted(NESTED)[1]
    with pytest.raises(ImpossibleError, match="its archive has hashes for names"):
        archive.redact_companion(companion, io.BytesIO(), preset="vendor")


def test_a_name_in_an_extra_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(with_records(NESTED, {"extra/notes.txt": b"the Affine, not Affinely"}))
    with pytest.raises(ImpossibleError, match=r"name Affine in extra/notes\.txt"):
        redacted(path)
    path.write_bytes(with_records(NESTED, {"extra/notes.txt": b"Affinely"}))
    assert redacted(path)[2].is_clean


def test_a_short_name_is_not_looked_for_in_tensors(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    removed = Removed(names={b"gated", b"gated_gated"})
    for record, text, left in (
        ("data/9", b"\0gated\0", []),
        ("data/9", b"\0gated_gated\0", [b"gated_gated"]),
        ("extra/9", b"\0gated\0", [b"gated"]),
        ("extra/9", b"\0gated_\0", []),
    ):
        path.write_bytes(with_records(NESTED, {record: text}))
        with Container(Mapped(path)) as container:
            assert [one for _, one in prove(container, removed).left] == left


@pytest.mark.parametrize(
    "text",
    [
        "import os\n",
        "class A(Module):\n  x = lambda y: y\n",
        "def f(x: Tensor) -> Tensor:\n  return [y for y in x]\n",
        "def f(x: Tensor) -> Tensor:\r\n  return x\n",
        "def f(x: Tensor) -> Tensor:\n  return getattr(x, x)\n",
        'def f(x: Tensor) -> Tensor:\n  return getattr(x, "\\x79")\n',
        "def f(x: Tensor) -> Tensor:\n  return x.\u212a\n",
        "def f(:\n",
        "(" * 500 + ")" * 500,
        "@f\nclass A(Module):\n  pass\n",
        "class A(Module, metaclass=B):\n  pass\n",
        "def f(*x):\n  return x\n",
    ],
)
def test_code_that_pytorch_does_not_write_is_refused(text: str) -> None:
    with pytest.raises(archive.ArchiveError, match=r"code/__torch__\.py"):
        parse_code("code/__torch__.py", text.encode())


@pytest.mark.parametrize("part", ["x,", "(),", "-x,", "a.b,", "f(),", "1,"])
def test_code_is_not_parsed_where_that_may_cost_more_than_is_allowed(part: str) -> None:
    data = f"def f(x: Tensor) -> Tensor:\n  return [{part * 100_000}]\n".encode()
    refused = pytest.raises(LimitError, match=r"code/__torch__\.py: memory is limited")
    with refused, memory.charged(DEFAULT_LIMITS.allowance(0)):
        parse_code("code/__torch__.py", data)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("__torch__.acme.Net", "__torch__.{acme}.{Net}"),
        ("__torch__.acme.___torch_mangle_3.Net.forward", "__torch__.{acme}.___torch_mangle_3.{Net}.forward"),
        ("__torch__.torch.nn.modules.linear.Net", "__torch__.torch.nn.modules.linear.Net"),
        ("__torch__.torch.classes.acme.Net", "__torch__.torch.classes.acme.Net"),
        ("__torch__.torch.fx.graph_module.Net", "__torch__.torch.fx.graph_module.{Net}"),
        (
            "torch.jit.LoweredModule.demo.__torch__.acme.Net",
            "torch.jit.LoweredModule.demo.__torch__.{acme}.{Net}",
        ),
        ("Dict[str, __torch__.acme.Net]", "Dict[str, __torch__.{acme}.{Net}]"),
        ("__torch__.Net[NamedTuple, [[gate, int]]]", "__torch__.{Net}[NamedTuple, [[{gate}, int]]]"),
        ("top(Net).gate(Net).forward", "top({Net}).{gate}({Net}).forward"),
    ],
)
def test_texts_of_types_and_paths_keep_what_is_pytorchs(before: str, after: str) -> None:
    words = ModelNames(bytes(16), found={"acme", "Net", "gate", "linear", "demo", "forward", "classes"})
    hashes = {name: hashed(name, bytes(16)) for name in ("acme", "Net", "gate")}
    assert words.text(before) == after.format(**hashes)


def test_columns_of_a_line_with_hashes_lead_to_those_of_the_code() -> None:
    salt = bytes(range(16))
    line = b'    x = torch.add((self.gate).step(h0, 2, ), getattr(self.up, "fraud-head"))'
    shown = line
    for word in (b"gate", b"step", b"h0", b"up", b"fraud-head"):
        shown = shown.replace(word, hashed(word.decode(), salt).encode())
    lines = RenamedLines(memoryview(b"first\n" + line + b"\n"), salt)
    assert lines.is_line(2, shown)
    assert not lines.is_line(2, shown.replace(b"add", b"sub"))
    assert not lines.is_line(2, shown.replace(hashed("gate", salt).encode(), hashed("gates", salt).encode()))
    for part in (b"x = ", b"torch", b"add", b"(self", b", 2", b"getattr"):
        assert lines.column(2, shown, shown.index(part)) == line.index(part)
    for name in (b"step", b"h0"):
        word = hashed(name.decode(), salt).encode()
        first, last = shown.index(word), shown.index(word) + len(word) - 1
        assert lines.column(2, shown, first) == line.index(name)
        assert lines.column(2, shown, last) == line.index(name) + len(name) - 1


def test_another_salt_is_taken_where_two_names_would_become_one() -> None:
    taken = hashed("gate", bytes(16))
    words = ModelNames(bytes(16), found={"gate", "step"}, spoken={taken})
    words.settle()
    assert taken not in words.changed.values()
    assert len({*words.changed.values()}) == 2
