"""`import path_mapping as mox`, as scripts of the model zoo use it, with local paths and both stores."""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import path_mapping as mox
from path_mapping.errors import Refused, StoreError
from path_mapping.file import file_tree
from tests.conftest import CREDENTIALS
from tests.obs import MemoryObs, obs_fault

FILES = {"a.txt": b"hello", "b.jpg": b"\xff\xd8", "sub/c.txt": b"c" * 100, "sub/deep/d.txt": b"d"}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test has its own stores."""
    monkeypatch.setattr(file_tree, "_settings", {})
    file_tree.set_auth()
    yield
    file_tree.set_auth()


@pytest.fixture
def directory_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "root" / "bucket").mkdir(parents=True)
    monkeypatch.setenv("PATH_MAPPING_OBS_ROOT", str(tmp_path / "root"))
    return "obs://bucket/base"


@pytest.fixture
def obs_base(obs: MemoryObs, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in {"OBS_ENDPOINT": obs.url, **CREDENTIALS}.items():
        monkeypatch.setenv(name, value)
    return "s3://bucket/base"


@pytest.fixture(params=["directory", "obs"])
def where(request: pytest.FixtureRequest) -> str:
    """A base URL in a bucket."""
    return str(request.getfixturevalue(f"{request.param}_base"))


@pytest.fixture(params=["local", "directory", "obs"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same tree in three places, which must behave the same."""
    place = str(tmp_path / "base")
    if request.param != "local":
        place = str(request.getfixturevalue(f"{request.param}_base"))
    for name, content in FILES.items():
        mox.file.make_dirs(os.path.dirname(f"{place}/{name}"))
        mox.file.write(f"{place}/{name}", content, binary=True)
    return place


