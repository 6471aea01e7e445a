"""franz-go: transactions and groups of three types, by a program of the suite and its own tests."""
