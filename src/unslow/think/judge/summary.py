"""The diagnosis in one paragraph that a person can act on."""

import re

import msgspec

from unslow.facts.values import GB, NOT_LOOKED, Absence, Unknown
from unslow.think.case.group import if_known
from unslow.think.case.sharing import OTHERS, PROMPTS
from unslow.think.case.speed import DECODE
from unslow.think.case.view import CaseView
from unslow.think.case.waits import USUAL_ANSWER
from unslow.think.causes import all_causes
from unslow.think.judge.headline import first_fix, reading_speed, slowness_now, speed_in_words, suspects_in_words
from unslow.think.judge.pricing import UNEXPLAINED
from unslow.think.judge.verdict import Chain, chains_of, told_normal
from unslow.think.physics.decode import HOST_COMPUTE
from unslow.think.report import Cost, SubjectReport
from unslow.think.speed.question import rounded_rate

_SPECK = 0.02  # Of a token: less is not worth a word
_ASIDE, _MOST = 0.1, 0.5
"""Of the dearest cause: what saves less beside it is left for the details. Of what is lost: less is not the answer."""
_LEVERS = (
    "To go faster: a smaller quant, a model with fewer active parameters, batching several requests, a draft model, "
    "or more memory bandwidth."
)
_LEVERS_BESIDE_MEMORY = (
    "To go faster: batching several requests, a model with fewer layers, or a draft model; more memory bandwidth would "
    "not help."
)
_LEVERS_OF_CORES = (
    "To go faster: more or faster cores, a smaller model, or batching several requests; more memory bandwidth would "
    "not help."
)
_LEVERS_AMONG_OTHERS = "To go faster: fewer concurrent requests, although total throughput is higher with more."
_OUTSIDE = ("client", "queue", "load")
_SURE_OF_ITSELF = ("slow_model_load",)  # What was timed comes before what may have been once
_LEVERS_BESIDE_PROMPTS = (
    "To go faster: shorter prompts, prompts with a common prefix that stays cached, fewer prompt tokens per step (vLLM "
    "`--max-num-batched-tokens`, which delays first tokens), or more GPUs."
)
_COUNTED = ("More ", "Fewer ")  # How titles begin that are no sentences
_TOOLS = (
    (re.compile(r"\bollama\b", re.IGNORECASE), "Ollama"),
    (re.compile(r"\bllama-(?:bench|server|cli)\b|-lv 4|\bllama_\w+:"), "llama.cpp"),
    (re.compile(r"\bmemory\.required\b"), "Ollama"),
    (re.compile(r"\bvllm\b", re.IGNORECASE), "vLLM"),
    (re.compile(r"\blms\b|LM Studio"), "LM Studio"),
)
"""Tools that belong to one runtime, by the words of an advice."""


def summary(case: CaseView, report: SubjectReport, advice: str | None = None) -> SubjectReport:
    """The report with its summary filled in; `advice` says what to do next, empty for nothing, None to choose it."""
    said = {"failed": _failed_sentence, "normal": _normal, "slow": _slow, "cannot_tell": _cannot_tell}[report.verdict]
    told = said(case, report, advice)
    sentences = (told, first_fix(report, told))
    return msgspec.structs.replace(report, summary=" ".join(s for s in sentences if s))


def _failed_sentence(case: CaseView, report: SubjectReport, _advice: str | None) -> str:
    causes = "; ".join(f.because for f in report.findings[:2])
    why = causes or case.runtime.memory.load_error.value_or("the log does not say why")
    return f"The model could not be loaded: {why}."


def _slow(case: CaseView, report: SubjectReport, advice: str | None) -> str:
    now = slowness_now(case, report)
    if "reading speed" not in now:
        now = f"{now} {_speed_feeling(case, report)}".strip()
    if advice is None:
        look = "other processes that read memory, and the CPU clock during decode"
        if len(report.devices) > 1:
            look = case.system.spell_out("other processes on the GPU ({gpu_users}), and its clocks during decode")
        advice = _next_reading(case, report) or look
    settle = f" Next, check: {advice}." if advice else ""
    if not report.findings:
        token = [b for b in report.budget if b.phase == "decode"]
        total = sum(b.seconds for b in token)
        share = sum(b.seconds for b in token if b.part == UNEXPLAINED) / total if total else 0.0
        partly = _ASIDE <= share < 1  # where no part is known at all, that says no more than that there is no cause
        open_ = f"{share:.0%} of the time per token is unexplained." if partly else ""
        said = (now, "No cause is proven.", open_, suspects_in_words(report), settle.strip())
        return " ".join(s for s in said if s)
    # The roots that matter, each with what it leads to in the end
    chains = chains_of(report.findings)
    dearest = _request_s(chains[0].root.cost)
    matter = [c for c in chains if not c.root.cost or _request_s(c.root.cost) > _ASIDE * dearest]
    because = "; and because ".join(_chain_sentence(chain) for chain in (matter or chains)[:2])
    little = _explains_little(report)
    return f"{now} Slow because {because}.{little}{settle if little else ''}".lstrip()


