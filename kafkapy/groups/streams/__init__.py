"""Streams groups (KIP-1071): the coordinator assigns the tasks of Kafka Streams.

A member is one thread, and the members of one process share a process id. A member sends its topology when it
joins. The first one makes the topology of the group. From it and from the topics that exist, the coordinator
computes how many partitions the internal topics must have, and creates those that are missing. A task is a
subtopology and a partition number. There is one active task of each. Subtopologies with state may have
standby tasks too, which only restore the state, in other processes.

    topology ─► configured topology ─► group epoch ─► target assignment ─► each member: revoke ─► assign

A group has three epochs, as a consumer group has (`kafkapy.groups.consumer`). `topology.py` is the
topology of a member, and `configured_topology.py` has its tasks and topics. `sticky_assignor.py` computes the
target assignment, and `reconciliation.py` moves one member towards it. `group.py` and `member.py` hold the
state, which changes only by records (`records.py`). `progress.py` and `heartbeat.py` are the state machine.
`endpoints.py` tells members where state can be queried. None of these does any I/O. `streams_groups.py`
connects them with the log, the timers and the clients.

As in Apache Kafka 4.3, there are no static members, no warm-up tasks, no source topics by regular expression,
and no second topology in a group that has one.
"""
