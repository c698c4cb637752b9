"""What others made a server do while it was only watched."""

import statistics

from unslow.facts.run import Traffic
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, first_known
from unslow.think.report import Cost, Evidence
from unslow.think.waits import SOMEBODY

__all__ = ["SOMEBODY", "cite_traffic", "counts_waiting", "nobody_else", "waited"]


def cite_traffic(traffic: Known[Traffic], words: str) -> Evidence:
    """What was watched, as evidence."""
    reference = f"{traffic.value.looks} looks in {traffic.value.seconds:.0f} s"
    return Evidence(
        fact="run.traffic", value=words, reference=reference, origin=str(traffic.origin), source=traffic.source
    )


def counts_waiting(case: Case) -> bool:
    """Whether the server was watched and tells how many wait: one that does not is not without a queue."""
    traffic = case.run.traffic
    return isinstance(traffic, Known) and traffic.value.counts_waiting


def nobody_else(case: Case) -> bool:
    """Whether the server was idle when it was looked at and answered nobody else while it was measured."""
    runtime = case.runtime
    in_work = first_known(runtime.busy_slots, runtime.running_requests).value_or(1)
    is_asked = isinstance(runtime.url, Known) and isinstance(case.run.completions, Known)
    return is_asked and not in_work and not runtime.deferred_requests.value_or(0)


def waited(case: Case) -> Cost | None:
    """How long a request waits for its place; None where nobody timed one.

    As many begin as end: each waits for as long as those before it take, a place of theirs after the other.
    """
    if isinstance(case.run.queue_s, Known):
        return Cost(seconds=case.run.queue_s.value, per="request")
    traffic, took = case.run.traffic, case.run.request_s.value_or(())
    if not isinstance(traffic, Known) or not took or traffic.value.running <= 0:
        return None
    whole_s = statistics.median(took)  # what waiting and being answered take together
    present = traffic.value.running + traffic.value.waiting
    return Cost(seconds=whole_s * traffic.value.waiting / present, per="request")
