"""Made-up archives through chains of migrations: the last target alone counts, and the way back is exact."""

from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive.formats.record_kinds import MIGRATED
from archive.rewrite.migrate.aside import write_original
from tests.support.made_archives import Made, archives
from tests.support.migrations import TARGETS
from tests.support.sampling import examples
from tests.support.strategies import patient

LAYOUTS = ["pair-rows", "inline-rows", "string-table"]
chains = st.lists(st.sampled_from([*TARGETS, *LAYOUTS]), min_size=1, max_size=4)


def through(data: bytes, *chain: str) -> bytes:
    for to in chain:
        data = archive.migrate(data, to=to, lossy=True).data
    return data


@settings(patient, max_examples=examples(75))
@given(archives(), chains)
def test_a_chain_ends_where_the_direct_way_ends(made: Made, chain: list[str]) -> None:
    try:
        direct = through(made.data, chain[-1])
    except archive.ArchiveError as error:
        assert "tags: expected up to" in str(error)  # noqa: PT017 (the one thing that may be)
        return
    try:
        assert through(made.data, *chain) == direct
    except archive.ArchiveError as error:
        assert "tags: expected up to" in str(error)  # noqa: PT017
    with archive.open(direct) as opened:
        if MIGRATED in opened.records:
            original = io.BytesIO()
            write_original(original, opened.container)
            assert original.getvalue() == made.data
        else:
            assert direct == made.data
