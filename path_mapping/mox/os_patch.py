"""`shift('os', 'mox')`: Python's own file functions accept URLs as well."""

from __future__ import annotations

import builtins
import functools
import glob
import os
import shutil
from typing import Any, Callable, Dict, Tuple

from path_mapping.mox import copying, file_object, file_tree

_SCHEMES = ("obs://", "s3://")
_originals: Dict[Tuple[Any, str], Any] = {}


def _stat(path: str, **settings: Any) -> os.stat_result:
    found = file_tree.stat(path)
    mode, seconds = 0o040750 if found.is_directory else 0o100640, found.mtime_nsec // 10**9
    return os.stat_result((mode, 0, 0, 1, 0, 0, found.length, seconds, seconds, seconds))


def _is_file(path: str) -> bool:
    return file_tree.exists(path) and not file_tree.is_directory(path)


def _make_dirs(path: str, mode: int = 0o777, exist_ok: bool = False) -> None:
    if not exist_ok and file_tree.exists(path):
        raise FileExistsError(17, "File exists", path)
    file_tree.make_dirs(path)


def _open(path: str, mode: str = "r", *settings: Any, **more: Any) -> Any:
    return file_object.File(path, mode)


def _remove(path: str, **settings: Any) -> None:
    if not file_tree.exists(path):
        raise file_tree.missing(path)
    file_tree.remove(path)


def _copy_tree(source: str, target: str, *settings: Any, **more: Any) -> str:
    copying.copy_parallel(source, target)
    return target


def _copy_file(source: str, target: str, **settings: Any) -> str:
    copying.copy(source, target)
    return target


_FUNCTIONS: Tuple[Tuple[Any, str, Callable[..., Any]], ...] = (
    (builtins, "open", _open),
    (glob, "glob", lambda pattern, **settings: file_tree.glob(pattern)),
    (os, "listdir", file_tree.list_directory),
    (os, "makedirs", _make_dirs),
    (os, "mkdir", lambda path, mode=0o777: file_tree.mk_dir(path)),
    (os, "remove", _remove),
    (os, "rename", copying.rename),
    (os, "scandir", file_tree.scan_dir),
    (os, "stat", _stat),
    (os, "walk", file_tree.walk),
    (os.path, "exists", file_tree.exists),
    (os.path, "getsize", file_tree.get_size),
    (os.path, "isdir", file_tree.is_directory),
    (os.path, "isfile", _is_file),
    (shutil, "copyfile", _copy_file),
    (shutil, "copytree", _copy_tree),
    (shutil, "rmtree", lambda path, *settings, **more: file_tree.remove(path, recursive=True)),
)


def shift(source: str, target: str) -> None:
    """`shift('os', 'mox')` makes Python's own functions accept URLs; `shift('mox', 'os')` undoes it.

    Local paths still go to the original functions.

    Raises:
        ValueError: any other pair of names.
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
        given = [one for one in arguments[:2] if isinstance(one, str)]
        chosen = on_urls if any(one.startswith(_SCHEMES) for one in given) else original
        return chosen(*arguments, **settings)

    return function
