"""How much of what a person waits for each phase could still explain, from 0 to 1."""

from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.report import SubjectReport

ALWAYS = 0.05
"""A phase that does all it can may still be the one that somebody complains of."""
UNKNOWN = 0.3
"""A phase of which no speed is known, or none is expected."""
_RATES = {"decode": "decode_tokens_per_s", "prefill": "prefill_tokens_per_s"}


def stakes(case: Case, report: SubjectReport) -> dict[str, float]:
    """The share of its time that each phase may have lost, by its name."""
    return {
        "decode": max(_lost(report, "decode"), _unexplained(report)),
        "prefill": _lost(report, "prefill"),
        "client": _outside(case),
        "queue": _waiting(case),
        "load": UNKNOWN,
    }


def _lost(report: SubjectReport, phase: str) -> float:
    """What is missing to the achievable speed; little where its interval is reached."""
    measured, best = report.measured.get(_RATES[phase]), report.expected.achievable.get(_RATES[phase])
    if not measured:
        return 1.0
    if best is None or best.mid <= 0:
        return UNKNOWN
    return ALWAYS if measured >= best.low else max(ALWAYS, 1 - measured / best.mid)


def _unexplained(report: SubjectReport) -> float:
    """Of a slow token, what nothing explains yet; of one at full speed the rest is the error of the prediction."""
    best, measured = report.expected.achievable.get(_RATES["decode"]), report.measured.get(_RATES["decode"])
    total = sum(part.seconds for part in report.budget if part.phase == "decode")
    if not total or (best and measured and measured >= best.low):
        return 0.0
    return sum(p.seconds for p in report.budget if p.phase == "decode" and p.part == "unexplained") / total


def _outside(case: Case) -> float:
    """What passes between the client and the server, of whole requests."""
    runs = case.run.completions.value_or(())
    whole = [(c.client_total_s, c.prefill_s + c.decode_s) for c in runs if c.client_total_s]
    total = sum(client for client, _ in whole)
    return max(2 * ALWAYS, sum(max(0.0, client - own) for client, own in whole) / total) if total else UNKNOWN


def _waiting(case: Case) -> float:
    """Whether requests wait for their turn."""
    runtime, traffic = case.runtime, case.run.traffic
    waits = runtime.deferred_requests.value_or(0) or (traffic.value.waiting if isinstance(traffic, Known) else 0)
    return 1.0 if waits else 2 * ALWAYS
