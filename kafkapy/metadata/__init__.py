"""What the cluster knows about itself: a tree of small nodes, and an image of it.

The tree is the truth. The image is what handlers read.
"""
