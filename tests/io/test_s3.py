"""What a bucket says is not believed: versions, sizes and lists that contradict one another are refused."""

from __future__ import annotations

import pytest
from s3fs import S3FileSystem

from archive.base.errors import ArchiveError
from archive.io import patience, places, s3
from archive.io.location import Location
from archive.io.remote import opened_remote
from archive.store.objects import Objects
from tests.support.stalling import http_answer, stalling_bucket

SIZE, ASKED = 99_999, 1 << 16


RANGE = f"bytes 0-{ASKED - 1}/{SIZE}"
LIES = {
    "another version": (http_answer(206, bytes(ASKED), ETag='"2"', Content_Range=RANGE), "the file changed"),
    "no version": (http_answer(206, bytes(ASKED), Content_Range=RANGE), "the file changed"),
    "another size": (
        http_answer(206, bytes(ASKED), ETag='"1"', Content_Range=RANGE + "9"),
        "the file changed",
    ),
    "too little": (
        http_answer(206, bytes(9), ETag='"1"', Content_Range=RANGE),
        "is not whole: expected 65,536 bytes, found 9",
    ),
    "all of it": (http_answer(200, bytes(SIZE), ETag='"1"'), "sends more bytes than it says"),
    "not modified": (http_answer(304, ETag='"1"'), "cannot be read"),
    "a cut body": (
        http_answer(206, bytes(9), length=ASKED, ETag='"1"', Content_Range=RANGE),
        "cannot be read",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_answer_that_contradicts_what_was_opened_is_refused(
    lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(S3FileSystem, "retries", 1)
    said, why = LIES[lie]
    facts = http_answer(200, length=SIZE, ETag='"1"', Last_Modified="Fri, 27 Nov 2026 09:00:00 GMT")
    with stalling_bucket(
        lambda method: facts if method == "HEAD" else said, closes=lie == "a cut body"
    ) as url:
        remote = opened_remote(Location(f"{url}/m.ptl"))
        with pytest.raises((ArchiveError, OSError), match=why):
            remote.read(0, ASKED)


def listed(*keys: str) -> bytes:
    """A page of a list, behind which others are said to come."""
    entries = "".join(f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in keys)
    more = "<IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>"
    return http_answer(200, f"<ListBucketResult>{more}{entries}</ListBucketResult>".encode())


def test_a_list_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "MOST_FILES", 100)
    with stalling_bucket(lambda _: listed("x/a", "x/b", "x/c")) as url:
        for request in (
            lambda: Objects(url).listed("x"),
            lambda: [*places.below(f"{url}/x/")],
            lambda: [*places.matching(f"{url}/x/*")],
        ):
            with pytest.raises(ArchiveError, match="more than 1,048,576 files"):
                request()


def test_a_list_of_nothing_without_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "SECONDS", 0.3)
    with (
        stalling_bucket(lambda _: listed()) as url,
        pytest.raises(TimeoutError, match=r"cannot be listed: no answer"),
    ):
        Objects(url).listed("x")
