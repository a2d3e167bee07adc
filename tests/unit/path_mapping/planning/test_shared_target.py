"""Several writers at one URL: whatever the order of their requests, each file's content stays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.planning.plan import Ends
from path_mapping.planning.shared_target import SharedTarget, conflict_key
from path_mapping.stores.objects import Copy, StoredObject

ROUTE = Route("out", ObsUrl("bucket", "out/"))
ENDS = Ends(Path("out"), "bucket", "out/")
Objects = dict[str, bytes]


def etag(content: bytes) -> str:
    return f'"{hashlib.md5(content).hexdigest()}"'


class Writer:
    """Uploads files in steps: one for the listing, one for each request to write or delete."""

    def __init__(self, number: int, files: Objects, objects: Objects) -> None:
        self.files, self._objects = dict(files), objects
        self.target = SharedTarget([ROUTE], f"node-{number}")
        self.target.note("bucket", [StoredObject(key, 1, None, etag(objects[key])) for key in objects])

    def upload(self, others_done: bool = False) -> Iterator[None]:
        """One upload of all files."""
        listed = dict(self._objects)
        yield
        for name, content in sorted(self.files.items()):
            key = f"out/{name}"
            stored = listed.get(key)
            if stored == content:
                self._delete(self.target.same(name))
                continue
            mtime_ns = int(etag(content)[1:9], 16)
            tag = etag(stored) if stored is not None else ""
            copy = Copy(name, "", "bucket", key, len(content), tag, 0, mtime_ns)
            chosen, stale = self.target.redirected(
                copy, ENDS, lambda copy: self._objects.get(copy.key) == self.files[copy.path], others_done
            )
            if chosen is not None:
                yield  # the request is on its way
                self._objects[chosen.key] = content
                self.target.wrote(chosen._replace(etag=etag(content)), chosen.key != key)
            self._delete(stale)

    def _delete(self, copy: Copy | None) -> None:
        if copy is not None:
            self._objects.pop(copy.key, None)


def run_rounds(writers: Sequence[Writer], schedule: Sequence[tuple[int, str, Objects]]) -> None:
    """Rounds of uploads in the order of the schedule, while the training changes its files."""
    running: dict[int, Iterator[None]] = {}
    for number, what, changes in schedule:
        if number >= len(writers):
            continue
        if what == "change" and number not in running:
            writers[number].files.update(changes)
        elif next(running.setdefault(number, writers[number].upload()), "ended") == "ended":
            del running[number]
    for upload in running.values():
        list(upload)


CONTENTS = st.dictionaries(st.sampled_from("ab"), st.sampled_from([b"1", b"2", b"33"]))
CHANGES = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["next", "change"]), CONTENTS), max_size=40)


@pytest.mark.invariant("No node replaces another node's file, for any order of requests")
@given(CONTENTS, st.lists(CONTENTS, min_size=2, max_size=3), CHANGES)
def test_content_of_every_writer_stays_whatever_the_order(
    before: Objects, files: list[Objects], schedule: list[tuple[int, str, Objects]]
) -> None:
    objects = {f"out/{name}": content for name, content in before.items()}
    writers = [Writer(number, own, objects) for number, own in enumerate(files)]
    run_rounds(writers, schedule)
    lasts = [writer.upload() for writer in writers]
    order = [number for number, _, _ in schedule if number < len(writers)]
    for number in order:
        next(lasts[number], None)
    for last in reversed(lasts):
        list(last)
    for writer in writers:  # behind the barrier, in any order: nothing writes to plain keys
        list(writer.upload(others_done=True))
    for number, writer in enumerate(writers):
        diverted = {copy.path for copy in writer.target.diverted}
        for name, content in writer.files.items():
            plain, own = objects.get(f"out/{name}"), objects.get(f"out/conflicts/node-{number}/{name}")
            assert content in (plain, own)
            assert (name in diverted) == (content != plain), "only what differs is named"
            assert content != plain or own is None, "the same content stays one object"


def test_one_writer_replaces_its_own_versions_and_older_ones() -> None:
    objects = {"out/a": b"old"}
    writer = Writer(0, {"a": b"1"}, objects)
    for content in (b"1", b"2", b"1"):
        writer.files["a"] = content
        list(writer.upload())
        assert objects == {"out/a": content}


@pytest.mark.parametrize(
    ("ends", "key", "expected"),
    [
        (ENDS, "out/a/b", "out/conflicts/node-1/a/b"),
        (Ends(Path("out"), "bucket", ""), "a", "conflicts/node-1/a"),
        (Ends(Path(), "bucket", "models/m.pt", "model.pt"), "models/m.pt", "models/conflicts/node-1/m.pt"),
        (Ends(Path(), "bucket", "m.pt", "model.pt"), "m.pt", "conflicts/node-1/m.pt"),
    ],
)
def test_conflicts_are_below_the_url(ends: Ends, key: str, expected: str) -> None:
    assert conflict_key(ends, key, "node-1") == expected
