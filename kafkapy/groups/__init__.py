"""The group coordinator: groups of consumers, and the offsets that they commit.

`group.py` is what is asked of any group, `classic/` the one type there is. `offsets.py` holds committed
offsets. `records.py` is the format of `__consumer_offsets`, `loading.py` what a partition of it says;
`offset_writes.py` and `group_writes.py` write it. `coordinator.py` is what handlers call.
"""
