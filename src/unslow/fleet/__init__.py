"""Many snapshots from one Prometheus: what it is asked, what it answers, and what of that belongs together."""
