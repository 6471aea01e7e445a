"""The topics of the shop, with their partitions."""

ORDERS = "orders"
CANCELLATIONS = "cancellations"
SHIPMENTS = "shipments"
BILLS = "bills"
STOCK = "stock"
PRICES = "prices"
DEAD_LETTERS = "orders-dead-letters"

PARTITIONS = {ORDERS: 6, CANCELLATIONS: 6, SHIPMENTS: 3, BILLS: 3, STOCK: 1, PRICES: 1, DEAD_LETTERS: 1}
COMPACTED = (STOCK, PRICES)