class TestEverywhere:
    """Behaviour that is the same on a local path, in a directory in place of OBS, and in OBS."""

    def test_exists_and_is_directory(self, base: str) -> None:
        directories, others = ("", "/", "/sub", "/sub/"), ("/a.txt", "/su", "/none", "/a.txt/x")
        existing = [name for name in (*directories, *others) if mox.file.exists(base + name)]
        assert existing == [*directories, "/a.txt"]
        assert [name for name in existing if mox.file.is_directory(base + name)] == [*directories]
        assert not any(mox.file.is_directory(base + name) for name in others)

    def test_list_directory_and_its_flags(self, base: str) -> None:
        listed = mox.file.list_directory
        assert listed(base) == ["a.txt", "b.jpg", "sub"]
        assert listed(base + "/", remove_sep=False) == ["a.txt", "b.jpg", "sub/"]
        assert listed(base, skip_file=True) == ["sub"]
        assert listed(base, skip_dir=True) == ["a.txt", "b.jpg"]
        assert listed(base, recursive=True) == sorted([*FILES, "sub", "sub/deep"])
        assert listed(base, recursive=True, skip_dir=True) == sorted(FILES)

    def test_missing_files_are_reported(self, base: str) -> None:
        for asked in (mox.file.list_directory, mox.file.stat, mox.file.get_size, mox.file.read):
            with pytest.raises(FileNotFoundError):
                asked(f"{base}/none")
        with pytest.raises(mox.file.MoxFileNotExistsException):
            mox.file.stat(f"{base}/none")
        for copy in (mox.file.copy, mox.file.copy_parallel):
            with pytest.raises(mox.file.MoxFileNotExistsException):
                copy(f"{base}/none", f"{base}/other")

    def test_stat_and_size(self, base: str) -> None:
        stat = mox.file.stat(f"{base}/a.txt")
        assert (stat.length, stat.is_directory) == (5, False)
        assert stat.mtime_nsec > 10**18
        assert mox.file.stat(f"{base}/sub").is_directory
        assert mox.file.get_size(f"{base}/a.txt") == 5
        assert mox.file.get_size(base, recursive=True) == 108

    def test_read_write_append(self, base: str) -> None:
        mox.file.write(f"{base}/new", "naïve\n")
        mox.file.append(f"{base}/new", "more")
        mox.file.append(f"{base}/other", b"\0", binary=True)
        mox.file.append_remote(f"{base}/new", f"{base}/other")
        assert mox.file.read(f"{base}/new") == "naïve\nmore"
        assert mox.file.read(f"{base}/other", binary=True) == b"\0" + "naïve\nmore".encode()

    def test_glob(self, base: str) -> None:
        assert mox.file.glob(f"{base}/*.txt") == [f"{base}/a.txt"]
        assert mox.file.glob(f"{base}/*/?.txt") == [f"{base}/sub/c.txt"]
        assert mox.file.glob(f"{base}/s*") == [f"{base}/sub"]
        assert mox.file.glob(f"{base}/none*") == []
        assert mox.file.glob(f"{base}/sub/c.txt") == [f"{base}/sub/c.txt"]

    def test_walk_and_scan_dir(self, base: str) -> None:
        walked = [
            (top[len(base) :], sorted(names), sorted(files)) for top, names, files in mox.file.walk(base)
        ]
        assert walked == [
            ("", ["sub"], ["a.txt", "b.jpg"]), ("/sub", ["deep"], ["c.txt"]), ("/sub/deep", [], ["d.txt"])
        ]  # fmt: skip
        upwards = [top[len(base) :] for top, _, _ in mox.file.walk(base, topdown=False)]
        assert upwards == ["/sub/deep", "/sub", ""]
        entries = {
            entry.name: (entry.is_dir(), entry.is_file(), entry.path) for entry in mox.file.scan_dir(base)
        }
        assert entries["sub"] == (True, False, f"{base}/sub")
        assert entries["a.txt"] == (False, True, f"{base}/a.txt")

    def test_directories_are_created(self, base: str) -> None:
        mox.file.make_dirs(f"{base}/x/y/z")
        mox.file.make_dirs(f"{base}/x/y/z")
        assert mox.file.is_directory(f"{base}/x/y")
        mox.file.mk_dir(f"{base}/new")
        assert mox.file.list_directory(f"{base}/new") == []
        with pytest.raises(FileNotFoundError):
            mox.file.mk_dir(f"{base}/none/new")

    def test_remove_follows_moxings_documentation(self, base: str) -> None:
        for url, recursive in (("/sub", False), ("/sub/", False), ("/none", True), ("/none", False)):
            mox.file.remove(base + url, recursive=recursive)
        assert len(mox.file.list_directory(base, recursive=True, skip_dir=True)) == 4
        mox.file.remove(f"{base}/a.txt")
        mox.file.remove(f"{base}/b.jpg", recursive=True)
        mox.file.remove(f"{base}/sub/deep/", recursive=True)
        assert mox.file.list_directory(base, recursive=True) == ["sub", "sub/c.txt"]
        mox.file.remove(f"{base}/sub", recursive=True)
        assert not mox.file.exists(f"{base}/sub")

    def test_copies_in_every_direction(self, base: str, tmp_path: Path) -> None:
        local = str(tmp_path / "local")
        mox.file.copy_parallel(base, local)
        mox.file.copy_parallel(src_url=local, dst_url=f"{base}/again/", threads=0, is_processing=False)
        mox.file.copy_parallel(f"{base}/again", f"{base}/third")
        assert mox.file.list_directory(f"{base}/third", recursive=True, skip_dir=True) == sorted(FILES)
        mox.file.copy(f"{base}/third/sub/c.txt", f"{tmp_path}/one/")
        mox.file.copy(f"{tmp_path}/one/c.txt", f"{base}/c2.txt")
        mox.file.copy(f"{base}/c2.txt", f"{base}/c3.txt")
        assert mox.file.read(f"{base}/c3.txt", binary=True) == FILES["sub/c.txt"]
        mox.file.copy_parallel(f"{base}/a.txt", f"{tmp_path}/file.txt")
        assert (tmp_path / "file.txt").read_bytes() == b"hello"

    def test_copying_a_list_of_files(self, base: str, tmp_path: Path) -> None:
        mox.file.write(f"{base}/s[x] *.txt", "odd")
        names = ["sub/c.txt", "s[x] *.txt"]
        for target in (str(tmp_path / "some"), f"{base}/some"):
            mox.file.copy_parallel(base, target, file_list=names)
            assert mox.file.list_directory(target, recursive=True, skip_dir=True) == sorted(names)
        mox.file.copy_parallel(base, f"{tmp_path}/nothing", file_list=[])
        assert not os.path.exists(f"{tmp_path}/nothing")

    def test_rename(self, base: str, tmp_path: Path) -> None:
        mox.file.rename(f"{base}/a.txt", f"{base}/A.txt")
        mox.file.rename(f"{base}/sub", f"{base}/moved")
        assert mox.file.list_directory(base, recursive=True, skip_dir=True) == [
            "A.txt",
            "b.jpg",
            "moved/c.txt",
            "moved/deep/d.txt",
        ]
        mox.file.rename(f"{base}/moved", f"{tmp_path}/home")
        assert (tmp_path / "home" / "deep" / "d.txt").read_bytes() == b"d"
        assert not mox.file.exists(f"{base}/moved")

    def test_shift_makes_pythons_functions_accept_urls(self, base: str, tmp_path: Path) -> None:
        before = open, os.listdir, os.stat, glob.glob
        mox.file.shift("os", "mox")
        try:
            with open(f"{base}/a.txt") as file:
                assert file.read() == "hello"
            with open(file=f"{base}/a.txt", newline="") as file:
                assert file.read() == "hello"
            assert sorted(os.listdir(base)) == ["a.txt", "b.jpg", "sub"]
            assert os.stat(f"{base}/a.txt").st_size == os.path.getsize(f"{base}/a.txt") == 5
            assert not os.path.exists(f"{base}/x")
            assert os.path.isdir(base)
            assert os.path.isfile(f"{base}/a.txt")
            assert (
                glob.glob(f"{base}/*.jpg") == list(glob.iglob(pathname=f"{base}/*.jpg")) == [f"{base}/b.jpg"]
            )
            shutil.copytree(f"{base}/sub", f"{tmp_path}/copied")
            os.makedirs(f"{base}/made", exist_ok=True)
            with pytest.raises(FileExistsError):
                os.makedirs(f"{base}/made")
            os.rename(src=f"{base}/b.jpg", dst=f"{base}/c")
            os.replace(f"{base}/a.txt", f"{base}/c")
            assert os.path.isfile(path=f"{base}/c")
            shutil.copy(f"{base}/c", str(tmp_path))
            assert (tmp_path / "c").read_text() == "hello"
            shutil.copy2(str(tmp_path / "c"), f"{base}/sub")
            assert shutil.move(f"{base}/sub/c", f"{base}/d") == f"{base}/d"
            os.unlink(path=f"{base}/d")
            for delete in (os.unlink, os.remove, shutil.rmtree):
                with pytest.raises(FileNotFoundError):
                    delete(f"{base}/d")
            with pytest.raises(FileExistsError):
                os.mkdir(path=f"{base}/sub")
            shutil.rmtree(f"{base}/sub")
            assert [len(files) for _, _, files in os.walk(base)] == [1, 0]
        finally:
            mox.file.shift("mox", "os")
        assert (open, os.listdir, os.stat, glob.glob) == before
        assert (tmp_path / "copied" / "deep" / "d.txt").exists()


