"""Share partitions: what becomes of each record that share groups are given (KIP-932).

The leader of a partition decides for each share group which member gets which record (`share_partition.py`, a
state machine without I/O, on the runs of `in_flight.py`). `led_partitions.py` keeps those of this broker,
`sessions.py` the share sessions of members, and `fetch.py` reads for them.

What was decided is kept by a share coordinator, in `__share_group_state`: `state.py` is the state of one
share partition, `state_records.py` its records, `share_coordinator.py` the coordinator. `persister.py` asks
the coordinators of the cluster.
"""
