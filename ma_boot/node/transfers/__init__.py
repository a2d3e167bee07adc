"""What a node moves, and how: `path_mapping` in threads beside the phases, told in the journal."""