class TestUrls:
    """Behaviour of OBS only."""

    def test_repeated_slashes_are_one(self, where: str) -> None:
        mox.file.write("obs://bucket//base///x", "x")
        assert mox.file.read("s3://bucket/base/x") == "x"

    def test_a_whole_bucket_is_not_deleted(self, where: str) -> None:
        mox.file.write(f"{where}/x", "x")
        for url in ("s3://bucket", "obs://bucket/"):
            with pytest.raises(ValueError, match="a whole bucket is not deleted"):
                mox.file.remove(url, recursive=True)

    def test_existing_files_are_not_copied_again(self, where: str, tmp_path: Path, obs: MemoryObs) -> None:
        mox.file.write(f"{where}/x", "x")
        for _ in range(2):
            obs.seen.clear()
            mox.file.copy_parallel(where, str(tmp_path / "in"))
        assert not [path for method, path in obs.requests if path == "/bucket/base/x"]

    @pytest.mark.parametrize("mode", ["r+", "+r", "rb+", "+br"])
    def test_a_file_that_was_only_read_is_not_uploaded(
        self, obs_base: str, obs: MemoryObs, mode: str
    ) -> None:
        mox.file.write(f"{obs_base}/x", "old")
        obs.seen.clear()
        with mox.file.File(f"{obs_base}/x", mode) as file:
            file.read()
            file.seek(0)
            file.flush()
        assert [seen.method for seen in obs.seen if seen.method != "HEAD"] == ["GET"]

    def test_a_place_in_a_text_is_no_upload(self, obs_base: str, obs: MemoryObs) -> None:
        obs.seen.clear()
        with mox.file.File(f"{obs_base}/x", "w") as file:
            for number in range(5):
                file.write("line\n")
                assert (file.tell(), file.size()) == (5 * number + 5, 5 * number + 5)
            file.seek(0)
            file.truncate(5)
        assert [seen.method for seen in obs.seen].count("PUT") == 1
        assert mox.file.read(f"{obs_base}/x") == "line\n"

    def test_objects_are_copied_in_parallel(self, obs_base: str, obs: MemoryObs) -> None:
        for number in range(20):
            mox.file.write(f"{obs_base}/from/{number:02}", "x")
        obs.faults.append(obs_fault("hang", "PUT", "to/00", times=1))
        obs.seen.clear()
        with ThreadPoolExecutor(1) as pool:
            copying = pool.submit(mox.file.copy_parallel, f"{obs_base}/from", f"{obs_base}/to")
            try:
                while len(mox.file.list_directory(obs_base, recursive=True, skip_dir=True)) < 39:
                    assert not copying.done()
            finally:
                obs.release.set()
        copying.result()
        sent = [method for method, _ in obs.requests if method != "GET"]
        assert sent == ["PUT"] * 21, "the one that hung twice"
        assert mox.file.read(f"{obs_base}/to/19") == "x"
        obs.seen.clear()
        mox.file.rename(f"{obs_base}/to", f"{obs_base}/e")
        methods = [seen.method for seen in obs.seen]
        assert (methods.count("POST"), methods.count("DELETE")) == (1, 0)
        assert mox.file.list_directory(obs_base) == ["e", "from"]

    def test_a_copy_that_is_refused_ends_all(self, obs_base: str, obs: MemoryObs) -> None:
        for number in range(100):
            mox.file.write(f"{obs_base}/from/{number:02}", "x")
        obs.faults.append(obs_fault("403", "PUT", "to/0"))
        obs.seen.clear()
        with pytest.raises(mox.file.MoxFileRespException, match="HTTP 403"):
            mox.file.copy_parallel(f"{obs_base}/from", f"{obs_base}/to")
        assert len(obs.seen) < 100

    def test_directories_are_deleted_a_thousand_objects_at_a_time(
        self, obs_base: str, obs: MemoryObs
    ) -> None:
        odd = ["a b+%&<>\"'ü中.", "end ", "tab\t", "line\r\n", "\x01"]
        names = [*odd, *(f"{number:04}" for number in range(1005))]
        for name in names:
            file_tree.store().store.write_bytes("bucket", f"base/d/{name}", b"")
        mox.file.write(f"{obs_base}/kept", "x")
        obs.seen.clear()
        mox.file.remove(f"{obs_base}/d", recursive=True)
        assert mox.file.list_directory(obs_base, recursive=True) == ["kept"]
        methods = [seen.method for seen in obs.seen]
        assert (methods.count("POST"), methods.count("DELETE")) == (2, 3)

    def test_a_bulk_deletion_that_is_refused_raises(self, obs_base: str, obs: MemoryObs) -> None:
        mox.file.write(f"{obs_base}/d/x", "x")
        obs.faults.append(obs_fault("403", "POST", "delete"))
        with pytest.raises(Refused, match="HTTP 403"):
            mox.file.remove(f"{obs_base}/d", recursive=True)

    def test_refusals_raise_what_callers_of_moxing_catch(
        self, obs_base: str, obs: MemoryObs, tmp_path: Path
    ) -> None:
        mox.file.write(f"{obs_base}/x", "x")
        obs.faults.append(obs_fault("403", "GET", "/bucket/base/x"))
        with pytest.raises(mox.file.MoxFileRespException, match="HTTP 403"):
            mox.file.read(f"{obs_base}/x")
        with pytest.raises(mox.file.MoxFileRespException, match="HTTP 403"):
            mox.file.copy(f"{obs_base}/x", str(tmp_path / "x"))
        assert issubclass(Refused, StoreError)

    def test_a_listing_of_several_pages_is_complete(self, obs_base: str, obs: MemoryObs) -> None:
        for number in range(1005):
            key = f"base/{number:04}/f" if number % 2 else f"base/{number:04}"
            file_tree.store().write_bytes("bucket", key, b"")
        assert len(mox.file.list_directory(obs_base)) == 1005
        assert len(mox.file.list_directory(obs_base, skip_dir=True)) == 503

    def test_each_thread_has_its_own_store(self, where: str) -> None:
        stores: list[Any] = [file_tree.store(), file_tree.store()]
        thread = threading.Thread(target=lambda: stores.append(file_tree.store()))
        thread.start()
        thread.join()
        assert stores[0] is stores[1] is not stores[2]

    def test_set_auth_sets_endpoint_and_credentials(self, obs: MemoryObs) -> None:
        host, _, port = obs.url.partition("://")[2].partition(":")
        mox.file.set_auth(
            ak="AKPLANTED", sk="SKPLANTED", server=host, port=int(port), is_secure=False, ssl_verify=False
        )
        mox.file.write("obs://bucket/auth", "x")
        assert mox.file.exists("obs://bucket/auth")

    @pytest.mark.parametrize("others", ["file", "token", "file and token"])
    def test_set_auth_wins_over_all_credentials_of_the_environment(
        self, obs_base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: str
    ) -> None:
        monkeypatch.setenv("OBS_ACCESS_KEY_ID", "AKOTHER")
        monkeypatch.setenv("OBS_CREDENTIALS_WAIT", "0")
        if "token" in others:
            monkeypatch.setenv("OBS_SECURITY_TOKEN", "TOKENOTHER")
        if "file" in others:
            keys = {"access": "AKFILE", "secret": "SKFILE", "securitytoken": "TOKENFILE"}
            (tmp_path / "keys.json").write_text(json.dumps({"credential": keys}))
            monkeypatch.setenv("OBS_CREDENTIALS_FILE", str(tmp_path / "keys.json"))
        with pytest.raises(Refused):
            mox.file.exists(f"{obs_base}/x")
        mox.file.set_auth(ak="AKPLANTED", sk="SKPLANTED")
        mox.file.write(f"{obs_base}/x", "x")
        assert mox.file.read(f"{obs_base}/x") == "x"

    def test_a_server_alone_leaves_the_credentials_of_the_environment(
        self, obs: MemoryObs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keys = {"access": "AKPLANTED", "secret": "SKPLANTED", "securitytoken": "TOKENPLANTED"}
        (tmp_path / "keys.json").write_text(json.dumps({"credential": keys}))
        monkeypatch.setenv("OBS_CREDENTIALS_FILE", str(tmp_path / "keys.json"))
        mox.file.set_auth(server=obs.url.partition("://")[2], is_secure=False)
        mox.file.write("obs://bucket/auth", "x")
        assert mox.file.exists("obs://bucket/auth")

    def test_set_auth_reaches_threads_that_have_a_store(
        self, obs_base: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OBS_ACCESS_KEY_ID", "AKOTHER")
        with ThreadPoolExecutor(1) as pool:
            with pytest.raises(Refused):
                pool.submit(mox.file.exists, f"{obs_base}/x").result()
            mox.file.set_auth(ak="AKPLANTED", sk="SKPLANTED")
            assert not pool.submit(mox.file.exists, f"{obs_base}/x").result()

    def test_shift_takes_only_os_and_mox(self) -> None:
        with pytest.raises(ValueError, match="expected shift"):
            mox.file.shift("os", "os")


def test_file_is_imported_on_first_use() -> None:
    program = "import sys, path_mapping as mox; print('path_mapping.file' in sys.modules); mox.file.exists('/'); print('path_mapping.file' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\nTrue\n"
    with pytest.raises(AttributeError, match="no attribute 'files'"):
        _ = mox.files


def test_a_script_in_the_trainings_own_environment(tmp_path: Path) -> None:
    import ma_boot

    shown = Path(ma_boot.__file__).parent / "for_training"
    (tmp_path / "root" / "bucket" / "data").mkdir(parents=True)
    (tmp_path / "root" / "bucket" / "data" / "a").write_text("x")
    environ: dict[str, str] = {"PYTHONPATH": str(shown), "PATH_MAPPING_OBS_ROOT": str(tmp_path / "root")}
    program = "import path_mapping as mox; mox.file.copy_parallel('s3://bucket/data', 'data'); print(mox.file.read('data/a'))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout == "x\n"


class TestFilesAsPythonKnowsThem:
    """Expectations of scripts about files, wherever they are."""

    def test_no_temporary_file_stays(
        self, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        program = (
            f"import os, path_mapping as mox; f = mox.file.File('{where}/x', 'w'); f.write('x'); os._exit(0)"
        )
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "TMPDIR": str(scratch)}, check=True
        )
        assert list(scratch.iterdir()) == []

    def test_missing_files_of_a_list_are_named_before_anything_is_copied(
        self, base: str, tmp_path: Path
    ) -> None:
        for target in (str(tmp_path / "some"), f"{base}/some"):
            with pytest.raises(mox.file.MoxFileNotExistsException, match="none, other"):
                mox.file.copy_parallel(base, target, file_list=["a.txt", "other", "none"])
            assert not mox.file.exists(target)
        mox.file.copy_parallel(base, f"{base}/some", file_list=["sub/deep", "a.txt"])
        assert mox.file.list_directory(f"{base}/some", recursive=True, skip_dir=True) == [
            "a.txt",
            "sub/deep/d.txt",
        ]

    def test_a_rename_into_itself_moves_nothing(self, base: str) -> None:
        with pytest.raises(OSError, match=r"nvalid argument|into itself"):
            mox.file.rename(base, f"{base}/backup")
        mox.file.rename(base, base)
        assert mox.file.list_directory(base, recursive=True, skip_dir=True) == sorted(FILES)

    def test_an_object_beside_a_directory_of_the_same_name(self, obs_base: str) -> None:
        mox.file.write(f"{obs_base}/x", "file")
        mox.file.write(f"{obs_base}/x/y", "below")
        shapes = [(entry.name, entry.is_dir()) for entry in mox.file.scan_dir(obs_base)]
        assert shapes == [("x", False), ("x", True)]
        mox.file.shift("os", "mox")
        try:
            assert os.path.isfile(f"{obs_base}/x")
            assert os.path.isdir(f"{obs_base}/x")
            shutil.rmtree(f"{obs_base}/x")
            assert os.listdir(obs_base) == ["x"]
        finally:
            mox.file.shift("mox", "os")
