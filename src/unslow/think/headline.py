"""What is slow now, in the words of what was found, and what it should be."""

from unslow.facts.snapshot import Case
from unslow.facts.values import Known
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
_WAITS_OF = {
    _THINKING: "The answer begins only after about {seconds} of thinking",
    "model_reloads_between_requests": "A request for which it has to be loaded again waits {seconds}",
}
"""What a request waits for, where that is no part of the requests that were timed."""
_LACK_GPU_MEMORY = ("weights_spill_to_ram", "model_outside_envelope")
_LACK_MEMORY = ("weights_streamed_from_disk",)
_OF_TOKENS = ("decode", "prefill")


def is_now(case: Case, report: SubjectReport) -> str:
    """What it does now and what it should do, in the phase that is slow."""
    if said := _outside(report) or _of_findings(case, report):
        return said
    metric = PREFILL if report.phase == "prefill" and PREFILL in report.expected.achievable else DECODE
    rate, achievable = report.measured.get(metric), report.expected.achievable.get(metric)
    if not rate:
        return "It is set up to be slow." if report.phase == "decode" else ""
    should = _should(report, achievable.mid) if achievable else ""
    if metric == PREFILL:
        return f"It reads prompts at {rounded(rate)} tokens per second{should}."
    return f"{speed(case, rate)}{should}."


def speed(case: Case, rate: float) -> str:
    """The speed and whose it is: a measurement's, or that of all requests so far."""
    if isinstance(case.run.decode_tokens_per_s, Known):
        return f"It generates {rounded(rate)} tokens per second"
    return f"On average since it started it generated {rounded(rate)} tokens per second"


def roots(findings: tuple[Finding, ...]) -> list[str]:
    """The causes that no other finding explains."""
    return [f.cause for f in findings if not any(f.cause in g.explains for g in findings)]


def _outside(report: SubjectReport) -> str:
    """A phase in which nothing is computed, where it is the slow one and was measured."""
    seconds = sum(b.seconds for b in report.budget if b.phase == report.phase and b.per == "request")
    if not seconds or report.phase not in _WAITS or _first_cause(report) == _THINKING:
        return ""
    return f"{_WAITS[report.phase].format(seconds=f'{seconds:.2g} s')}{_beside(report)}."


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
        return f"{_WAITS_OF[first.cause].format(seconds=f'{cost.seconds:.2g} s')}{_beside(report)}."
    if report.phase == "prefill" and cost.per == "request":
        return f"Every request spends {cost.seconds:.2g} s too long on its prompt{_beside(report)}."
    return ""


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
