"""What the cluster knows about itself: a tree of small nodes (the truth) and an image of it (what handlers
read)."""
