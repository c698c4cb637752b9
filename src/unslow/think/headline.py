"""What is slow now, in the words of what was found, and what it should be."""

from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.past_loads import load_time_s
from unslow.think.among_others import each_rate
from unslow.think.chains import chains_of
from unslow.think.predict import DECODE, PREFILL
from unslow.think.rates import rounded
from unslow.think.report import Cost, Finding, SubjectReport

AS_MUCH_AS_FITS = "with as much on the GPU as fits"
_WAITS = {
    "client": "Every request loses {seconds} outside the server",
    "queue": "Every request waits {seconds} for its turn",
    "load": "Every request waits {seconds} for the model to load",
}
_THINKING = "answer_is_mostly_thinking"
_RELOADS = "model_reloads_between_requests"
_WAITS_OF = {
    _THINKING: "The answer begins only after about {seconds} of thinking",
    _RELOADS: "A request for which it has to be loaded again waits {seconds}",
}
"""What a request waits for, where that is no part of the requests that were timed."""
_LACK_GPU_MEMORY = ("weights_spill_to_ram", "model_outside_envelope")
_LACK_MEMORY = ("weights_streamed_from_disk",)
_OF_TOKENS = ("decode", "prefill")


def is_now(case: Case, report: SubjectReport) -> str:
    """What it does now and what it should do: in the phase that was found to be slow, then in the slowest."""
    if said := _outside(report) or _of_findings(case, report):
        return said
    metrics = dict.fromkeys(_metric(report, phase) for phase in (_phase_found(report), report.phase))
    losing = [metric for metric in metrics if not _is_reached(report, metric)]
    told = " ".join(said for metric in losing or metrics if (said := _told(case, report, metric)))
    return told or ("It is set up to be slow." if report.phase == "decode" else "")


def _is_reached(report: SubjectReport, metric: str) -> bool:
    """Whether it is as fast as it should be."""
    should = report.expected.achievable.get(metric)
    return bool(should and report.measured.get(metric, 0.0) >= should.mid)


def _phase_found(report: SubjectReport) -> str:
    """What the first of the roots is about: a phase that loses more may be its consequence, or have no cause yet."""
    phase = chains_of(report.findings)[0].root.phase if report.findings else report.phase
    return phase if {phase, report.phase} <= set(_OF_TOKENS) else report.phase


def _metric(report: SubjectReport, phase: str) -> str:
    return PREFILL if phase == "prefill" and PREFILL in report.expected.achievable else DECODE


def _told(case: Case, report: SubjectReport, metric: str) -> str:
    """A speed and what it should be; empty where it was not measured."""
    rate, achievable = report.measured.get(metric), report.expected.achievable.get(metric)
    if not rate:
        return ""
    should = _should(report, achievable.mid) if achievable else ""
    if metric == PREFILL:
        return f"It reads prompts at {rounded(rate)} tokens per second{should}."
    return f"{speed(case, rate)}{should}."


def speed(case: Case, rate: float) -> str:
    """The speed and whose it is: a measurement's, that of requests that were watched, or of all requests so far."""
    if isinstance(case.run.decode_tokens_per_s, Known):
        return f"It generates {rounded(rate)} tokens per second"
    if isinstance(each_rate(case), Known):
        return f"While it was watched each request got {rounded(rate)} tokens per second"
    return f"On average since it started it generated {rounded(rate)} tokens per second"


def roots(findings: tuple[Finding, ...]) -> list[str]:
    """The causes that no other finding explains."""
    return [f.cause for f in findings if not any(f.cause in g.explains for g in findings)]


def _outside(report: SubjectReport) -> str:
    """A phase in which nothing is computed, where it is the slow one and was measured."""
    seconds = sum(b.seconds for b in report.budget if b.phase == report.phase and b.per == "request")
    if not seconds or report.phase not in _WAITS or _first_cause(report) == _THINKING:
        return ""
    return f"{_WAITS[report.phase].format(seconds=_seconds(seconds))}{_beside(report)}."


