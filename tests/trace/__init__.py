"""The proxy with stock clients, and with bytes that no client sends."""
