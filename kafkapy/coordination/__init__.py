"""The common parts of coordinators: state in memory that follows an internal topic.

`runtime.py` manages the partitions of a coordinator's topic: it loads, unloads and reloads them, and writes
to them. `topic_log.py` is the interface of the topic, `local_log.py` its implementation on this broker. A
coordinator is a `runtime.StateMachine`, which interprets the records.
"""
