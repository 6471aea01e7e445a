"""Classic groups: a leader among their members assigns the partitions.

The coordinator brings the members together. `member.py` and `group.py` hold a group's data and rules.
`rebalance.py`, `join.py`, `sync.py`, `leave.py` and `sessions.py` are its state machine, without any I/O.
`metadata.py` is the group as its record has it.
"""
