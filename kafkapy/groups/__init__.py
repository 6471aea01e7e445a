"""The coordinator of classic consumer groups: membership, rebalances, committed offsets.

`member.py` and `group.py` hold a group's data and rules; `rebalance.py`, `join.py`, `sync.py` and
`sessions.py` are its state machine, without any I/O; `offsets.py` holds committed offsets; `records.py`
is the format of `__consumer_offsets`, `offsets_topic.py` reads and writes that topic; `coordinator.py`
is what handlers call.
"""
