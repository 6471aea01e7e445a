"""What coordinators cost.

Groups form, offsets are committed, transactions run, and a large state is loaded.
"""
