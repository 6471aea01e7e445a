"""Share groups (KIP-932): members, and from which partitions they take records.

`share_groups.py` handles requests. A group (`group.py`) changes by records only (`records.py`). Its members
(`member.py`) send heartbeats (`heartbeat.py`) and get partitions from an assignor (`simple_assignor.py`).
`state_partitions.py` says which share partitions have a state, which `state_requests.py` has the share
coordinator keep. The leaders of partitions keep the states of single records (`kafkapy.share`).
"""
