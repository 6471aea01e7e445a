"""Commands for any Kafka cluster: what Kafka's shell tools do, and more.

They are clients, on kafka-python. Each noun has a file with the click command of that name. `connection/`
says which cluster is meant and how it is reached; `output.py` writes tables, JSON and YAML.
"""
