"""sarama, a client in Go, against the broker."""
