"""`shift('os', 'mox')`: Python's own file functions accept URLs as well."""

from __future__ import annotations

import builtins
import functools
import glob
import os
import posixpath
import shutil
from typing import Any, Callable

from path_mapping.file import copying, file_object, file_tree

_SCHEMES = ("obs://", "s3://")
_originals: dict[tuple[Any, str], Any] = {}


def _is_file(path: str) -> bool:
    place = file_tree.url_of(path)
    return place is not None and file_tree.is_object(place)


def _make_dir(path: str, mode: int = 0o777, **settings: Any) -> None:
    if file_tree.exists(path):
        raise FileExistsError(17, "File exists", path)
    file_tree.mk_dir(path)


def _make_dirs(name: str, mode: int = 0o777, exist_ok: bool = False) -> None:
    if file_tree.exists(name) and not (exist_ok and file_tree.is_directory(name)):
        raise FileExistsError(17, "File exists", name)
    file_tree.make_dirs(name)


def _open(
    file: str,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    **settings: Any,
) -> Any:
    return file_object.File(file, mode, encoding, errors, newline)


def _remove(path: str, **settings: Any) -> None:
    if not _is_file(path):
        if file_tree.is_directory(path):
            raise IsADirectoryError(21, "Is a directory", path)
        raise file_tree.missing(path)
    file_tree.remove(path)


def _remove_tree(path: str, ignore_errors: bool = False, *settings: Any, **more: Any) -> None:
    # With a slash, it is not an object of the same name.
    directory = path.rstrip("/") + "/"
    if file_tree.is_directory(directory):
        file_tree.remove(directory, recursive=True)
    elif not ignore_errors:
        raise file_tree.missing(path)


def _copy_tree(src: str, dst: str, *settings: Any, **more: Any) -> str:
    copying.copy_parallel(src, dst)
    return dst


def _copy_file(src: str, dst: str, **settings: Any) -> str:
    copying.copy(src, dst)
    return dst


def _copy_into(src: str, dst: str, **settings: Any) -> str:
    return _copy_file(src, _inside(src, dst))


def _move_into(src: str, dst: str, *settings: Any, **more: Any) -> str:
    target = _inside(src, dst)
    copying.rename(src, target)
    return target


def _inside(src: str, dst: str) -> str:
    """Returns the path that shutil copies or moves to: in the destination, if that is a directory."""
    return posixpath.join(dst, posixpath.basename(src.rstrip("/"))) if file_tree.is_directory(dst) else dst


_FUNCTIONS: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (builtins, "open", _open),
    (glob, "glob", lambda pathname, **settings: file_tree.glob(pathname)),
    (glob, "iglob", lambda pathname, **settings: iter(file_tree.glob(pathname))),
    (os, "listdir", lambda path: file_tree.list_directory(path)),
    (os, "makedirs", _make_dirs),
    (os, "mkdir", _make_dir),
    (os, "remove", _remove),
    (os, "rename", lambda src, dst, **settings: copying.rename(src, dst)),
    (os, "replace", lambda src, dst, **settings: copying.rename(src, dst)),
    (os, "scandir", file_tree.scan_dir),
    (os, "stat", file_tree.status),
    (os, "unlink", _remove),
    (os, "walk", lambda top, topdown=True, **settings: file_tree.walk(top, topdown)),
    (os.path, "exists", lambda path: file_tree.exists(path)),
    (os.path, "getsize", lambda filename: file_tree.get_size(filename)),
    (os.path, "isdir", lambda s: file_tree.is_directory(s)),
    (os.path, "isfile", _is_file),
    (os.path, "lexists", lambda path: file_tree.exists(path)),
    (shutil, "copy", _copy_into),
    (shutil, "copy2", _copy_into),
    (shutil, "copyfile", _copy_file),
    (shutil, "copytree", _copy_tree),
    (shutil, "move", _move_into),
    (shutil, "rmtree", _remove_tree),
)


def shift(source: str, target: str) -> None:
    """`shift('os', 'mox')` makes Python's own functions accept URLs; `shift('mox', 'os')` undoes it.

    Local paths still go to the original functions. Raises `ValueError` for any other pair of names.
    """
    if (source, target) == ("os", "mox"):
        for module, name, on_urls in _FUNCTIONS:
            if (module, name) not in _originals:
                original = _originals[module, name] = getattr(module, name)
                setattr(module, name, _either(original, on_urls))
    elif (source, target) == ("mox", "os"):
        while _originals:
            (module, name), original = _originals.popitem()
            setattr(module, name, original)
    else:
        raise ValueError(f"found shift({source!r}, {target!r}), expected shift('os', 'mox') or the reverse")


def _either(original: Callable[..., Any], on_urls: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(*arguments: Any, **settings: Any) -> Any:
        given = [text for text in (*arguments[:2], *settings.values()) if isinstance(text, str)]
        chosen = on_urls if any(text.startswith(_SCHEMES) for text in given) else original
        return chosen(*arguments, **settings)

    return function
