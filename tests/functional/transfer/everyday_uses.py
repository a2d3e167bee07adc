# ruff: noqa: SIM115 -- files that nobody closes are what this is about
"""Everyday uses of files in scripts: each gets a directory, a local one or a URL, and returns its observations.

`python everyday_uses.py LOCAL URL` prints the results of all, as JSON: for each use, in both places. It needs
`path_mapping` only, as training code of any Python from 3.7 on has it.
"""

import contextlib
import copy
import csv
import gc
import gzip
import io
import json
import logging
import mmap
import os
import pickle
import subprocess
import sys
import tarfile
import types
import typing
import warnings
import zipfile
from typing import Any, Dict, List

TEXT = "one\ntwo\nthree"


def reads(top: str) -> Any:
    with open(top + "/text") as file:
        seen: List[Any] = [
            file.read(),
            open(top + "/text").read(),
            open(top + "/text", "rb").read().decode(),
        ]
    seen.append([line for line in open(top + "/text")])  # noqa: C416
    return [*seen, [line.decode() for line in open(top + "/text", "rb")], open(top + "/text").readlines()]


def readline_and_tell(top: str) -> Any:
    with open(top + "/text") as file:
        return [file.readline(), file.tell(), file.readline(), file.seek(0), file.read(3), next(file)]


def seek_and_peek(top: str) -> Any:
    with open(top + "/text", "rb") as file:
        return [file.seek(-5, 2), file.peek(2)[:2].decode(), file.read1(3).decode(), file.tell()]


def readinto(top: str) -> Any:
    with open(top + "/text", "rb") as file:
        memory = bytearray(5)
        return [file.readinto(memory), memory.decode(), file.seekable(), file.readable(), file.writable()]


def universal_line_ends(top: str) -> Any:
    with open(top + "/new", "wb") as file:
        file.write(b"a\r\nb\rc\n")
    return [
        open(top + "/new").read(),
        open(top + "/new", newline="").read(),
        open(top + "/new", newline="\r").readlines(),
    ]


def writes_dropped(top: str) -> Any:
    json.dump({"one": 1}, open(top + "/new.json", "w"))
    written = open(top + "/new", "w").write("text")
    return [json.load(open(top + "/new.json")), written, open(top + "/new").read()]


def write_over(top: str) -> Any:
    with open(top + "/text", "w") as file:
        print("printed", 1, file=file)
        file.writelines(["x\n", "y\n"])
    return open(top + "/text").read()


def write_and_tell(top: str) -> Any:
    with open(top + "/new", "w") as file:
        places = []
        for number in range(3):
            places.append(file.tell())
            file.write(f"{number}\n")
        file.seek(0)
        file.write("X")
    return [places, open(top + "/new").read()]


def append(top: str) -> Any:
    with open(top + "/text", "a") as file:
        place = file.tell()
        file.write("\nfour")
    with open(top + "/fresh", "ab") as file:
        file.write(b"new")
    return [place, open(top + "/text").read(), open(top + "/fresh").read()]


def append_and_read(top: str) -> Any:
    with open(top + "/text", "a+") as file:
        file.write("!")
        file.seek(0)
        return file.read()


def update(top: str) -> Any:
    with open(top + "/text", "r+") as file:
        line = file.readline()
        file.seek(0)
        file.write("ONE")
    with open(top + "/text", "rb+") as file:
        file.seek(4)
        file.write(b"TWO")
        file.truncate(7)
    return [line, open(top + "/text").read()]


def write_and_read(top: str) -> Any:
    with open(top + "/new", "w+b") as file:
        file.write(b"abc")
        file.seek(1)
        return [file.read().decode(), file.mode]


def create(top: str) -> Any:
    with open(top + "/new", "x") as file:
        file.write("mine")
    try:
        open(top + "/new", "x")
    except FileExistsError:
        return open(top + "/new").read()


def missing(top: str) -> Any:
    seen: List[Any] = []
    for mode in ("r", "rb", "r+"):
        try:
            open(top + "/none", mode)
        except FileNotFoundError as error:
            seen.append([error.errno, error.filename == top + "/none"])
    return seen


def wrong_modes(top: str) -> Any:
    seen: List[Any] = []
    cases: List[Any] = [
        ("rw", {}),
        ("z", {}),
        ("w", {"encoding": "none-such"}),
        ("wb", {"encoding": "utf-8"}),
        ("rb", {"newline": ""}),
        ("wbt", {}),
        ("", {}),
    ]
    for mode, settings in cases:
        try:
            open(top + "/text", mode, **settings)
        except (ValueError, LookupError) as error:
            seen.append(type(error).__name__)
    return seen


