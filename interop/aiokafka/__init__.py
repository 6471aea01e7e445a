"""aiokafka against the broker."""
