"""What a Prometheus told of one engine, as the facts that causes read."""
