"""Who a client is, what protects its connection, and what it may do."""
