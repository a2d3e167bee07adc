"""Runs a transfer, from the plan to the last byte.

`download` and `upload` prepare the plan, and turn each file to copy into a job (`jobs`). `move_files` chooses
a pool, a loop here or worker processes (`parts`), and runs the jobs on it (`scheduler`): each yields units,
the requests in `path_mapping.stores`, until its file is complete. `periodic` uploads in rounds, and
`fetch_files` and `send_files` move files without a plan.
"""
