"""Many instances at once: what a Prometheus tells of them, judged; and this machine's diagnosis as metrics for one."""