def _next_reading(case: CaseView, report: SubjectReport) -> str:
    """What settles the first suspicion, else a cause of the slow phase, in words that this runtime understands."""
    phases = {name: cause.phase for name, cause in all_causes().items()}
    relevant = sorted(report.cannot_tell, key=lambda one: (not one.suspected, phases.get(one.cause) != report.phase))
    runtime = case.runtime.name.value_or("")
    fitting = (c for c in relevant if c.how_to_get and (c.suspected or phases.get(c.cause) == report.phase))
    return next((c.how_to_get for c in fitting if is_for(c.how_to_get, runtime)), "")


def is_for(advice: str, runtime: str) -> bool:
    """Whether an advice names no tool of another runtime."""
    named = {name for pattern, name in _TOOLS if pattern.search(advice)}
    return not named or any(runtime.startswith(name) for name in named)


def _request_s(cost: Cost | None) -> float:
    """What a usual request loses: a cost of every token adds up."""
    if cost is None:
        return 0.0
    return cost.seconds if cost.per == "request" else cost.seconds * USUAL_ANSWER


def _chain_sentence(chain: Chain) -> str:
    if not chain.after:
        return chain.root.because
    end = chain.after[-1].title
    there_are = "there are " if end.startswith(_COUNTED) else ""
    return f"{chain.root.because}, which is why {there_are}{end[0].lower()}{end[1:]}"


def _explains_little(report: SubjectReport) -> str:
    """What to say where what was found, or any of it by itself, is the smaller part of what is lost."""
    rate, achievable = report.measured.get(DECODE), report.expected.achievable.get(DECODE)
    tokens = [f for f in report.findings if f.phase == "decode"]
    if not rate or not achievable or report.phase != "decode" or any(f.speedup is None for f in tokens):
        return ""
    lost = 1 / rate - 1 / achievable.mid
    if not tokens and lost > 0:
        return " This does not explain the decode speed."
    if any(f.cost and f.cost.depth_tokens is not None for f in tokens):
        return ""
    together = sum(f.cost.seconds for f in tokens if f.cost and f.cost.per == "token")
    alone = [(1 - 1 / f.speedup) / rate for f in tokens if f.speedup]
    share = max(together, *alone, 0.0) / lost if lost > 0 else 1.0
    return f" This explains only {share:.0%} of the lost time." if share < _MOST else ""


def _normal(case: CaseView, report: SubjectReport, _advice: str | None) -> str:
    rate, ceiling = report.measured.get(DECODE), report.expected.ceiling_tokens_per_s
    if not rate:
        return f"This is normal for the hardware: {told_normal(case)}. {_LEVERS}"
    usual = f"{speed_in_words(case, rate)}: normal for this hardware."
    likely = report.expected.achievable.get(DECODE)
    if likely and rate > likely.high:
        usual += f" That is above the expected {likely.low:.3g} to {likely.high:.3g}: the prediction was low."
    longest = next((b.part for b in report.budget if b.phase == "decode"), "")
    reads_most = not longest or longest.endswith("memory reads")
    if not ceiling or reads_most or rate > _MOST * ceiling:
        reached = f"That is {rate / ceiling:.0%} of the limit set by memory bandwidth." if ceiling else ""
        said = (usual, reached, _speed_feeling(case, report), _one_channel(case), _LEVERS, _open_beside(report))
    else:  # What would move a speed that memory does not bound, by the longest part of a token
        own = {HOST_COMPUTE: _LEVERS_OF_CORES, OTHERS: _LEVERS_AMONG_OTHERS, PROMPTS: _LEVERS_BESIDE_PROMPTS}
        levers = own.get(longest, _LEVERS_BESIDE_MEMORY)
        said = (usual, _goes_to(report), _speed_feeling(case, report), "", levers, _open_beside(report))
    return " ".join(s for s in said if s)


