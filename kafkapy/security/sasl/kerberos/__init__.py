"""SASL GSSAPI: clients and brokers prove who they are by Kerberos."""
