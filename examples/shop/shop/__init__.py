"""A shop that keeps its orders, shipments, bills, stock and prices in topics."""
