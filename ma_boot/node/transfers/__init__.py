"""Transfers of a node: inputs and outputs by `path_mapping`, in threads beside the phases."""
