"""Options of the command line for click, made from the declarations in `ma_boot.node.option`."""
