"""The kinds of findings: what each tells a stranger, and how it gets out of a file."""

from __future__ import annotations

from enum import StrEnum


class LeakKind(StrEnum):
    """What a text or a record of a model gives away."""

    HOME = "home path"
    TEMPORARY = "temporary path"
    PACKAGES = "site-packages path"
    DRIVE = "drive path"
    UNC = "network path"
    PATH = "other path"
    USER = "user name"
    HOST = "host name"
    EMAIL = "e-mail address"
    URL = "URL"
    KEY = "key"
    SOURCE = "source text"
    COMMENT = "comment"
    TIME = "time stamp"
    INPUTS = "sample inputs"
    EXTRA = "extra file"
    COMPANION = "companion"
    ROOT = "root folder"
    CLASS = "class name"
    ATTRIBUTE = "attribute name"
    GENERATED = "generated code"
    ID = "id"

    @property
    def counts(self) -> bool:
        """Whether findings of this kind make the exit status 1, unless kinds are asked for."""
        return self not in LISTED_ONLY

    @property
    def is_path(self) -> bool:
        """Whether findings of this kind are paths or addresses."""
        return self in PATHS

    @property
    def remedy(self) -> str:
        """A sentence that tells how such findings get out of a file that ``redact`` does not rewrite."""
        return REMEDIES[self]


LISTED_ONLY = {LeakKind.ROOT, LeakKind.CLASS, LeakKind.ATTRIBUTE, LeakKind.GENERATED, LeakKind.ID}
"""Kinds that nearly every model has, as PyTorch loads none without: they name neither person nor machine."""

PATHS = {
    LeakKind.HOME,
    LeakKind.TEMPORARY,
    LeakKind.PACKAGES,
    LeakKind.DRIVE,
    LeakKind.UNC,
    LeakKind.PATH,
    LeakKind.URL,
}
OTHERWISE = "save the model without it"
OF_THE_MODEL = "PyTorch needs it to load the model; rename it in the model's source"
REMEDIES = {
    LeakKind.HOME: OTHERWISE,
    LeakKind.TEMPORARY: OTHERWISE,
    LeakKind.PACKAGES: OTHERWISE,
    LeakKind.DRIVE: OTHERWISE,
    LeakKind.UNC: OTHERWISE,
    LeakKind.PATH: OTHERWISE,
    LeakKind.USER: "goes with the path or address that it is part of",
    LeakKind.HOST: "goes with the path or address that it is part of",
    LeakKind.EMAIL: OTHERWISE,
    LeakKind.URL: OTHERWISE,
    LeakKind.KEY: "revoke it first; then save the model without it",
    LeakKind.SOURCE: OTHERWISE,
    LeakKind.COMMENT: OTHERWISE,
    LeakKind.TIME: "save the model with PyTorch 1.4 or later, which writes no times",
    LeakKind.INPUTS: "export the model without example inputs, or with made-up ones",
    LeakKind.EXTRA: "save the model without it in `_extra_files`",
    LeakKind.COMPANION: "`restore`, then `split`: the companion becomes a file of its own",
    LeakKind.ROOT: "PyTorch takes it from the file's name; save under another one",
    LeakKind.CLASS: OF_THE_MODEL,
    LeakKind.ATTRIBUTE: OF_THE_MODEL,
    LeakKind.GENERATED: "PyTorch runs it",
    LeakKind.ID: "`convert --canonical` numbers ids of exported programs anew",
}
