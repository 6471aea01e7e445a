"""kafka-go, a client in Go, against the broker."""
