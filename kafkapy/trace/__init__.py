"""`kafkapy trace`: what clients and brokers of any Kafka cluster say to each other.

`relay` is the proxy. Each connection is a `conversation`, whose `exchange`s become lines (`lines`) and go to
a file (`trace_file`). It uses the project's codec and nothing of its broker.
"""
