"""A schema registry with the REST interface of Confluent's, kept in a topic of any cluster.

rest        HTTP: paths, bodies, error codes
registry    what each request does, in what order it is checked
formats     Avro, JSON Schema and Protobuf: what is valid, and what is compatible
subjects    all that is registered, in memory, made of the topic's records
topic       `_schemas`, by kafka-python
entries     the topic's records: Confluent's format, which Karapace has too
"""
