"""franz-go: transactions, and groups of three types.

They are tested by a program of this suite, and by franz-go's own tests.
"""
