"""`kafkapy check`: finds damage in a data directory, without a broker or any change.

    layout.py            what a path is: log directories, or one partition
    check.py             the complete check
    owners.py            which broker and cluster each directory belongs to, by the ids in its files
    directory_check.py   a log directory: its ids, its leftovers, whether a broker holds its lock
    checkpoint_check.py  the checkpoints: their syntax, and lines for partitions that do not exist
    kraft_check.py       KRaft's own files, and kafkapy's metadata.db
    partition_check.py   one partition: its segments in order, and its log against the checkpoints
    segment_check.py     one segment: every batch, with --deep every record
    segment_report.py    the result of checking a segment
    index_check.py       the offset and time index of a segment against its batches
    txn_index_check.py   the transaction index of a segment against its markers
    partition_files.py   epochs, producer snapshots, topic id, leftovers
    known_damage.py      the damage that a broker has noted
    start_check.py       what the next start would do to one log
    finding.py           one problem, its severity, and its remedy

Batches are checked by the walk that recovery uses (storage/log/batch_walk.py), and indexes, checkpoints and
snapshots by the modules that a broker reads them with. A problem below an offset that was known to be on disk
is damage. A problem above it may be the result of a crash, and the next start repairs it.

A directory can be checked while a broker runs on it. The part that the broker is writing is not checked.
"""
