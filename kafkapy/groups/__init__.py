"""The group coordinator: groups of consumers, and the offsets that they commit.

Handlers call `coordinator.py`. `group.py` is the interface of a group of any type; each type has a folder.
`transition.py` makes the records of one event. `offsets.py` holds committed offsets. `records.py` is the
format of `__consumer_offsets`, `loading.py` reads a partition of it, and `offset_writes.py` and
`group_writes.py` write it.
"""
