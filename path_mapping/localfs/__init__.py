"""Safe reads and writes on the local disk."""

from path_mapping.localfs.atomic_file import (
    CHANGED_ATTEMPTS,
    CHUNK,
    TEMPORARY,
    Section,
    State,
    chunks,
    contained,
    is_temporary,
    make_directories,
    state_of,
    stem_of,
    write_verified,
)
from path_mapping.localfs.checksums import crc64, crc64_of_parts, md5_of, new_md5
from path_mapping.localfs.marks import put_mark, read_mark
from path_mapping.localfs.names import LONGEST_PATH, Clashes, no_key, printable, shown, unsafe
from path_mapping.localfs.part_journal import PartJournal
from path_mapping.localfs.target_dir import TargetDir, allocate, is_locked, leftovers, write_all

__all__ = [
    "CHANGED_ATTEMPTS",
    "CHUNK",
    "LONGEST_PATH",
    "TEMPORARY",
    "Clashes",
    "PartJournal",
    "Section",
    "State",
    "TargetDir",
    "allocate",
    "chunks",
    "contained",
    "crc64",
    "crc64_of_parts",
    "is_locked",
    "is_temporary",
    "leftovers",
    "make_directories",
    "md5_of",
    "new_md5",
    "no_key",
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