def _first_cause(report: SubjectReport) -> str:
    return chains_of(report.findings)[0].root.cause if report.findings else ""


def _beside(report: SubjectReport) -> str:
    """The speed of the answer, which is not what is slow."""
    rate = report.measured.get(DECODE)
    return f"; the answer itself comes at {rounded(rate)} tokens per second" if rate else ""


def _of_findings(case: Case, report: SubjectReport) -> str:
    """What is slow where the usual request is not: the load, the thinking, a later turn, or a long chat."""
    if not report.findings:
        return ""
    first = chains_of(report.findings)[0].root
    return _of_load(case, report) if first.cause == "slow_model_load" else _by_cost(case, report, first)


def _by_cost(case: Case, report: SubjectReport, first: Finding) -> str:
    """By what the first of the roots costs, where that is no part of the usual time of a token."""
    cost = first.cost
    if cost is None:
        return _alone(report) if first.phase == report.phase not in _OF_TOKENS else ""
    if cost.depth_tokens is not None:
        return _of_depth(case, cost)
    if first.cause in _WAITS_OF and cost.per == "request":
        wait_s = (first.cause == _RELOADS and load_time_s(case)) or cost.seconds  # the cost is a mean of all requests
        return f"{_WAITS_OF[first.cause].format(seconds=_seconds(wait_s))}{_beside(report)}."
    if first.phase == "client" and cost.per == "request":
        return f"Every answer is held up for {_seconds(cost.seconds)} outside the server{_beside(report)}."
    if report.phase == "prefill" and cost.per == "request":
        return f"Every request spends {_seconds(cost.seconds)} too long on its prompt{_beside(report)}."
    return ""


def _seconds(seconds: float) -> str:
    """A time with two digits, and never as a power of ten."""
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"  # noqa: PLR2004 (two digits)


def _of_load(case: Case, report: SubjectReport) -> str:
    load = case.run.load_s
    takes = f"{load.value:.0f} s" if isinstance(load, Known) else "long"
    return f"The model takes {takes} to load{_beside(report)}."


def _alone(report: SubjectReport) -> str:
    """The speed of tokens where something else is slow, and nobody timed that."""
    rate = report.measured.get(DECODE)
    return f"The answer itself comes at {rounded(rate)} tokens per second; what is slow is the wait." if rate else ""


def _of_depth(case: Case, cost: Cost) -> str:
    """The speed at the start of a chat and deep in it, and what would be usual there."""
    tried = [one for one in case.run.depths.value_or(()) if one.tokens_per_s > 0]
    depths = sorted(tried, key=lambda one: one.depth_tokens)
    if len(depths) < 2:  # noqa: PLR2004 (a fall has two ends)
        return ""
    shallow, deep = depths[0], depths[-1]
    usual_s = 1 / deep.tokens_per_s - cost.seconds
    usual = f"; about {rounded(1 / usual_s)} would be usual there" if usual_s > 0 else ""
    return (
        f"It generates {rounded(shallow.tokens_per_s)} tokens per second at the start of a chat, and "
        f"{rounded(deep.tokens_per_s)} once it is {deep.depth_tokens:,} tokens long{usual}."
    )


def _should(report: SubjectReport, rate: float) -> str:
    """What to hold the speed against; a model that is too large for the memory will not reach it here."""
    if report.expected.because == AS_MUCH_AS_FITS:
        return f"; {AS_MUCH_AS_FITS} about {rounded(rate)} are usual"
    first = roots(report.findings)[:1]
    if first and first[0] in _LACK_GPU_MEMORY:
        return f"; all in the memory of such a GPU it would be about {rounded(rate)}, but it does not fit"
    if first and first[0] in _LACK_MEMORY:
        return f"; with all of its weights in memory it would be about {rounded(rate)}"
    return f"; this hardware should give about {rounded(rate)}"
