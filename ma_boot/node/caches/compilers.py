"""The compilers whose caches are kept, and the variables by which they are told where. Pure.

Sources, read on 2026-11-28:
    TORCHINDUCTOR_CACHE_DIR   docs.pytorch.org, recipe "Compile Time Caching Configuration"
    TRITON_CACHE_DIR          deepspeedai/DeepSpeed#7907 (default: ~/.triton/cache); PyTorch reads it too
    MS_COMPILER_CACHE_*       mindspore.cn, "Environment Variables" (r1.6 to r2.2)
    ASCEND_CACHE_PATH         hiascend.com, CANN 8.0 and 8.5, "ASCEND_CACHE_PATH" (envref_07_0006)
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

# CANN's rule for paths; a `/` separates names.
_CANN_PATH = re.compile(r"[A-Za-z0-9_./-]+")


class Compiler(NamedTuple):
    """A compiler whose cache is the directory `name` in a cache, by its `variable`.

    `switch` is a variable that enables the cache with 1, if it is off by default. `by_rank`: the cache has
    entries for each rank of the job, so those of node 0 are of no use to other nodes.
    """

    name: str
    variable: str
    switch: str = ""
    by_rank: bool = False


COMPILERS = (
    Compiler("torchinductor", "TORCHINDUCTOR_CACHE_DIR"),
    Compiler("triton", "TRITON_CACHE_DIR"),
    Compiler("mindspore", "MS_COMPILER_CACHE_PATH", "MS_COMPILER_CACHE_ENABLE", by_rank=True),
    Compiler("cann", "ASCEND_CACHE_PATH"),
)


class CompilerVariables(NamedTuple):
    """The variables to set for the training, and a note on each compiler whose cache is elsewhere."""

    values: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories of the compilers, which must exist: CANN requires it."""
        return tuple(value for value in self.values.values() if os.path.isabs(value))


def compiler_variables(root: str, environ: Mapping[str, str], nodes: int) -> CompilerVariables:
    """Returns the variables for a cache in the directory `root` of a job of so many nodes.

    What the image or the user has set stays as it is.
    """
    values: dict[str, str] = {}
    notes: list[str] = []
    for compiler in COMPILERS:
        name, path = compiler.variable, os.path.join(root, compiler.name)
        given = environ.get(name, "")
        if compiler.by_rank and nodes > 1:
            continue
        if compiler.switch and environ.get(compiler.switch, "1") != "1":
            continue
        if given and given != path:
            notes.append(f"{name} is set to {given}: what is compiled there is not kept")
        elif compiler.name == "cann" and not _CANN_PATH.fullmatch(path):
            notes.append(f"{name} stays unset: CANN takes only letters, digits, '_', '-' and '.', not {path}")
        else:
            values[name] = path
            if compiler.switch:
                values[compiler.switch] = "1"
    return CompilerVariables(values, tuple(notes))


def is_temporary_of_compiler(path: str) -> bool:
    """Returns whether a path below a cache is a lock, or a file that its compiler is still writing."""
    *parents, name = path.split("/")
    return (
        "locks" in parents
        or name.endswith((".lock", ".tmp"))
        or any(part.startswith(("tmp.", ".tmp")) for part in (*parents, name))
    )