def unsupported(top: str) -> Any:
    seen: List[Any] = []
    cases: List[Any] = [
        ("r", "write", ["x"]),
        ("w", "read", []),
        ("rb", "write", [b"x"]),
        ("wb", "read", []),
        ("ab", "readline", []),
        ("w", "write", [b"x"]),
        ("wb", "write", ["x"]),
    ]
    for mode, name, values in cases:
        with open(top + "/new", "a"):
            pass
        try:
            getattr(open(top + "/new", mode), name)(*values)
        except (io.UnsupportedOperation, TypeError) as error:
            seen.append([mode, name, type(error).__name__])
    return seen


def encodings(top: str) -> Any:
    with open(top + "/new", "w", encoding="utf-16") as file:
        file.write("naïve 中")
    with open(top + "/bad", "wb") as file:
        file.write(b"a\xffb")
    seen: List[Any] = [
        open(top + "/new", encoding="utf-16").read(),
        open(top + "/bad", errors="replace").read(),
    ]
    try:
        open(top + "/bad").read()
    except UnicodeDecodeError as error:
        seen.append(error.start)
    return seen


def csv_rows(top: str) -> Any:
    with open(top + "/new.csv", "w", newline="") as file:
        csv.writer(file).writerows([["a", "b"], ["c,d", 'e"f\n']])
    with open(top + "/new.csv", newline="") as file:
        return list(csv.reader(file))


def pickles(top: str) -> Any:
    pickle.dump({"a": (1, 2)}, open(top + "/new", "wb"))
    with open(top + "/new", "ab") as file:
        pickle.dump("second", file)
    with open(top + "/new", "rb") as file:
        return [list(pickle.load(file)["a"]), pickle.load(file)]


def archives(top: str) -> Any:
    with open(top + "/a.zip", "wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x", "zipped")
    with open(top + "/a.gz", "wb") as file, gzip.GzipFile(fileobj=file, mode="wb") as packed:
        packed.write(b"packed")
    with open(top + "/a.tar", "wb") as file, tarfile.open(fileobj=file, mode="w") as tar:
        entry = tarfile.TarInfo("y")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"tar"))
    seen: List[Any] = [zipfile.ZipFile(open(top + "/a.zip", "rb")).read("x").decode()]
    seen.append(gzip.open(open(top + "/a.gz", "rb"), "rt").read())
    with tarfile.open(fileobj=open(top + "/a.tar", "rb")) as tar:
        return [*seen, [member.name for member in tar]]


def failed_with(top: str) -> Any:
    seen: List[Any] = []
    for failing in (ValueError, KeyboardInterrupt, SystemExit):
        with contextlib.suppress(failing), open(top + "/new", "w") as file:
            file.write("half")
            raise failing
        seen.append(file.closed)
    return seen


def closed(top: str) -> Any:
    with open(top + "/text") as file:
        seen: List[Any] = [file.closed]
    seen.append(file.closed)
    file.close()
    for use in (file.read, file.flush, file.tell, file.__enter__, lambda: next(file)):
        try:
            use()
        except ValueError as error:
            seen.append(str(error))
    return seen


def attributes(top: str) -> Any:
    seen: List[Any] = []
    for mode in ("r", "rb", "br", "rt", "a", "ab", "r+", "rb+", "w+"):
        with open(top + "/text", mode) as file:
            kind = [
                base.__name__
                for base in (io.TextIOWrapper, io.BufferedReader, io.BufferedWriter, io.BufferedRandom)
                if isinstance(file, base)
            ]
            seen.append([mode, file.mode, file.name == top + "/text", file.isatty(), kind])
            seen.append([file.readable(), file.writable(), file.seekable(), getattr(file, "newlines", 0)])
    return seen


def not_picklable(top: str) -> Any:
    seen: List[Any] = []
    for mode in ("r", "rb", "r+", "ab"):
        with open(top + "/text", mode) as file:
            for use in (pickle.dumps, copy.copy, copy.deepcopy):
                try:
                    use(file)
                except TypeError:
                    seen.append(mode)
    return seen


def flush_and_sync(top: str) -> Any:
    with open(top + "/new", "w") as file:
        file.write("safe")
        file.flush()
        os.fsync(file.fileno())
        return open(top + "/new").read()