def _open_beside(report: SubjectReport) -> str:
    """What speaks for a wait that is no part of the speed, and nobody could settle."""
    outside = {name for name, cause in all_causes().items() if cause.phase in _OUTSIDE}
    waits = [c for c in report.cannot_tell if c.suspected and c.because and c.cause in outside]
    if not waits:
        return ""
    first = min(waits, key=lambda one: one.cause not in _SURE_OF_ITSELF)
    how = f" (to find out: {first.how_to_get})" if first.how_to_get else ""
    return f"Also suspected: {first.because}{how}."


def _one_channel(case: CaseView) -> str:
    """What to look at where the memory itself is slower than such a machine's should be."""
    read = case.host.slow_as_one_channel
    if read is None:
        return ""
    words = f"Memory reads run at {read / GB:.0f} GB/s, about one channel's worth, and this CPU has two channels:"
    look = case.system.spell_out("{memory_modules}")
    return f"{words} if a slot is empty, a second module nearly doubles the speed ({look})."


def _goes_to(report: SubjectReport) -> str:
    token = [b for b in report.budget if b.phase == "decode"]
    total = sum(b.seconds for b in token)
    known = [b for b in token if b.part != UNEXPLAINED and b.seconds >= _SPECK * total][:3]
    if not known:
        return ""  # where the weights lie is not known: no part of it can be named
    *first, last = [f"{b.part} ({b.seconds / total:.0%})" for b in known]
    return f"Most of the time per token is {', '.join(first)}{' and ' if first else ''}{last}."


def _cannot_tell(case: CaseView, report: SubjectReport, advice: str | None) -> str:
    unmeasured = case.sharing.rate_among_others
    how = unmeasured.how_to_get if isinstance(unmeasured, Unknown) else ""
    how = advice if advice is not None else how or _prediction_lacks(case, report) or _next_reading(case, report)
    look = f" To find out: {how}." if how else ""
    rate, usual = report.measured.get(DECODE), report.expected.achievable.get(DECODE)
    if not rate or not usual or report.expected.because:
        return f"Whether this is slow is undetermined: {why_untold(case, report)}.{look}"
    suspicion = next((one.because for one in report.cannot_tell if one.suspected and one.because), "")
    but = f"a loss is suspected: {suspicion}" if suspicion else "whether it could be faster is undetermined"
    likely = f"{rounded_rate(usual.low)} to {rounded_rate(usual.high)} expected"
    return f"{speed_in_words(case, rate)} ({likely}); {but}.{look}"


def _prediction_lacks(case: CaseView, report: SubjectReport) -> str:
    """What a log of a serving engine does not tell and a prediction needs, where the speed itself was measured."""
    if not case.engine.runs_paged or DECODE not in report.measured or report.expected.achievable:
        return ""
    gpu = "" if case.gpus.in_use else case.system.spell_out("{gpu_list}")
    model = "" if if_known(lambda: case.memory.shape) else "the model's `config.json`"
    return ", and ".join(filter(None, (gpu, model)))


def why_untold(case: CaseView, report: SubjectReport) -> str:
    """Why it can't be told whether it is slow: nothing was measured, or nothing says how fast it should be."""
    unmeasured, each = case.sharing.rate_among_others, case.sharing.each_rate
    if not isinstance(unmeasured, Unknown):
        return as_lack(report.expected.because)
    if unmeasured.absence is Absence.FAILED:
        return f"measuring failed: {unmeasured.why}"
    watched_in_vain = isinstance(each, Unknown) and each.absence is not Absence.NOT_LOOKED and each.why
    why = watched_in_vain or unmeasured.why
    return as_lack(why if "measured" in why else f"not measured, because {why}")


def as_lack(why: str) -> str:
    """A missing fact as words that can follow a colon."""
    if why in ("", NOT_LOOKED.why):
        return "too little is known to predict its speed"
    return f"it is not known {why}" if why.startswith(("where ", "which ", "whether ", "what ", "the ")) else why


def _speed_feeling(case: CaseView, report: SubjectReport) -> str:
    """How the speed feels, against the user's own goal or reading speed."""
    rate, goal = report.measured.get(DECODE), case.wish.tokens_per_s.value_or(0)
    if not rate or report.phase != "decode":
        return ""
    if goal:
        return f"Your goal of {goal:g} tok/s is {'met' if rate >= goal else 'not met'}."
    feels = reading_speed(rate) or ("faster than reading speed" if report.verdict == "normal" else "")
    return f"{feels.capitalize()}." if feels else ""
