"""The cluster's metadata: a tree of small nodes, and an image of it.

The tree is authoritative. Handlers read the image.
"""
