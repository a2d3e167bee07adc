"""Which file is copied, skipped or refused: by keys, patterns, shards, records and contents."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Callable

import pytest
from hypothesis import given, strategies as st

from path_mapping.errors import printable
from path_mapping.localfs.names import Clashes, key_problem, name_problem
from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.mapping.selection import FILE_COST, Shard, selected, sharer
from path_mapping.planning.local_tree import FreeSpace, SpaceNeed, free_space, shortages
from path_mapping.planning.plan import (
    COPY,
    DELETE,
    MAKE,
    REFUSE,
    SKIP,
    Ends,
    LocalEntry,
    RecordEntry,
    Step,
    compare_download,
    compare_upload,
    find_input,
    plan_downloads,
    plan_uploads,
)
from path_mapping.planning.prepared_transfer import urgency
from path_mapping.stores.contents import ContentSum, etag_of_parts
from path_mapping.stores.objects import Checksums, StoredObject

BASE = Path("/base")
ROUTE = Route("in", ObsUrl("bucket", "in/"))


def never(name: str) -> str:
    raise AssertionError(f"{name} is read, which decides nothing")


def downloads(
    *objects: StoredObject,
    route: Route = ROUTE,
    entries: Sequence[RecordEntry] = (),
    local: dict[str, LocalEntry] | None = None,
    md5: Callable[[str], str] = never,
    shard: Shard = Shard(),  # noqa: B008
    folded: bool = False,
    noted: Callable[[str], RecordEntry | None] = lambda name: None,
) -> list[Step]:
    source = find_input(route, objects, BASE)
    assert source is not None
    entry_of = (local or {}).get
    return list(
        plan_downloads(
            route,
            *source,
            entries=entries,
            local_entry=entry_of,
            etags=lambda name, sizes: [md5(name)],
            shard=shard,
            folded=folded,
            noted=noted,
        )
    )


def uploads(
    files: dict[str, LocalEntry],
    objects: Sequence[StoredObject] | None = (),
    route: Route = ROUTE,
    entries: Sequence[RecordEntry] = (),
    md5: Callable[[str], str] = never,
    wanted: Callable[[str, LocalEntry], bool] = lambda name, local: True,
) -> list[Step]:
    ends = Ends(BASE / "in", "bucket", "in/")
    named: Iterator[tuple[str, StoredObject]] | None = None
    if objects is not None:
        named = ((stored.key[len("in/") :], stored) for stored in objects)
    return list(
        plan_uploads(
            route,
            ends,
            sorted(files.items()),
            objects=named,
            entries=entries,
            etags=lambda name, sizes: [md5(name)],
            wanted=wanted,
        )
    )


def stored(name: str, size: int = 1, mark: str = "", md5: str | None = None) -> StoredObject:
    return StoredObject("in/" + name, size, md5, f'"{mark or md5}"' if mark or md5 else "")


def file(size: int = 1, mtime_ns: int = 0) -> LocalEntry:
    return LocalEntry("file", size, mtime_ns)


def decisions(steps: Sequence[Step]) -> list[tuple[str, str, str]]:
    return [(step.action, step.name, step.reason) for step in steps]


def md5_of(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


class TestKeys:
    """Each odd key has one result."""

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("../esc", "a part that is '.' or '..'"),
            ("a/../b", "a part that is '.' or '..'"),
            ("./a", "a part that is '.' or '..'"),
            ("/etc/passwd", "an empty part between two '/', or a '/' at an end"),
            ("a//b", "an empty part between two '/', or a '/' at an end"),
            ("a\0b", "a NUL character"),
            ("x" * 256, "a part longer than 255 bytes"),
            ("ü" * 128, "a part longer than 255 bytes"),
            ("\ud800", "a character that a file name here cannot have"),
        ],
    )
    def test_a_key_that_cannot_be_a_file_below_the_target_is_refused(self, name: str, reason: str) -> None:
        assert decisions(downloads(stored(name))) == [(REFUSE, name, reason)]

    @pytest.mark.parametrize(
        "name", ["new\nline", "back\\slash", "-rf *", " ", "ü", "/".join(["d" * 200] * 5)]
    )
    def test_a_key_that_is_merely_unusual_is_copied(self, name: str) -> None:
        assert decisions(downloads(stored(name))) == [(COPY, name, "not here")]

    @pytest.mark.parametrize(("more", "action"), [(0, COPY), (1, REFUSE)])
    def test_the_longest_path_is_copied(self, more: int, action: str) -> None:
        """4,095 bytes with `/base/in/`: Linux allows 4,096 with a NUL at the end."""
        name = "/".join(["d" * 255] * 15 + ["ü" * 123])
        name += "x" * (4095 - len("/base/in/") - len(name.encode()) + more)
        assert [step.action for step in downloads(stored(name))] == [action]

    @pytest.mark.parametrize("name", ["../", "a/../", "./", "/etc/", "a//", "x" * 256 + "/", "a\0/"])
    def test_a_marker_leads_nowhere_else(self, name: str) -> None:
        assert [step.action for step in downloads(stored(name, 0))] == [REFUSE]

    def test_a_long_path_of_four_byte_characters_is_refused(self) -> None:
        """Fewer than 4,095 characters."""
        name = "/".join(["\U0001f600" * 60] * 20)
        assert decisions(downloads(stored(name))) == [(REFUSE, name, "a path longer than 4095 bytes")]

    def test_a_marker_is_an_empty_directory(self) -> None:
        steps = downloads(
            stored("", 0), stored("a/", 0), stored("b/", 0), local={"b/": LocalEntry("directory", 0, 0)}
        )
        assert decisions(steps) == [(MAKE, "a/", "an empty directory"), (SKIP, "b/", "unchanged")]
        (blocked,) = downloads(stored("c/", 0), local={"c/": file(5)})
        assert (blocked.action, blocked.reason) == (REFUSE, "a file is in the place of this directory")
        assert [step.size for step in (*steps, blocked)] == [0, 0, 0]

    def test_a_marker_with_content_is_refused(self) -> None:
        assert [step.action for step in downloads(stored("a/", 1))] == [REFUSE]

    def test_the_content_of_the_routes_own_marker_is_left_out_and_named(self) -> None:
        (step, kept) = downloads(stored("", 3), stored("a"))
        assert (step.action, step.named, step.size) == (SKIP, True, 3)
        assert step.reason == "a directory has no content: the 3 bytes of 'in/' are left out"
        assert kept.action == COPY

    def test_a_file_wins_over_a_marker_of_its_name(self) -> None:
        steps = downloads(stored("a"), stored("a/", 0))
        assert decisions(steps) == [(COPY, "a", "not here"), (SKIP, "a/", "a is a file, not a directory")]

    def test_a_file_cannot_be_a_directory(self) -> None:
        names = ("a", "a!", "a-b", "a/b", "a/c/d", "a0")
        steps = decisions(downloads(*map(stored, names)))
        assert [step[0] for step in steps] == [COPY, COPY, COPY, REFUSE, REFUSE, COPY]
        assert steps[3][2] == "a is a file, not a directory"

    @pytest.mark.parametrize(("folded", "action"), [(False, COPY), (True, REFUSE)])
    def test_keys_that_differ_in_case_are_two_files_unless_the_disk_ignores_case(
        self, folded: bool, action: str
    ) -> None:
        steps = downloads(stored("README"), stored("b"), stored("readme"), folded=folded)
        assert [step.action for step in steps] == [COPY, COPY, action]

    def test_a_directory_in_the_place_of_a_file_is_refused(self) -> None:
        local = {
            "a": LocalEntry("directory", 0, 0),
            "b/": LocalEntry("file", 0, 0),
            "c": LocalEntry("link", 1, 0),
        }
        steps = downloads(stored("a"), stored("b/", 0), stored("c"), local=local)
        assert [step.action for step in steps] == [REFUSE, REFUSE, COPY]

    def test_a_listing_is_not_read_beyond_the_route(self) -> None:
        def listing() -> Iterator[StoredObject]:
            for key in ("data-1/x", "data.zip", "data/a", "data0"):
                yield StoredObject(key, 1, None)
            raise AssertionError("the rest of the listing is not needed")

        source = find_input(Route("d", ObsUrl("bucket", "data")), listing(), BASE)
        assert source is not None
        assert [name for name, _ in source[1]] == ["a"]

    def test_a_name_that_cannot_be_a_key_is_not_uploaded(self) -> None:
        assert key_problem("ü" * 512) is None
        assert key_problem("ü" * 512 + "x") == "its key would have 1025 bytes, OBS allows 1024"
        assert key_problem("\udcff") == "its name is not UTF-8, as a key must be"

    def test_printable_text_stays_on_one_line(self) -> None:
        assert printable("a\n\x1b[31m\u202eb\ud800") == "a\\n\\x1b[31m\\u202eb\\ud800"


@given(st.lists(st.text(st.sampled_from("ab/.-"), min_size=1, max_size=5), unique=True), st.booleans())
def test_clashes_are_found_as_a_simpler_rule_finds_them(names: list[str], folded: bool) -> None:
    names = sorted(name for name in names if not name_problem(name))
    clashes = Clashes(folded)
    clashing = [name for name in names if clashes.problem(name)]
    assert clashing == [name for name in names if any(name.startswith(other + "/") for other in names)]


@pytest.mark.invariant("No key and no link leads out of its target")
@given(st.lists(st.text(max_size=12), unique=True, max_size=8))
def test_no_key_leaves_its_target(names: list[str]) -> None:
    objects = sorted((stored(name) for name in names), key=lambda item: item.key)
    if not objects:
        return
    for step in downloads(*objects):
        if step.action == COPY:
            path = os.path.join("/base/in", step.name)
            assert os.path.normpath(path) == path
            assert path.startswith("/base/in/")


@pytest.mark.parametrize(
    ("local", "key", "keys", "expected"),
    [
        ("d", "data", ["data/a", "data/b/c"], ["/base/d/a", "/base/d/b/c"]),  # a directory
        ("d", "data/", ["data/a"], ["/base/d/a"]),  # with or without a trailing slash
        ("d/", "data", ["data/a"], ["/base/d/a"]),
        ("/abs/d", "data", ["data/a"], ["/abs/d/a"]),
        ("./d", "", ["a", "b/c"], ["/base/d/a", "/base/d/b/c"]),  # the whole bucket
        ("f", "data/a.zip", ["data/a.zip"], ["/base/f"]),  # a file
        ("f/", "data/a.zip", ["data/a.zip"], ["/base/f/a.zip"]),
        ("d", "data", ["data", "data/a"], ["/base/d"]),  # the object of exactly this key
        ("d", "data/", ["data/", "data/a"], ["/base/d/a"]),
        ("d", "data", ["data2/a", "data.zip"], None),  # keys that only look alike
        ("d", "data/", ["data2/a"], None),
        ("d", "data", ["data/"], []),  # an empty directory exists
        ("d", "data", [], None),
    ],
)
def test_which_object_becomes_which_file(
    local: str, key: str, keys: list[str], expected: list[str] | None
) -> None:
    objects = [StoredObject(name, 0 if name.endswith("/") else 1, None) for name in keys]
    route = Route(local, ObsUrl("bucket", key))
    source = find_input(route, objects, BASE)
    if source is None:
        assert expected is None
        return
    steps = downloads(*objects, route=route)
    assert {step.action for step in steps} <= {COPY}
    assert [str(source[0].root / step.name) for step in steps] == expected


class TestSelection:
    """Patterns and shards."""

    @pytest.mark.parametrize(
        ("include", "exclude", "taken"),
        [
            ([], [], ["a.txt", "b.bin", "sub/", "sub/c.txt", "tmp/d.txt"]),
            (["*.txt"], [], ["a.txt", "sub/c.txt", "tmp/d.txt"]),
            (["/*.txt"], [], ["a.txt"]),
            (["sub/"], [], ["sub/", "sub/c.txt"]),
            (["*.txt", "!sub/*"], [], ["a.txt", "tmp/d.txt"]),
            ([], ["tmp/", "*.bin"], ["a.txt", "sub/", "sub/c.txt"]),
            (["*.txt"], ["tmp"], ["a.txt", "sub/c.txt"]),
            (["**/c.txt"], [], ["sub/c.txt"]),
        ],
    )
    def test_patterns_are_those_of_a_gitignore(
        self, include: list[str], exclude: list[str], taken: list[str]
    ) -> None:
        chosen = selected(include, exclude) or bool
        names = ["a.txt", "b.bin", "sub/", "sub/c.txt", "tmp/d.txt"]
        assert [name for name in names if chosen(name)] == taken

    def test_unselected_files_are_neither_refused_nor_copied(self) -> None:
        route = Route("in", ObsUrl("bucket", "in/"), exclude=("bad*",))
        steps = downloads(stored("bad//key"), stored("good"), route=route)
        assert decisions(steps) == [(SKIP, "bad//key", "not selected"), (COPY, "good", "not here")]

    def test_each_node_downloads_only_its_shard(self) -> None:
        route = Route("in", ObsUrl("bucket", "in/"), shard=True)
        objects = [stored(name, size) for name, size in zip("abcdef", (900_000, 10, 10, 10, 10, 900_000))]
        parts = [downloads(*objects, route=route, shard=Shard(index, 3)) for index in range(3)]
        names = [[step.name for step in steps if step.action == COPY] for steps in parts]
        assert names == [["a"], ["b", "d", "f"], ["c", "e"]]
        assert {step.reason for step in parts[0] if step.action == SKIP} == {"another node's part"}

    def test_without_shard_each_node_downloads_everything(self) -> None:
        assert (
            len([s for s in downloads(stored("a"), stored("b"), shard=Shard(1, 2)) if s.action == COPY]) == 2
        )


@given(st.lists(st.integers(0, 10_000_000), max_size=40), st.integers(1, 9))
def test_shards_are_complete_distinct_and_balanced(sizes: list[int], count: int) -> None:
    sharers = [sharer(Shard(index, count)) for index in range(count)]
    owners = [[index for index, mine in enumerate(sharers) if mine(size)] for size in sizes]
    assert all(len(owner) == 1 for owner in owners)
    loads = [
        sum(size + FILE_COST for size, owner in zip(sizes, owners) if owner == [index])
        for index in range(count)
    ]
    assert max(loads) - min(loads) <= max(sizes, default=0) + FILE_COST


def test_the_index_of_a_shard_is_less_than_the_count() -> None:
    with pytest.raises(ValueError, match="expected 0 to 1"):
        Shard(2, 2)


class TestDownloadAgain:
    """Downloads to a disk that has files already."""

    def test_an_unchanged_file_is_skipped_without_reading_it(self) -> None:
        steps = downloads(
            stored("a", mark="x-3"), entries=[RecordEntry("a", 1, 7, "x-3")], local={"a": file(mtime_ns=7)}
        )
        assert decisions(steps) == [(SKIP, "a", "unchanged")]

    @pytest.mark.parametrize(
        ("entry", "mark", "action", "learned"),
        [
            (None, "x-3", SKIP, True),
            (None, "y-3", COPY, False),
            ("x-3", None, SKIP, False),
            ("y-3", "x-3", COPY, False),
            (None, None, COPY, False),
        ],
    )
    def test_a_file_with_a_mark_of_its_object_needs_no_record(
        self, entry: str | None, mark: str | None, action: str, learned: bool
    ) -> None:
        """A run that was killed recorded nothing; the next one records what it finds so."""
        (step,) = downloads(
            stored("a", mark="x-3"),
            entries=[RecordEntry("a", 1, 7, entry)] if entry else [],
            local={"a": file(1, 7)},
            noted=lambda name: RecordEntry(name, 1, 7, mark) if mark else None,
        )
        assert (step.action, step.learned) == (action, learned)

    def test_a_file_that_is_not_here_is_not_asked_what_it_is_a_copy_of(self) -> None:
        assert decisions(downloads(stored("a"), noted=lambda name: pytest.fail("it is asked"))) == [
            (COPY, "a", "not here")
        ]

    @pytest.mark.parametrize(
        ("entry", "local", "reason"),
        [
            (None, None, "not here"),
            (RecordEntry("a", 1, 7, "x-3"), None, "not here"),
            (RecordEntry("a", 1, 7, "x-3"), file(2, 7), "another size"),
            (RecordEntry("a", 1, 7, "x-3"), file(1, 8), "changed here"),
            (RecordEntry("a", 1, 7, "y-3"), file(1, 7), "changed in OBS"),
            (RecordEntry("a", 1, 7, ""), file(1, 7), "changed in OBS"),
            (None, file(1, 7), "its content is not known"),
        ],
    )
    def test_files_that_may_have_changed_are_downloaded(
        self, entry: RecordEntry | None, local: LocalEntry | None, reason: str
    ) -> None:
        entries = [entry] if entry else []
        steps = downloads(stored("a", mark="x-3"), entries=entries, local={"a": local} if local else {})
        assert decisions(steps) == [(COPY, "a", reason)]

    @pytest.mark.parametrize(("content", "action"), [(b"a", SKIP), (b"b", COPY)])
    def test_without_a_record_the_content_decides_if_its_md5_is_known(
        self, content: bytes, action: str
    ) -> None:
        (step,) = downloads(
            stored("a", md5=md5_of(b"a")), local={"a": file()}, md5=lambda name: md5_of(content)
        )
        assert step.action == action
        assert step.learned == (action == SKIP)

    @pytest.mark.parametrize("checksum", [False, True])
    @pytest.mark.parametrize(("in_obs", "action"), [(b"ab", SKIP), (b"ac", COPY)])
    def test_without_a_record_the_parts_decide_of_which_the_etag_is_made(
        self, checksum: bool, in_obs: bytes, action: str
    ) -> None:
        """The ETag of two parts of a byte each; an upload has it without an MD5 in the record."""

        def etags(name: str, sizes: tuple[int, ...]) -> list[str]:
            assert 1 in sizes
            return [etag_of_parts((md5_of(b"a"), md5_of(b"b")))]

        tag = etag_of_parts((md5_of(in_obs[:1]), md5_of(in_obs[1:])))
        item = StoredObject("a", 2, None, f'"{tag}"')
        for recorded in (None, RecordEntry("a", 2, 7, tag)):
            entry = recorded if checksum else None
            for step in (
                compare_download("a", item, file(2, 7), entry=entry, checksum=checksum, etags=etags),
                compare_upload(
                    "a", file(2, 7), item, listed=True, entry=entry, checksum=checksum, etags=etags
                ),
            ):
                assert (step.action, step.learned) == (action, action == SKIP)

    @pytest.mark.parametrize(("content", "action"), [(b"a", SKIP), (b"b", COPY)])
    def test_checksum_reads_what_the_record_trusts(self, content: bytes, action: str) -> None:
        """A corrupt file keeps its size and time."""
        for md5, mark in ((md5_of(b"a"), ""), (None, "x-3")):
            (step,) = downloads(
                stored("a", md5=md5, mark=mark),
                route=Route("in", ObsUrl("bucket", "in/"), checksum=True),
                entries=[RecordEntry("a", 1, 7, mark or md5 or "", md5_of(b"a"))],
                local={"a": file(1, 7)},
                md5=lambda name: md5_of(content),
            )
            assert step.action == action

    def test_an_md5_in_the_record_is_that_of_the_object_that_it_names(self) -> None:
        """The file is still what was fetched, and the object another one since: its content is not known."""
        steps = downloads(
            stored("a", mark="new-3"),
            route=Route("in", ObsUrl("bucket", "in/"), checksum=True),
            entries=[RecordEntry("a", 1, 7, "old-3", md5_of(b"a"))],
            local={"a": file(1, 7)},
            md5=lambda name: md5_of(b"a"),
        )
        assert decisions(steps) == [(COPY, "a", "its content is not known")]

    def test_delete_removes_what_was_downloaded_and_is_gone_but_nothing_else(self) -> None:
        entries = [RecordEntry(name, 1, 7, "x") for name in ("a", "b", "c", "d", "z")]
        local = {"a": file(1, 7), "b": file(1, 8), "d": file(1, 7), "other": file(), "z": file(1, 7)}
        for delete in (False, True):
            route = Route("in", ObsUrl("bucket", "in/"), delete=delete)
            steps = downloads(stored("d", mark="x"), route=route, entries=entries, local=local)
            gone = [step.name for step in steps if step.action == DELETE]
            assert gone == (["a", "z"] if delete else [])


class TestUploadAgain:
    """Uploads to a target that has objects already."""

    def test_an_output_is_compared_with_its_target(self) -> None:
        files = {name: file(1, 7) for name in "abcdef"}
        objects = [
            stored("b", 2),
            stored("c", mark="x"),
            stored("d", mark="x"),
            stored("e", mark="x"),
            stored("f", mark="x"),
        ]
        entries = [
            RecordEntry("c", 1, 7, "x"),
            RecordEntry("d", 1, 7, ""),
            RecordEntry("e", 1, 8, "x"),
            RecordEntry("f", 1, 7, "y"),
        ]
        assert decisions(uploads(files, objects, entries=entries)) == [
            (COPY, "a", "not in OBS"),
            (COPY, "b", "another size"),
            (SKIP, "c", "unchanged"),
            (COPY, "d", "changed in OBS"),  # sent by the last run, which got no ETag: it may be another one
            (COPY, "e", "changed here"),
            (COPY, "f", "changed in OBS"),
        ]  # fmt: skip

    def test_without_a_listing_the_record_decides(self) -> None:
        steps = uploads(
            {"a": file(1, 7), "b": file(1, 8)},
            None,
            entries=[RecordEntry("a", 1, 7, ""), RecordEntry("b", 1, 7, "")],
        )
        assert decisions(steps) == [(SKIP, "a", "sent already"), (COPY, "b", "not sent yet")]

    def test_empty_directories_become_markers_once(self) -> None:
        files = {"a/": LocalEntry("directory", 0, 0), "b/": LocalEntry("directory", 0, 0)}
        assert [(s.action, s.name) for s in uploads(files, [stored("b/", 0)])] == [(MAKE, "a/"), (SKIP, "b/")]

    def test_without_a_listing_the_record_tells_which_empty_directories_have_markers(self) -> None:
        files = {"a/": LocalEntry("directory", 0, 0), "b/": LocalEntry("directory", 0, 0)}
        assert decisions(uploads(files, None, entries=[RecordEntry("b/", 0, 0, "")])) == [
            (MAKE, "a/", "an empty directory"),
            (SKIP, "b/", "unchanged"),
        ]
        assert [step.size for step in uploads(files, None)] == [0, 0]

    def test_special_files_are_left_out_and_bad_links_refused(self) -> None:
        files = {
            "p": LocalEntry("special", 0, 0, "neither"),
            "q": LocalEntry("link", 0, 0, "a link out of the output, to /etc"),
        }
        assert [(s.action, s.name) for s in uploads(files)] == [(SKIP, "p"), (REFUSE, "q")]

    def test_files_being_written_are_left_to_a_later_upload(self) -> None:
        steps = uploads({"a": file(3), "b": file(4)}, wanted=lambda name, local: local.size != 3)
        assert decisions(steps) == [(SKIP, "a", "still being written"), (COPY, "b", "not in OBS")]

    @pytest.mark.parametrize(
        ("objects", "decided"),
        [
            (None, [(DELETE, "a", False), (DELETE, "b", False)]),
            ([], []),
            ([("b", "x")], [(DELETE, "b", False)]),
            ([("a", "x"), ("b", "y")], [(DELETE, "a", False), (SKIP, "b", True)]),
        ],
        ids=["not listed", "gone in OBS, too", "as it was uploaded", "somebody else's"],
    )
    def test_delete_removes_what_was_uploaded_and_is_gone_here(
        self, objects: list[tuple[str, str]] | None, decided: list[tuple[str, str, bool]]
    ) -> None:
        route = Route("in", ObsUrl("bucket", "in/"), delete=True)
        entries = [RecordEntry(name, 1, 7, "x") for name in "abc"]
        listed = None if objects is None else [stored(name, mark=mark) for name, mark in objects]
        files = {"c": file(1, 7)}
        steps = [step for step in uploads(files, listed, route, entries) if step.name != "c"]
        assert [(step.action, step.name, step.named) for step in steps] == decided

    def test_delete_removes_nothing_after_an_unreadable_directory(self) -> None:
        route = Route("in", ObsUrl("bucket", "in/"), delete=True)
        for kind, actions in (("directory", [REFUSE]), ("special", [SKIP, DELETE])):  # which hides nothing
            files = {"a/": LocalEntry(kind, 0, 0, "cannot be read")}
            steps = uploads(files, None, route, [RecordEntry("a/b", 1, 7, "")])
            assert [step.action for step in steps] == actions


CONTENTS = st.sampled_from([b"a", b"b", b"cc"])
TIMES = st.integers(0, 2)


@given(CONTENTS, CONTENTS, st.one_of(st.none(), CONTENTS), st.booleans(), st.booleans(), st.booleans())
def test_skipped_files_have_the_right_content(
    here: bytes, in_obs: bytes, moved: bytes | None, plain: bool, checksum: bool, sending: bool
) -> None:
    """`moved` was the content on both sides when it was recorded; None for no record.

    A file that changed since has another time, an object another mark: that is all that either promises.
    """
    md5 = md5_of(in_obs) if plain else None
    item = StoredObject(
        "k", len(in_obs), md5, f'"{md5}"' if plain else f'"{etag_of_parts((md5_of(in_obs),))}"'
    )
    local = file(len(here), 1 if here != moved else 0)
    entry = None
    if moved is not None:
        mark = item.etag.strip('"') if in_obs == moved else "before"
        entry = RecordEntry("k", len(moved), 0, mark, md5_of(moved) if checksum else "")
    calls: list[bytes] = []

    def read(name: str, sizes: tuple[int, ...]) -> list[str]:
        calls.append(here)
        parts = ContentSum(Checksums(part_sizes=sizes))
        parts.add(here)
        return parts.etags() if sizes else [md5_of(here)]

    if sending:
        verdict = compare_upload("k", local, item, listed=True, entry=entry, checksum=checksum, etags=read)
    else:
        verdict = compare_download("k", item, local, entry=entry, checksum=checksum, etags=read)
    assert verdict.action in (COPY, SKIP)
    assert here == in_obs or verdict.action == COPY
    assert len(calls) <= 1
    if here == in_obs and (moved is None or here == moved):
        assert verdict.action == SKIP


@given(st.lists(st.tuples(st.text("ab/", min_size=1, max_size=4), TIMES), max_size=6), st.booleans())
def test_a_second_run_with_nothing_to_do_does_nothing(files: list[tuple[str, int]], sending: bool) -> None:
    names = {name: time for name, time in files if not name_problem(name)}
    clashes = Clashes(False)
    names = {name: names[name] for name in sorted(names) if not clashes.problem(name)}
    if not names:
        return
    entries = [RecordEntry(name, 1, time, f"m{time}") for name, time in names.items()]
    objects = [stored(name, mark=f"m{time}") for name, time in names.items()]
    local = {name: file(1, time) for name, time in names.items()}
    steps = (
        uploads(local, objects, entries=entries)
        if sending
        else downloads(*objects, entries=entries, local=local)
    )
    assert {step.action for step in steps} == {SKIP}


def test_the_newest_and_smallest_goes_first() -> None:
    minute = 60 * 10**9
    files = {
        "meta": (1_000, 10**9),
        "weights": (10**9, 0),
        "old log": (10, 60 * minute),
        "older": (1, 600 * minute),
    }
    assert sorted(files, key=lambda name: urgency(*files[name])) == ["meta", "weights", "old log", "older"]


@pytest.mark.parametrize(
    ("seconds", "step"), [(-5, 0), (0, 0), (59.9, 0), (60, 1), (179.9, 1), (180, 2), (419.9, 2), (420, 3)]
)
def test_the_steps_of_age_double_from_a_minute(seconds: float, step: int) -> None:
    assert urgency(1, round(seconds * 1e9)) == (step, 1)


class TestSpace:
    """The disk has room for a download, or is named."""

    def test_the_free_space_is_that_of_the_nearest_directory_that_exists(self, tmp_path: Path) -> None:
        free = free_space(tmp_path / "not" / "here")
        assert free.device == os.stat(tmp_path).st_dev
        assert free.size == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.2)
        assert (free.files is None) == (os.statvfs(tmp_path).f_files == 0)

    def test_targets_on_one_disk_share_its_space(self) -> None:
        needs = {
            Path("/a"): SpaceNeed(60, 3, 0),
            Path("/b"): SpaceNeed(50, 3, 0),
            Path("/c"): SpaceNeed(1, 1, 0),
        }
        disk, other = FreeSpace(1, 100, 5), FreeSpace(2, 100, None)
        problems = shortages(needs, {Path("/a"): disk, Path("/b"): disk, Path("/c"): other})
        assert len(problems) == 2
        assert problems[0].startswith("/a, /b: 0.000 GB needed")
        large = {Path("/a"): SpaceNeed(3 * 10**9, 1, 10**9)}
        assert shortages(large, {Path("/a"): FreeSpace(1, 2 * 10**9, 9)}) == [
            "/a: 4.000 GB needed, 2.000 GB free: use another disk, or less data"
        ]
        assert problems[1] == "/a, /b: 6 inodes needed, 5 free: use another disk"

    def test_a_replaced_file_takes_its_space_twice_for_a_moment(self) -> None:
        need = SpaceNeed().plus(10, None).plus(8, 8).plus(5, 2).plus(3, 4)
        assert need == SpaceNeed(13, 1, 8)
        assert shortages({Path("/a"): need}, {Path("/a"): FreeSpace(1, 21, 1)}) == []
        assert shortages({Path("/a"): need}, {Path("/a"): FreeSpace(1, 20, 1)}) != []
