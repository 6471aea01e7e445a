"""The schema registry: its REST interface, its formats, its topic."""
