"""Asking a Prometheus, and anything that answers like one: Thanos, Mimir, VictoriaMetrics."""
