"""`kafkapy check`: looks for damage in a data directory, without a broker and without changing a byte.

    layout.py            what a path holds: log directories, or one partition
    check.py             all of it, from end to end
    owners.py            whose the directories are, by their ids
    directory_check.py   a log directory: whose it is, leftovers, a lock that somebody holds
    checkpoint_check.py  its checkpoints: their syntax, and lines for what is not there
    kraft_check.py       KRaft's own files, and kafkapy's metadata.db
    partition_check.py   one partition: its segments in order, and the checkpoints against its log
    segment_check.py     one segment: every batch, with --deep every record
    segment_report.py    what that leaves
    index_check.py       offset and time index of a segment against what lies in it
    txn_index_check.py   its transaction index against the markers in it
    partition_files.py   epochs, producer snapshots, topic id, leftovers
    known_damage.py      what a broker has set aside already
    verdict.py           how bad something is at an offset: what the next start would make of it
    finding.py           one thing that is wrong, how bad it is, and what to do

What a batch must be is asked of recovery's own function (storage/batches.py), what an index, a checkpoint or
a snapshot must be of the modules that a broker reads them with. What lies below an offset that was known to
be on disk is damage; what lies above it a crash may have left, and the next start repairs it.

A directory that a broker is running on can be checked: what is being written is left out.
"""
