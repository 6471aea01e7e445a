"""Consumer groups (KIP-848): the coordinator assigns their partitions.

Members follow with heartbeats. A group has three epochs, none of which ever goes back. The group epoch rises
when a member, a subscription or a topic changes. The assignment epoch is that of the target assignment, which
is computed for a group epoch. A member's epoch is that of the target that it has reached.

    change ─► group epoch ─► target assignment ─► each member: revoke ─► (others release) ─► assign

`group.py` and `member.py` hold the state, which changes only by records (`records.py`), as when it is loaded.
`heartbeat.py`, `classic_members.py` and `departures.py` are the state machine: they make the records of one
event, which can be undone. `reconciliation.py` moves one member towards its
target, and `target.py` computes it with an assignor. `conversion.py` turns groups into classic groups and
back. None of these does any I/O. `consumer_groups.py` connects them with the log, the timers and the clients.
"""