def past_the_buffers(top: str) -> Any:
    """As numpy.save and PIL write: flush, then by the descriptor."""
    with open(top + "/new", "wb") as file:
        file.write(b"head ")
        file.flush()
        other = os.dup(file.fileno())
        os.write(other, b"body")
        place = os.lseek(other, 0, 1)
        os.close(other)
        file.seek(place)
    return open(top + "/new").read()


def descriptor_of_a_reader(top: str) -> Any:
    """As numpy.load reads, and mmap."""
    with open(top + "/text", "rb") as file:
        line = file.readline().decode()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
            return [line, memory[4:7].decode(), os.fstat(file.fileno()).st_size, file.read().decode()]


def input_of_a_program(top: str) -> Any:
    with open(top + "/text") as file, open(top + "/new", "w") as output:
        subprocess.check_call([sys.executable, "-S", "-c", "print(input() * 2)"], stdin=file, stdout=output)
    return open(top + "/new").read()


def logged(top: str) -> Any:
    handler = (
        logging.FileHandler(top + "/new")
        if "://" not in top
        else logging.StreamHandler(open(top + "/new", "a"))
    )
    handler.emit(logging.LogRecord("x", 20, "", 1, "hello", None, None))
    return open(top + "/new").read()


def large(top: str) -> Any:
    content = bytes(range(256)) * 12000
    with open(top + "/new", "wb") as file:
        for start in range(0, len(content), 100000):
            file.write(content[start : start + 100000])
    with open(top + "/new", "rb") as file:
        file.seek(1000003)
        seen = [file.read(3) == content[1000003:1000006]]
        file.seek(0)
        pieces = iter(lambda: file.read(70000), b"")
        return [*seen, b"".join(pieces) == content]


def wrapped(top: str) -> Any:
    with io.TextIOWrapper(open(top + "/new", "wb"), "latin-1") as file:
        file.write("é")
    other = open(top + "/other", "w")
    other.write("text")
    inner = other.detach()
    inner.write(b" and bytes")
    inner.close()
    return [list(open(top + "/new", "rb").read()), open(top + "/other").read()]


def scanned(top: str) -> Any:
    with os.scandir(top) as entries:
        seen = [
            [entry.name, entry.is_file(), entry.stat().st_size, os.fspath(entry) == entry.path]
            for entry in entries
        ]
    rest = os.scandir(top)
    first = next(rest).name
    rest.close()
    try:
        os.scandir(top + "/none")
    except FileNotFoundError:
        return [seen, first, list(rest)]


def temporary_and_renamed(top: str) -> Any:
    with open(top + "/new.tmp", "w") as file:
        file.write("whole")
    os.replace(top + "/new.tmp", top + "/new")
    return [open(top + "/new").read(), os.path.exists(top + "/new.tmp"), os.path.getsize(top + "/new")]


USES = [value for name, value in list(globals().items()) if getattr(value, "__module__", "") == __name__]


def results(top: str) -> Dict[str, Any]:
    """Returns the result of each use in a directory of its own, which has one file."""
    returned: Dict[str, Any] = {}
    for use in USES:
        place = top + "/" + use.__name__
        os.makedirs(place)
        with open(place + "/text", "w") as file:
            file.write(TEXT)
        try:
            returned[use.__name__] = use(place)
        except Exception as error:
            returned[use.__name__] = repr(error)
        gc.collect()
    return returned


if __name__ == "__main__":
    if not hasattr(
        typing, "TypedDict"
    ):  # Python 3.7, for which the SDK's ciphers are too new: nothing uses them
        ciphers: Any = types.ModuleType("obs.obs_cipher_suite")
        ciphers.__getattr__ = lambda name: object
        sys.modules["obs.obs_cipher_suite"] = ciphers
    try:
        import requests  # noqa: F401 -- of the SDK; the one beside it may be too new for this Python
    except (ImportError, TypeError, AttributeError):
        for part in [
            part for part in sys.modules if part.partition(".")[0] in ("requests", "urllib3", "idna")
        ]:
            del sys.modules[part]
        import pip._vendor.requests.adapters

        sys.modules["requests"] = pip._vendor.requests
        sys.modules["requests.adapters"] = pip._vendor.requests.adapters
    import path_mapping as mox

    warnings.simplefilter("ignore")
    mox.file.shift("os", "mox")
    local, url = sys.argv[1:]
    print(json.dumps({"local": results(local), "url": results(url)}))
