"""Reads and checks the mapping file. Pure."""

from path_mapping.mapping.document import (
    DictValue as DictValue,
    ListValue as ListValue,
    ScalarValue as ScalarValue,
    Value as Value,
    read_yaml as read_yaml,
)
from path_mapping.mapping.mapping_file import parse_mapping as parse_mapping, read_mapping as read_mapping
from path_mapping.mapping.routes import (
    ObsUrl as ObsUrl,
    OutputOptions as OutputOptions,
    PathMapping as PathMapping,
    Route as Route,
    local_relation as local_relation,
    overlaps as overlaps,
    remote_relation as remote_relation,
)
from path_mapping.mapping.selection import (
    Shard as Shard,
    pattern_problem as pattern_problem,
    selected as selected,
    sharer as sharer,
)
