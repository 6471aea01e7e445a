"""`kafkapy dump-log`: shows the files of a data directory as kafka-dump-log does.

    file_kinds.py       the kind of a file, and the files of a directory
    batches.py          segment files and KRaft snapshots: batches and records
    indexes.py          offset, time and transaction indexes, and their comparison with the log
    small_files.py      producer snapshots, checkpoints, partition.metadata, meta.properties and others
    decoders.py         keys and values of the broker's own topics
    message_json.py     any message of the protocol as JSON, with Kafka's names
    text.py             facts as the lines that kafka-dump-log prints

Each file becomes a series of facts (fact.py). They are printed as text, or as JSON with --json. Facts have
the names that kafka-dump-log prints, so the outputs of both can be compared, and a program can read either.

Files are only opened for reading, so a running broker is not affected.
"""
