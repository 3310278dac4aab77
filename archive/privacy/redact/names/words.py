"""Which names become hashes, and which ones stay.

A name is a word; it is hashed wherever it names something, so that code, pickles and tables agree. A word
stays

- if PyTorch gives it a meaning: keywords, types, ``forward``, attributes of PyTorch's own modules;
- if callers need it: methods of the model, their arguments, the fields of what they take and return;
  methods that nothing in the model calls;
- if it is also a text that the model computes with: a pickle has each text once.
"""

from __future__ import annotations

import keyword
import os
import re
from dataclasses import field
from typing import TYPE_CHECKING

from archive.base.errors import ImpossibleError, counted, shown
from archive.base.quick_dataclass import dataclass
from archive.companion.hashed_names import SALT_BYTES, hashed
from archive.formats import mangling

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from archive.privacy.redact.names.code import CodeNames

ROOT = "__torch__"
MANGLED = re.compile(mangling.MANGLED)
OWN = re.compile(r"(?:__torch__\.)?torch\.")
"""Begins the names of PyTorch's own classes."""
GRAPH_MODULE = re.compile(r"__torch__\.torch\.fx\.graph_module\.")
"""Begins the names of classes that have the name of a model's own class."""
CONTAINERS = re.compile(
    r"__torch__\.torch\.(?:nn\.modules\.(?:container|module)|fx\..*|jit\..*|nn\.utils\.parametrize)"
    rf"(?:\.{mangling.MANGLED})?\.\w+"
)
"""Classes of PyTorch whose attributes are the model's own."""
NAME = re.compile(r"[^\s():<>,\[\]{}=*&]+")
"""A name, with dots or without, in a text of types, call stacks or paths of modules."""
WORDS = re.compile(r"\w+")
REASONS = {
    "interface": "that callers need",
    "methods": "of methods, for classes of C++ may have the same",
    "values": "that the model computes with",
}
"""What the result says of names that stay; PyTorch's own are passed over."""
TRIES = 20
"""Salts that are tried."""
SHOWN = 5
"""Names that a message has."""
RESERVED = frozenset(
    """
    self forward training value name tolist aten prim attribute fork CONSTANTS inf nan infj nanj ops
    torch annotate uninitialized unchecked_cast isinstance getattr hasattr range print len sorted int
    float bool str complex number list dict tuple type object super Module NamedTuple Enum Interface
    ModuleInterface Final Tensor Optional List Dict Tuple Union Any NoneType Future RRef Device
    Generator Stream Storage Capsule Scalar Layout ScalarType MemoryFormat QScheme Await SymInt SymBool
    Function Callable function_debug_handles module_debug_info top SELF UNKNOWN UNKNOWN_INSTANCE
    UNKNOWN_TYPE FunctionName_UNKNOWN GraphModule GraphModuleImpl unknown op_version_set instance min
    max abs all any sum id input
    """.split()  # noqa: SIM905 (words, not a list of texts)
)
"""ModelNames with a meaning in code, types or call stacks."""
FIXED = re.compile(
    r"(?:<.*)?|_?\d+|_+|__\w+__|" + mangling.MANGLED + r"|_is_full_backward_hook|__forked_function\d*"
)


def is_fixed(word: str) -> bool:
    """Whether a word stays in every archive."""
    return word in RESERVED or keyword.iskeyword(word) or FIXED.fullmatch(word) is not None


