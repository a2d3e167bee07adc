"""The functions of `moxing.file` on local paths and OBS: `import path_mapping as mox; mox.file.exists(...)`.

Names, arguments and results are those of MoXing's API reference. A URL begins with `obs://` or `s3://`;
repeated slashes count as one. Transfers are those of the path mapping: verified, each file completely or not
at all, and files that are the same on both sides are skipped. A function that is given a URL raises
`StoreError` (`MoxFileRespException` is the same class) when a request fails even after retries.
"""

from typing import Any

from path_mapping.file.copying import copy as copy, copy_parallel as copy_parallel, rename as rename
from path_mapping.file.file_object import (
    File as File,
    append as append,
    append_remote as append_remote,
    read as read,
    write as write,
)
from path_mapping.file.file_tree import (
    Entry as Entry,
    MoxFileNameDuplicateException as MoxFileNameDuplicateException,
    MoxFileNotExistsException as MoxFileNotExistsException,
    MoxFileReadException as MoxFileReadException,
    MoxFileRespException as MoxFileRespException,
    Stat as Stat,
    exists as exists,
    get_size as get_size,
    glob as glob,
    is_directory as is_directory,
    list_directory as list_directory,
    make_dirs as make_dirs,
    mk_dir as mk_dir,
    remove as remove,
    scan_dir as scan_dir,
    set_auth as set_auth,
    stat as stat,
    walk as walk,
)
from path_mapping.file.os_patch import shift as shift


def __getattr__(name: str) -> Any:
    """Raises an error that names what there is: MoXing has more functions."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    own = [key for key, value in globals().items() if getattr(value, "__module__", "").startswith(__name__)]
    present = ", ".join(sorted(key for key in own if not key.startswith("_")))
    raise AttributeError(f"path_mapping.file, in place of moxing.file, has no {name!r}; it has {present}")
