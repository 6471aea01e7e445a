"""What a broker of a test does wrong to its clients on purpose.

    broker.faults.produce(topic="orders").error("NOT_LEADER_OR_FOLLOWER", times=2)

While a fault is switched on, the server of the broker leads requests to `FaultyDispatcher`, which stands
before the dispatcher of all others. Without any, nothing here is imported, and no request passes anything.
The names of APIs, of error codes, of topics and partitions in requests and answers are those of the tables
and the schemas of the protocol; nothing is listed here again.
"""
