"""Opening logs after a stop, and repairing what a crash left."""
