"""Safe reads and writes on the local disk."""

from path_mapping.errors import printable as printable
from path_mapping.localfs.atomic_file import (
    PartJournal as PartJournal,
    TargetDir as TargetDir,
    allocate as allocate,
    contained as contained,
    host_mark as host_mark,
    is_locked as is_locked,
    leftovers as leftovers,
    locks_are_local as locks_are_local,
    make_directories as make_directories,
    put_mark as put_mark,
    read_mark as read_mark,
    stem_of as stem_of,
    write_all as write_all,
    write_verified as write_verified,
)
from path_mapping.localfs.names import (
    LONGEST_PATH as LONGEST_PATH,
    TEMPORARY as TEMPORARY,
    Clashes as Clashes,
    is_temporary as is_temporary,
    key_problem as key_problem,
    shown as shown,
    unsafe as unsafe,
)
from path_mapping.localfs.source_file import (
    CHANGED_ATTEMPTS as CHANGED_ATTEMPTS,
    CHUNK as CHUNK,
    FileChanged as FileChanged,
    FileState as FileState,
    RangeReader as RangeReader,
    check_unchanged as check_unchanged,
    chunks as chunks,
    crc64 as crc64,
    crc64_of_parts as crc64_of_parts,
    md5_of as md5_of,
    new_md5 as new_md5,
    state_of as state_of,
)
