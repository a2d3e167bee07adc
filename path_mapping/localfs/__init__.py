"""Safe reads and writes on the local disk."""

from path_mapping.localfs.atomic_file import (
    TargetDir,
    contained,
    make_directories,
    write_all,
    write_verified,
)
from path_mapping.localfs.checksums import crc64, crc64_of_parts, md5_of, new_md5
from path_mapping.localfs.marks import put_mark, read_mark
from path_mapping.localfs.names import (
    LONGEST_PATH,
    TEMPORARY,
    Clashes,
    is_temporary,
    key_problem,
    printable,
    shown,
    unsafe,
)
from path_mapping.localfs.source_file import (
    CHANGED_ATTEMPTS,
    CHUNK,
    FileChanged,
    FileState,
    RangeReader,
    Section,
    check_unchanged,
    chunks,
    state_of,
)
from path_mapping.localfs.unfinished import (
    PartJournal,
    allocate,
    is_locked,
    leftovers,
    stem_of,
)

__all__ = [
    "CHANGED_ATTEMPTS",
    "CHUNK",
    "LONGEST_PATH",
    "TEMPORARY",
    "Clashes",
    "FileChanged",
    "FileState",
    "PartJournal",
    "RangeReader",
    "Section",
    "TargetDir",
    "allocate",
    "check_unchanged",
    "chunks",
    "contained",
    "crc64",
    "crc64_of_parts",
    "is_locked",
    "is_temporary",
    "key_problem",
    "leftovers",
    "make_directories",
    "md5_of",
    "new_md5",
    "printable",
    "put_mark",
    "read_mark",
    "shown",
    "state_of",
    "stem_of",
    "unsafe",
    "write_all",
    "write_verified",
]
