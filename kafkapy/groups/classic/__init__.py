"""Classic groups: a leader among their members assigns the partitions.

`member.py` and `group.py` have the data and rules of a group. `rebalance.py`, `join.py`, `sync.py`,
`leave.py` and `sessions.py` are its state machine, without any I/O. `metadata.py` converts a group to its
record and back.
"""
