"""How a diagnosis of a fleet ends, for whoever started it."""

from unslow.think.fleet.report import FleetReport

FINE, FOUND, UNTOLD = 0, 1, 3


def status_of(report: FleetReport) -> int:
    """1 where something is slow, failed or slower than its peers, 0 where what could be judged is normal, else 3."""
    verdicts = report.verdicts
    odd = any(group.odd for group in report.peers)
    if verdicts.get("slow", 0) or verdicts.get("failed", 0) or odd:
        return FOUND
    return FINE if verdicts.get("normal", 0) else UNTOLD
