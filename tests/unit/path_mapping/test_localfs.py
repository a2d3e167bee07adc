"""Reads and writes on the local disk: whole or not at all, where they belong, and never through a link."""

from __future__ import annotations

import ctypes.util
import fcntl
import os
import resource
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from path_mapping.errors import Unreachable, UnsafeTarget
from path_mapping.localfs import atomic_file
from path_mapping.localfs.atomic_file import (
    FileMark,
    PartJournal,
    TargetDir,
    check_contained,
    has_local_locks,
    host_mark,
    is_locked,
    leftovers,
    lock,
    make_directories,
    put_mark,
    read_mark,
    stem_of,
    write_all,
    write_verified,
)
from path_mapping.localfs.names import is_temporary, name_problem
from path_mapping.localfs.source_file import (
    FileChanged,
    RangeReader,
    by_liblzma,
    check_unchanged,
    chunks,
    crc64,
    load_lzma_crc64,
    state_of,
)
from tests.requirement import unavailable

ROOT = Path(__file__).parents[3]
MD5_OF_ABC = "900150983cd24fb0d6963f7d28e17f72"


@pytest.fixture(params=[0, 0o077], ids=["open umask", "strict umask"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[TargetDir]:
    directory = TargetDir(str(tmp_path / "in"), str(tmp_path))
    yield directory
    directory.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_what_is_below_the_root_is_contained(tmp_path: Path) -> None:
    for root in (tmp_path, Path("/")):
        check_contained(tmp_path / "file", root)
        check_contained(tmp_path / "a" / "b" / "file", root)
    for file in (tmp_path / "in2" / "file", tmp_path / "file"):
        with pytest.raises(UnsafeTarget):
            check_contained(file, tmp_path / "in")


class TestDirectories:
    """Directories that are made on the way."""

    @pytest.mark.parametrize("umask", [0], indirect=True)
    def test_all_that_are_missing_for_the_user_and_the_group(self, tmp_path: Path, umask: int) -> None:
        made = make_directories(tmp_path / "a" / "b" / "c")
        assert made == [tmp_path / "a" / "b" / "c", tmp_path / "a" / "b", tmp_path / "a"]
        assert {mode(path) for path in made} == {0o750}
        assert make_directories(tmp_path / "a" / "b") == []

    def test_undoing_removes_what_was_made_and_is_empty(self, tmp_path: Path) -> None:
        (tmp_path / "there").mkdir()
        directory = TargetDir(str(tmp_path / "there" / "a" / "b"), str(tmp_path))
        (tmp_path / "there" / "a" / "file").touch()
        directory.undo()
        directory.close()
        assert sorted(path.name for path in (tmp_path / "there").rglob("*")) == ["a", "file"]
        (tmp_path / "there" / "a" / "file").unlink()
        again = TargetDir(str(tmp_path / "there" / "x" / "y"), str(tmp_path))
        again.undo()
        again.close()
        assert [path.name for path in (tmp_path / "there").iterdir()] == ["a"]

    def test_a_file_is_no_directory(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(NotADirectoryError):
            TargetDir(str(tmp_path / "file"), str(tmp_path))


class TestUnfinishedFiles:
    """Files that have not got their names yet."""

    @pytest.mark.parametrize("umask", [0], indirect=True)
    def test_one_belongs_to_the_user_and_the_group_and_is_locked(
        self, tmp_path: Path, opened: TargetDir, umask: int
    ) -> None:
        temporary, file = opened.create("a")
        common, other = opened.create("b", ".b.0123456789abcdef.ma_part")
        assert is_temporary(temporary)
        assert common == ".b.0123456789abcdef.ma_part"
        with pytest.raises(FileExistsError):
            opened.create("b", common)
        for name, descriptor in ((temporary, file), (common, other)):
            path = tmp_path / "in" / name
            assert mode(path) == 0o640
            assert is_locked(str(path))
            assert list(leftovers(str(tmp_path / "in"))) == []
            os.write(descriptor, b"content")
            assert os.pread(descriptor, 7, 0) == b"content"
        for descriptor in (file, other):
            os.close(descriptor)
        assert not is_locked(str(tmp_path / "in" / temporary))
        assert len(list(leftovers(str(tmp_path / "in")))) == 2

    def test_one_of_an_earlier_run_is_resumed_with_its_content(
        self, tmp_path: Path, opened: TargetDir
    ) -> None:
        name = ".a.0123456789abcdef.ma_part"
        (tmp_path / "in" / name).write_bytes(b"half")
        file = opened.resume(name, 4)
        assert file is not None
        assert os.pread(file, 10, 0) == b"half"
        opened.commit(name, "a", file)
        os.close(file)
        assert [path.name for path in (tmp_path / "in").iterdir()] == ["a"]
        opened.discard(name)

    def test_one_of_another_size_is_removed(self, tmp_path: Path, opened: TargetDir) -> None:
        name = ".a.0123456789abcdef.ma_part"
        (tmp_path / "in" / name).write_bytes(b"half")
        assert opened.resume(name, 5) is None
        assert list((tmp_path / "in").iterdir()) == []
        assert opened.resume(name, 5) is None

    def test_one_that_is_locked_is_left_alone(self, tmp_path: Path, opened: TargetDir) -> None:
        name = ".a.0123456789abcdef.ma_part"
        with (tmp_path / "in" / name).open("wb") as file:
            assert lock(file.fileno())
            assert opened.resume(name, 0) is None
            assert opened.resume(name, 7) is None
        assert (tmp_path / "in" / name).exists()

    def test_one_that_lost_its_name_before_it_was_locked_is_not_resumed(
        self, tmp_path: Path, opened: TargetDir, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = ".a.0123456789abcdef.ma_part"
        (tmp_path / "in" / name).write_bytes(b"whole")

        def moved_before(file: int, operation: int) -> None:
            (tmp_path / "in" / name).rename(tmp_path / "in" / "a")

        monkeypatch.setattr(fcntl, "flock", moved_before)
        assert opened.resume(name, 5) is None
        assert (tmp_path / "in" / "a").read_bytes() == b"whole"

    @pytest.mark.parametrize("replaced", [True, False])
    def test_one_that_another_process_took_does_not_move_into_place(
        self, tmp_path: Path, opened: TargetDir, replaced: bool
    ) -> None:
        temporary, file = opened.create("a")
        (tmp_path / "in" / temporary).rename(tmp_path / "in" / "a")
        if replaced:
            (tmp_path / "in" / temporary).write_bytes(b"of another process")
        with pytest.raises(FileNotFoundError, match="another process took the unfinished file"):
            opened.commit(temporary, "a", file)
        os.close(file)
        assert (tmp_path / "in" / "a").read_bytes() == b""

    def test_where_locks_are_local_another_hosts_are_kept_for_a_day(
        self, tmp_path: Path, opened: TargetDir, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own, file = opened.create("a")
        os.close(file)
        journal = tmp_path / "in" / f".a.{host_mark()}01234567.parts.ma_part"
        theirs, old = (tmp_path / "in" / f".a.{mark}.ma_part" for mark in ("0" * 16, "1" * 16))
        for path in (journal, theirs, old):
            path.touch()
        yesterday = time.time() - 86_500
        os.utime(old, (yesterday, yesterday))
        directory = tmp_path / "in"
        assert sorted(leftovers(str(directory))) == sorted(map(str, directory.iterdir()))
        monkeypatch.setattr(atomic_file, "locks_are_local", lambda path: True)
        assert sorted(leftovers(str(directory))) == sorted(map(str, (directory / own, journal, old)))

    @pytest.mark.parametrize(
        ("mount", "local"),
        [
            (
                "/ /sfs rw,noatime shared:9 - nfs sfs.example.com:/ rw,vers=3,nolock,proto=tcp,local_lock=all",
                True,
            ),
            ("/ /sfs rw - nfs 192.0.2.7:/ rw,vers=3,local_lock=flock,addr=192.0.2.7", True),
            ("/ /sfs rw - nfs4 192.0.2.7:/ rw,vers=4.1,local_lock=none,addr=192.0.2.7", False),
            ("/ /mnt rw - fuse.obsfs obsfs rw,user_id=0", True),
            ("/ /mnt rw - lustre 192.0.2.7@tcp:/fs rw,localflock", True),
            ("/ /mnt rw - lustre 192.0.2.7@tcp:/fs rw,flock", False),
            ("/nolock /mnt/nolock rw - ext4 /dev/vdb rw", False),
        ],
    )
    def test_mount_options_tell_whether_locks_are_local(self, mount: str, local: bool) -> None:
        mounts = f"21 1 8:1 / / rw - ext4 /dev/vda rw\n30 21 0:53 {mount}\n31 21 0:54 / /x rw - fuse.x x rw\n"
        assert has_local_locks(mounts, os.makedev(0, 53)) is local
        assert not has_local_locks(mounts, os.makedev(8, 1))

    def test_a_link_in_its_place_is_not_followed(self, tmp_path: Path, opened: TargetDir) -> None:
        (tmp_path / "theirs").write_text("theirs")
        link = tmp_path / "in" / ".a.0123456789abcdef.ma_part"
        link.symlink_to(tmp_path / "theirs")
        assert opened.resume(link.name, 6) is None
        assert is_locked(str(link)), "unknown: it is left alone"
        handle = os.open(tmp_path / "in", os.O_RDONLY)
        with pytest.raises(OSError, match="symbolic links"):
            PartJournal(link.name, handle)
        os.close(handle)
        assert (tmp_path / "theirs").read_text() == "theirs"

    def test_a_pipe_in_its_place_does_not_block(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        assert not is_locked(str(tmp_path / "pipe"))

    def test_there_are_no_leftovers_without_a_directory(self, tmp_path: Path) -> None:
        (tmp_path / "plain").touch()
        assert list(leftovers(str(tmp_path))) == list(leftovers(str(tmp_path / "not here"))) == []

    @pytest.mark.parametrize("name", ["x" * 255, "ü" * 127, "x"])
    def test_any_name_of_a_file_has_room_for_an_unfinished_one(
        self, tmp_path: Path, opened: TargetDir, name: str
    ) -> None:
        assert os.fsencode(name).startswith(os.fsencode(stem_of(name)))
        temporary, file = opened.create(name)
        opened.commit(temporary, name, file)
        os.close(file)
        assert [path.name for path in (tmp_path / "in").iterdir()] == [name]

    @pytest.mark.parametrize(
        ("name", "temporary"),
        [
            (".a.0123456789ab.ma_part", True),
            (".a.0123456789abcdef.parts.ma_part", True),
            (".a\nb.0123456789ab.ma_part", True),
            ("a.0123456789ab.ma_part", False),
            (".a.0123456789a.ma_part", False),
            (".a.0123456789abcdef0.ma_part", False),
            (".a.0123456789ab.ma_part2", False),
            ("mine.ma_part", False),
        ],
    )
    def test_their_names(self, name: str, temporary: bool) -> None:
        assert is_temporary(name) is temporary
        assert (name_problem(f"directory/{name}") is not None) is temporary
        assert name_problem(f"{name}/file") is None, "a directory of that name is nobody's"


def test_a_part_of_255_bytes_is_the_longest() -> None:
    assert name_problem("d" * 255 + "/x") is None
    assert name_problem("d" * 256 + "/x") == "a part longer than 255 bytes"


class TestWriting:
    """Files are written completely or not at all."""

    def test_at_an_offset(self, tmp_path: Path) -> None:
        with (tmp_path / "file").open("w+b") as file:
            file.write(b"0123456789")
            file.flush()
            write_all(file.fileno(), memoryview(b"abc"), 4)
            write_all(file.fileno(), memoryview(b""), 0)
        assert (tmp_path / "file").read_bytes() == b"0123abc789"

    def test_a_disk_that_is_full_in_the_middle_is_an_error(self, tmp_path: Path) -> None:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        with (tmp_path / "file").open("w+b") as file:
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
            try:
                with pytest.raises(OSError, match="File too large"):
                    write_all(file.fileno(), memoryview(b"0123456789abc"), 4)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert (tmp_path / "file").read_bytes() == bytes(4) + b"012345"

    def test_a_verified_file(self, tmp_path: Path, umask: int) -> None:
        (tmp_path / "a").write_text("earlier")
        for md5 in (MD5_OF_ABC, None):
            write_verified(tmp_path / "a", [b"a", b"bc"], 3, md5)
            assert (tmp_path / "a").read_text() == "abc"
            assert mode(tmp_path / "a") == 0o640, "whatever the umask is"
        assert [path.name for path in tmp_path.iterdir()] == ["a"]

    @pytest.mark.parametrize(
        ("pieces", "md5", "message"),
        [
            ([b"ab"], None, "2 bytes arrived, expected 3"),
            ([b"abc", b"d"], None, "more than the expected 3 bytes arrived"),
            ([b"abd"], MD5_OF_ABC, f"expected {MD5_OF_ABC}"),
        ],
    )
    def test_another_content_leaves_the_disk_as_it_was(
        self, tmp_path: Path, pieces: list[bytes], md5: str, message: str
    ) -> None:
        (tmp_path / "a").write_text("earlier")
        for target in (tmp_path / "a", tmp_path / "new" / "deep" / "a"):
            with pytest.raises(Unreachable, match=message):
                write_verified(target, pieces, 3, md5)
        assert [path.name for path in tmp_path.iterdir()] == ["a"]
        assert (tmp_path / "a").read_text() == "earlier"


class TestReading:
    """Files that others may change meanwhile."""

    def test_ranges_in_pieces(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"0123456789")
        checks: list[int] = []
        reader = RangeReader(bytearray(4), lambda: checks.append(1))
        with (tmp_path / "file").open("rb") as file:
            pieces = [bytes(piece) for piece in reader.pieces(file.fileno(), 1, 8)]
            within = [bytes(piece) for piece in reader.pieces(file.fileno(), 1, 6)]
            beyond = [bytes(piece) for piece in reader.pieces(file.fileno(), 8, 5)]
            assert reader.crc_of(file.fileno(), 1, 8) == crc64(b"12345678")
            assert reader.md5_of(file.fileno(), 0, 0) == "d41d8cd98f00b204e9800998ecf8427e"
        assert (pieces, beyond) == ([b"1234", b"5678"], [b"89"])
        assert within == [b"1234", b"56"], "no byte after the range"
        assert len(checks) == 2 + 2 + 2 + 2

    def test_a_file_that_has_changed(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"0123456789")
        with (tmp_path / "file").open("rb") as file:
            before = state_of(os.fstat(file.fileno()))
            check_unchanged(file.fileno(), before)
            os.utime(tmp_path / "file", ns=(0, 7))
            with pytest.raises(FileChanged, match="changed"):
                check_unchanged(file.fileno(), before)
            check_unchanged(file.fileno(), None)

    def test_the_whole_file(self, tmp_path: Path) -> None:
        content = os.urandom((1 << 20) + 3)
        (tmp_path / "file").write_bytes(content)
        assert b"".join(chunks(tmp_path / "file")) == content


class TestMarks:
    """A file that says what it is a copy of."""

    @pytest.mark.parametrize("etag", ["x-2", "with a space"])
    def test_it_says_so_also_under_another_name(self, tmp_path: Path, etag: str) -> None:
        with (tmp_path / "a").open("wb") as file:
            file.write(b"abc")
            file.flush()
            put_mark(file.fileno(), 3, f'"{etag}"')
            written = os.fstat(file.fileno()).st_mtime_ns
        if not os.listxattr(tmp_path / "a"):
            unavailable("this file system has no extended attributes")
        (tmp_path / "a").rename(tmp_path / "b")
        assert read_mark(tmp_path / "b") == FileMark(3, etag, written)
        (tmp_path / "link").symlink_to("b")
        assert read_mark(tmp_path / "link") is None

    def test_without_an_etag_it_says_nothing(self, tmp_path: Path) -> None:
        with (tmp_path / "a").open("wb") as file:
            put_mark(file.fileno(), 0, "")
        assert read_mark(tmp_path / "a") is None
        assert read_mark(tmp_path / "not here") is None

    @pytest.mark.parametrize("text", [b"", b"1 2", b"x 2 e", b"1 y e", b"\xff 2 e"])
    def test_a_foreign_mark_is_none(self, tmp_path: Path, text: bytes) -> None:
        (tmp_path / "a").touch()
        os.setxattr(tmp_path / "a", "user.path_mapping", text)
        assert read_mark(tmp_path / "a") is None


def test_liblzma_is_used_where_it_is_installed() -> None:
    if ctypes.util.find_library("lzma") is None:
        unavailable("liblzma")
    assert by_liblzma() is not None, "ten times as fast"


@pytest.mark.parametrize("name", [None, "libnosuchthing.so.1", "libc.so.6"])
def test_a_library_without_the_checksum_is_none(name: str | None) -> None:
    assert load_lzma_crc64(name) is None


def test_the_journal_of_parts(tmp_path: Path) -> None:
    handle = os.open(tmp_path, os.O_RDONLY)
    journal = PartJournal("journal", handle)
    for number, crc in ((0, 5), (12, 1 << 63), (0, 6)):
        journal.note(number, crc)
    assert journal.known() == {0: 6, 12: 1 << 63}
    journal.note(1, 7)
    with (tmp_path / "journal").open("ab") as file:
        file.write(b"\n2 8 9\n3\nx 1\n4 -1\n5 5")  # the last line is torn
    assert journal.known() == {0: 6, 12: 1 << 63, 1: 7}
    journal.note(6, 6)
    assert journal.known() == {0: 6, 12: 1 << 63, 1: 7, 6: 6, 5: 5}
    journal.close()
    again = PartJournal("journal", handle)
    assert again.known()[12] == 1 << 63
    again.forget()
    assert again.known() == {}
    again.close()
    os.close(handle)


def test_a_lock_of_another_process_is_no_error(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as first, (tmp_path / "file").open("wb") as second:
        assert lock(first.fileno())
        assert not lock(second.fileno())
        assert is_locked(str(tmp_path / "file"))
