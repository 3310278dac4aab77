"""A store is a dictionary: whatever is done to it, in whatever order, it has what was put into it."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from archive.store.adding import EPOCH, TakenError
from archive.store.store import Store
from tests.support.faults import dying, in_child
from tests.support.kin import id_of, kin
from tests.support.sampling import examples

NUMBERS = st.integers(0, 7)


class StoreMachine(RuleBasedStateMachine):
    """Changes of a store, and a dictionary that they are compared with."""

    def __init__(self) -> None:
        super().__init__()
        # Added at one time, a companion that is removed and added again is the same to the byte.
        self.time = mock.patch.dict(os.environ, {EPOCH: "1760000000"})
        self.time.start()
        self.folder = Path(tempfile.mkdtemp())
        self.store = Store.open(self.folder / "store", create=True)
        self.known: dict[str, bytes] = {}

    def teardown(self) -> None:
        self.time.stop()
        shutil.rmtree(self.folder)

    @rule(number=NUMBERS, line=st.integers(0, 1), packed=st.booleans(), replace=st.booleans())
    def add(self, number: int, line: int, *, packed: bool, replace: bool) -> None:
        data, key = kin(number, line=line, packed=packed, family=number % 2), id_of(number)
        lines = {0, 1, 2} - {line}
        others = {
            kin(number, line=other, packed=one, family=number % 2) for other in lines for one in (False, True)
        }
        if self.known.get(key) in others and not replace:
            try:
                self.store.add(data)
            except TakenError:
                return
            raise AssertionError("it was not refused")
        kept = self.store.add(data, replace=replace)
        if kept.outcome != "same":
            assert (kept.outcome == "replaced") == (key in self.known)
            self.known[key] = data

    @rule(number=NUMBERS)
    def remove(self, number: int) -> None:
        if id_of(number) in self.known:
            self.store.remove(id_of(number))
            del self.known[id_of(number)]

    @rule()
    def clean(self) -> None:
        self.store.gc()

    @rule()
    def open_anew(self) -> None:
        self.store.close()
        self.store = Store.open(self.store.file)

    @rule()
    def lose_the_index(self) -> None:
        self.store.close()
        self.store.folder.index.unlink(missing_ok=True)
        self.store = Store.open(self.store.file)

    @rule()
    def copy(self) -> None:
        path = self.folder / os.urandom(4).hex()
        shutil.copytree(self.store.file, path, copy_function=shutil.copy)
        self.store = Store.open(path)

    @rule(number=NUMBERS, step=st.integers(0, 25))
    def be_killed_adding(self, number: int, step: int) -> None:
        key, data = id_of(number), kin(number, line=2, family=number % 2)

        def die() -> None:
            with dying(step):
                Store.open(self.store.file).add(data, replace=True)

        assert in_child(die) in (0, signal.SIGKILL)
        if self.store.find(key) and self.store.companion(key) == data:
            self.known[key] = data

    @invariant()
    def has_what_was_put_into_it(self) -> None:
        assert {entry.archive_id for entry in self.store.entries()} == self.known.keys()
        assert {key: self.store.companion(key) for key in self.known} == self.known

    @invariant()
    def is_whole(self) -> None:
        assert self.store.unread == {}


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=examples(20), stateful_step_count=16, deadline=None)
