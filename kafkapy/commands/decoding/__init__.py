"""Keys and values by the schemas of a registry, as JSON, and as text."""
