"""What tests see of a broker in their process, and wait for: topics, groups, transactions.

Everything is asked of the broker by Kafka's own requests, as objects, without a client.
"""
