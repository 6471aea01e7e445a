"""Change streams of databases: each record is a change of one row of a source table."""
