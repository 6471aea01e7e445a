"""Client telemetry (KIP-714): the metrics that clients are asked for, and have pushed.

    subscriptions.py   what an operator asks of which clients: the settings of `client-metrics` resources
    instances.py       the clients that have asked for their subscription, and when they may push again
    otlp.py            the format of a push: OpenTelemetry's MetricsData
    samples.py         the values that clients have pushed, until they are stale

Prometheus reads the values with the broker's own metrics. So these APIs are served while metrics are on.
Apache Kafka serves them while a metrics reporter is a telemetry exporter.
"""
