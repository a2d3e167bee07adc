"""The options of `ma_boot run`: a module for each topic, in the order of the help. Pure.

Words that other rooms know, such as the kinds of rendezvous, are spelled out here: loading those rooms would
slow down `--help` and completion. A test compares them.
"""
