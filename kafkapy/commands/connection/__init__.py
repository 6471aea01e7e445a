"""Which cluster a command is for, and how it is reached: contexts, properties, clients."""
