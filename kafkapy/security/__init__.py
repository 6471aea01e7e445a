"""Who a client is, and what protects its connection."""