@dataclass(slots=True)
class ModelNames:
    """The names of an archive, and what becomes of them.

    Attributes:
        salt: makes the hashes differ from those of other files.
        found: all names that may be hashed.
        kept: those that stay, and why.
        spoken: words that also stand where they aren't names.
    """

    salt: bytes
    found: set[str] = field(default_factory=set)
    kept: dict[str, str] = field(default_factory=dict)
    spoken: set[str] = field(default_factory=set)

    def keep(self, words: Iterable[str], why: str) -> None:
        """Let words stay; the first reason counts."""
        for word in words:
            self.kept.setdefault(word, why)

    def new(self, word: str) -> str:
        """The replacement of a word."""
        if word not in self.found or word in self.kept or is_fixed(word):
            return word
        return hashed(word, self.salt)

    def dotted(self, name: str) -> str:
        """A name with dots: of a class, a function, a method, an enum's member or an operator."""
        before, rest = _parted(name)
        return before + ".".join(map(self.new, rest.split("."))) if rest else name

    def text(self, text: str) -> str:
        """A text of types, call stacks or paths, with other names."""

        def renamed(match: re.Match[str]) -> str:
            part = match[0]
            if ROOT in part.split("."):
                return self.dotted(part)
            return part if OWN.match(part) else ".".join(map(self.new, part.split(".")))

        return NAME.sub(renamed, text)

    def note_dotted(self, name: str) -> None:
        """Note the parts of a name with dots."""
        before, rest = _parted(name)
        self.spoken.update(before.split("."))
        self.found.update(rest.split("."))

    def note_text(self, text: str) -> None:
        """Note the names in a text of types, call stacks or paths; words that aren't names are spoken."""
        for name in NAME.findall(text):
            if ROOT in name.split("."):
                self.note_dotted(name)
            elif OWN.match(name):
                self.spoken.update(name.split("."))
            else:
                self.found.update(name.split("."))

    @property
    def changed(self) -> dict[str, str]:
        """The words that change, with their replacements."""
        return {word: new for word in self.found if (new := self.new(word)) != word}

    @property
    def sought(self) -> set[str]:
        """The words that must be gone everywhere."""
        return self.changed.keys() - self.spoken

    def remarks(self) -> list[str]:
        """Remarks about names that stay, or that also stand in other places."""
        lines = []
        for why, reason in REASONS.items():
            names = sorted(word for word in self.found if self.kept.get(word) == why and not is_fixed(word))
            lines += [f"{counted(len(names), 'name')} {reason}: {_some(names)}"] if names else []
        spoken = sorted(self.changed.keys() & self.spoken)
        lines += (
            [f"{counted(len(spoken), 'name')} in texts or operators, too: {_some(spoken)}"] if spoken else []
        )
        return lines

    def settle(self) -> None:
        """Take another salt until no two names become one.

        Raises:
            ImpossibleError: each salt that was tried fails: there are too many names.
        """
        for _ in range(TRIES):
            news = [*self.changed.values()]
            if len({*news}) == len(news) and self.found.isdisjoint(news) and self.spoken.isdisjoint(news):
                return
            self.salt = os.urandom(SALT_BYTES)
        raise ImpossibleError(f"{len(self.found):,} names are too many: two become one")


def _some(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join([*map(shown, names[:SHOWN]), *([f"{more:,} more"] if more > 0 else [])])


def _parted(name: str) -> tuple[str, str]:
    """The beginning of a name with dots that is PyTorch's, with its last dot, and what follows."""
    if found := GRAPH_MODULE.match(name):
        return found[0], name[found.end() :]
    before, mark, rest = name.partition(f"{ROOT}.")
    if not mark or before[-1:] not in ("", ".") or OWN.match(f"{rest}."):
        return name, ""
    return before + mark, rest


def is_own(name: str) -> bool:
    """Whether a class is PyTorch's own, and its attributes, too."""
    return OWN.match(name) is not None and CONTAINERS.fullmatch(name) is None


def note_code(words: ModelNames, codes: Mapping[str, CodeNames], top: str, *, has_bound: bool) -> None:
    """Decide about the names in code.

    Args:
        words: takes them.
        codes: the names of each module of code: ``__torch__.models``.
        top: the model's class.
        has_bound: whether some classes are C++'s, whose methods no code declares.
    """
    classes = {
        f"{at}.{name}": declaration
        for at, code in codes.items()
        for name, declaration in code.classes.items()
    }
    called = {name for code in codes.values() for name in code.called}
    words.keep(called.difference(*(declared.methods for declared in classes.values())), "methods")  # C++'s
    for name, declared in classes.items():
        words.note_dotted(name)
        words.found |= {*declared.fields, *declared.methods}
        words.found.update(word for method in declared.methods.values() for word in method.arguments)
        if is_own(name):
            words.keep({*declared.fields, *declared.methods}, "PyTorch's")
        elif has_bound:
            words.keep(declared.methods, "methods")
        words.keep((method for method in declared.methods if method not in called), "interface")
    # What callers of the model's methods need stays: names of its methods, arguments, and their classes.
    seen: set[str] = set()
    left: set[str] = set()
    if top in classes:
        for name, method in classes[top].methods.items():
            if not name.startswith("_"):
                words.keep([name, *method.arguments], "interface")
                left |= method.types
    while left:
        name = left.pop()
        if name in seen or name not in classes or name == top:
            continue
        seen.add(name)
        words.keep(classes[name].fields, "interface")
        left |= classes[name].types
