"""What coordinators cost: groups that form, commits of offsets, transactions, the load of a large state."""
