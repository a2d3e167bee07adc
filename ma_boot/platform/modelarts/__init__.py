"""ModelArts: the job of a node by its variables and its machine, and the programs that it expects."""
