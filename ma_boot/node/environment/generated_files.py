"""Names of files that Python, CANN, MindSpore and PyTorch generate beside the code. Pure."""

from __future__ import annotations

import re
from fnmatch import translate

# Caches that no training needs again; docs/path-mapping.md has this list. A pattern with a `/` is matched
# with the name of a file and that of its directory.
CACHES = (
    ".*", "__pycache__", "*.pyc", "kernel_meta*", "*_kernel_meta", "compile_cache", "graph_cache",
    "extra-info", "torchinductor_*", "rank_*/om", "rank_*/ir_dump", "fusion_result.json", "ge_check_op.json",
    "akg_build_tmp.key", "trace_code_graph_*",
)  # fmt: skip
_CACHES = re.compile("|".join(translate(pattern if "/" in pattern else f"*/{pattern}") for pattern in CACHES))


def is_generated(path: str) -> bool:
    """Returns whether the last name of a path is that of a generated file or directory."""
    parent, name = path.rpartition("/")[::2]
    return _CACHES.match(f"{parent.rpartition('/')[2]}/{name}") is not None
