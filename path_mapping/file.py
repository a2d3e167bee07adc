"""The functions of `moxing.file` on local paths and OBS: `import path_mapping as mox; mox.file.exists(...)`.

Names, arguments and results are those of MoXing's API document. URLs may begin with `obs://` or `s3://`;
several slashes count as one. Transfers are those of the path mapping: verified, whole or not at all, and what
is there already is not moved again.
"""

from __future__ import annotations

import os
import posixpath
import re
import threading
from pathlib import Path
from typing import Any, Callable, Optional, Sequence, Union

from path_mapping.errors import MissingInputs, StoreError, TransferFailed, Unreachable, UnsafeTarget
from path_mapping.localfs import chunks, write_verified
from path_mapping.mapping import ObsUrl, Route
from path_mapping.mox import file_object
from path_mapping.mox.file_tree import (
    Entry,
    MoxFileNotExistsException,
    Stat,
    exists,
    get_size,
    glob,
    is_directory,
    is_object,
    list_directory,
    make_dirs,
    missing,
    mk_dir,
    prefix_of,
    remove,
    scan_dir,
    stat,
    url_of,
    walk,
)
from path_mapping.mox.own_store import store, use
from path_mapping.transfer import download, upload

__all__ = [
    "Entry",
    "File",
    "MoxFileNameDuplicateException",
    "MoxFileNotExistsException",
    "MoxFileReadException",
    "MoxFileRespException",
    "Stat",
    "append",
    "append_remote",
    "copy",
    "copy_parallel",
    "exists",
    "get_size",
    "glob",
    "is_directory",
    "list_directory",
    "make_dirs",
    "mk_dir",
    "read",
    "remove",
    "rename",
    "scan_dir",
    "set_auth",
    "shift",
    "stat",
    "walk",
    "write",
]

Data = Union[str, bytes]

MoxFileRespException = StoreError
MoxFileReadException = Unreachable
MoxFileNameDuplicateException = UnsafeTarget


def File(name: str, mode: str = "r") -> file_object.File:
    """The file object: see `file_object.File`."""
    return file_object.File(os.fspath(name), mode, url=url_of(name), store=store)


def read(url: str, binary: bool = False, **_: Any) -> Any:
    """The content: text in UTF-8, or bytes."""
    with File(url, "rb" if binary else "r") as file:
        return file.read()


def write(url: str, data: Data, binary: bool = False, **_: Any) -> None:
    """Makes this the content."""
    with File(url, "wb" if binary or isinstance(data, bytes) else "w") as file:
        file.write(data)


def append(url: str, data: Data, binary: bool = False, **_: Any) -> None:
    """Puts it at the end; of an object, which is fetched and stored anew: for one writer at a time."""
    with File(url, "ab" if binary or isinstance(data, bytes) else "a") as file:
        file.write(data)


def append_remote(src_url: str, dst_url: str, **_: Any) -> None:
    """Puts one file at the end of another."""
    append(dst_url, read(src_url, binary=True), binary=True)


def copy(src_url: str, dst_url: str, **_: Any) -> None:
    """Copies one file; a destination that ends in `/` is a directory."""
    if dst_url.endswith("/"):
        dst_url += posixpath.basename(src_url)
    source, target = url_of(src_url), url_of(dst_url)
    if source is None:
        if not os.path.isfile(src_url):
            raise missing(src_url)
        if target is None:
            write_verified(Path(dst_url), chunks(Path(src_url)), os.path.getsize(src_url), None)
        else:
            _moved(upload, [Route(os.path.abspath(src_url), target)], dst_url)
    elif not is_object(source):
        raise missing(src_url)
    elif target is None:
        _moved(download, [Route(os.path.abspath(dst_url), source)], src_url)
    else:
        store().copy(source.bucket, source.key, target.bucket, target.key)


def copy_parallel(src_url: str, dst_url: str, file_list: Optional[Sequence[str]] = None, **_: Any) -> None:
    """Copies all that is below a directory, or only `file_list` of it; a single file is copied too.

    How many threads or processes there are is for the transfer to choose: `threads`, `is_processing` and
    `use_queue` are taken and change nothing.
    """
    source, target = url_of(src_url), url_of(dst_url)
    if file_list is None and not is_directory(src_url):
        copy(src_url, dst_url)
        return
    chosen = tuple("/" + re.sub(r"([\\*?\[\]!# ])", r"\\\1", name) for name in file_list or ())
    if file_list is not None and not chosen:
        return
    if source is not None and target is not None:
        for one in list(store().list(source.bucket, prefix_of(source))):
            name = one.key[len(prefix_of(source)) :]
            if file_list is None or name in file_list:
                store().copy(source.bucket, one.key, target.bucket, prefix_of(target) + name)
    elif source is not None:
        below = ObsUrl(source.bucket, prefix_of(source))
        _moved(download, [Route(os.path.abspath(dst_url), below, include=chosen)], src_url)
    elif target is not None:
        below = ObsUrl(target.bucket, prefix_of(target))
        _moved(upload, [Route(os.path.abspath(src_url), below, include=chosen)], src_url)
    else:
        wanted = None if file_list is None else set(file_list)
        for name in list_directory(src_url, recursive=True, skip_dir=True):
            if wanted is None or name in wanted:
                copy(os.path.join(src_url, name), os.path.join(dst_url, name))


def rename(src_url: str, dst_url: str, **_: Any) -> None:
    """Moves a file or a directory: locally at once, else by a copy, after which the source is deleted."""
    if url_of(src_url) is None and url_of(dst_url) is None:
        os.rename(src_url, dst_url)
        return
    if is_directory(src_url):
        copy_parallel(src_url, dst_url)
    else:
        copy(src_url, dst_url)
    remove(src_url, recursive=True)


def set_auth(
    ak: Optional[str] = None,
    sk: Optional[str] = None,
    server: Optional[str] = None,
    port: Optional[int] = None,
    is_secure: bool = True,
    **_: Any,
) -> None:
    """Sets the credentials and the server for this process; what is not given stays the environment's."""
    given = {"OBS_ACCESS_KEY_ID": ak, "OBS_SECRET_ACCESS_KEY": sk}
    if server is not None:
        host = server.partition("://")[2] or server
        given["OBS_ENDPOINT"] = f"{'https' if is_secure else 'http'}://{host}" + (f":{port}" if port else "")
    use(**{name: value for name, value in given.items() if value is not None})


def shift(source: str, target: str) -> None:
    """`shift('os', 'mox')`: Python's own functions take URLs from now on; `shift('mox', 'os')` undoes it."""
    from path_mapping.mox import os_patch

    if (source, target) not in (("os", "mox"), ("mox", "os")):
        raise ValueError(f"found shift({source!r}, {target!r}), expected shift('os', 'mox') or the reverse")
    os_patch.shift_to_urls() if target == "mox" else os_patch.shift_back()


def _moved(move: Callable[..., Any], routes: Sequence[Route], url: str) -> None:
    try:
        done = move(routes, Path("/"), store(), cancel=threading.Event(), progress=lambda now: None)
    except MissingInputs as error:
        raise missing(url) from error
    except TransferFailed as error:
        if all(isinstance(failure.error, StoreError) for failure in error.failures):
            raise StoreError(str(error)) from error  # what MoXing's callers catch
        raise
    if done.missing:
        raise missing(url)
