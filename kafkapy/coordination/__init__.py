"""What every coordinator is made of: memory that follows an internal topic.

`runtime.py` holds the partitions of a coordinator's topic: it reads them, gives them up and reads them again,
and writes to them. `topic_log.py` is what it needs of the topic, `local_log.py` the topic on this broker. A
coordinator is a `runtime.StateMachine`: it says what records mean.
"""
