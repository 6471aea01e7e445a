"""Reading for consumers: fetch sessions, and one pass over the partitions of a request."""
