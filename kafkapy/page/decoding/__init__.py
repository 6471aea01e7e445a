"""Keys, values and headers as people read them."""
