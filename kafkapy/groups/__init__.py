"""The group coordinator: groups of consumers, and the offsets that they commit.

Handlers call `coordinator.py`. `group.py` is the interface of a group of any type; each type has a folder.
`modern/` has the parts that consumer, share and streams groups share: `event_records.py` makes the records of
one event. `offsets/` holds committed offsets: `commit.py` reads them from requests, and `writes.py` writes
them. `records.py` is the format of `__consumer_offsets`, and `loading.py` reads a partition of it.
"""
