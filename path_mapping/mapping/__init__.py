"""Reads and checks the mapping file."""

from path_mapping.mapping.mapping_file import read_mapping
from path_mapping.mapping.overlaps import overlaps
from path_mapping.mapping.routes import ObsUrl, PathMapping, Route
from path_mapping.mapping.selection import Shard, selected, sharer

__all__ = ["ObsUrl", "PathMapping", "Route", "Shard", "overlaps", "read_mapping", "selected", "sharer"]
