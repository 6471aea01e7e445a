"""The transaction coordinator: which transactions there are, and how each of them ends.

`state_machine.py` decides what a request does to the transactions of one transactional id, and does no I/O.
`coordinator.py` writes what it decides to `__transaction_state`, and `markers.py` ends prepared transactions.
"""
