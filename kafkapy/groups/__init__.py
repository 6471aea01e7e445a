"""The group coordinator: groups of consumers, and the offsets that they commit.

`coordinator.py` is what handlers call. `group.py` is what is asked of any group; `classic/` is the only type
there is. `offsets.py` holds committed offsets. `records.py` is the format of `__consumer_offsets`, and
`loading.py` is what a partition of it says. `offset_writes.py` and `group_writes.py` write it.
"""
