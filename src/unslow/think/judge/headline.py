"""What is slow now and what it should be, which causes are suspected, and what to do first."""

import math
import re

from unslow.catalog.bug_reports import cause_frequency
from unslow.facts.commands import Place, parse_line
from unslow.facts.knob import Knob
from unslow.facts.values import Known
from unslow.think.case.speed import DECODE, PREFILL
from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes
from unslow.think.judge.findings import FIRST_TOKEN
from unslow.think.judge.verdict import chains_of
from unslow.think.report import Cost, Finding, Fix, SubjectReport
from unslow.think.speed.question import rounded_rate

AS_MUCH_AS_FITS = "with as many layers on the GPU as fit"
MOST_NAMED = 3
LONGEST_COMMAND = 60
"""A longer one makes a sentence unreadable: the flag alone then says what to change, and the line stands below."""
_WAITS = {
    "client": "Every request loses {seconds} outside the server",
    "queue": "Every request waits {seconds} in the queue",
    "load": "Every request waits {seconds} for the model to load",
}
_THINKING = "answer_is_mostly_thinking"
_RELOADS = "model_reloads_between_requests"
_WAITS_OF = {
    _THINKING: "The visible answer starts only after about {seconds} of thinking",
    _RELOADS: "A request that has to reload the model waits {seconds}",
}
"""What a request waits for, where that is no part of the requests that were timed."""
_LACK_GPU_MEMORY = ("weights_spill_to_ram", "model_outside_envelope")
_LACK_MEMORY = ("weights_streamed_from_disk",)
_OF_TOKENS = ("decode", "prefill")
_SLOWER, _FASTER = 4, 8  # Tokens per second: below the first, and from the second on, as against reading


def slowness_now(case: CaseView, report: SubjectReport) -> str:
    """What it does now and what it should do: in the phase that was found to be slow, then in the slowest."""
    first = chains_of(report.findings)[0].root if report.findings else None
    # A phase in which nothing is computed, where it is the slow one and was measured
    seconds = sum(b.seconds for b in report.budget if b.phase == report.phase and b.per == "request")
    if seconds and report.phase in _WAITS and not (first and first.cause == _THINKING):
        return f"{_WAITS[report.phase].format(seconds=_seconds(seconds))}{_beside(report)}."
    if first and (said := _of_finding(case, report, first)):
        return said
    # What the first of the roots is about: a phase that loses more may be its consequence, or have no cause yet
    phase = first.phase if first else report.phase
    phase = phase if {phase, report.phase} <= set(_OF_TOKENS) else report.phase
    should, measured = report.expected.achievable, report.measured
    of_prompts = (one == "prefill" and PREFILL in should for one in (phase, report.phase))
    metrics = dict.fromkeys(PREFILL if prompts else DECODE for prompts in of_prompts)
    losing = [metric for metric in metrics if metric not in should or measured.get(metric, 0.0) < should[metric].mid]
    sentences = []
    for metric in losing or metrics:
        if rate := measured.get(metric):
            now = f"Prefill runs at {rounded_rate(rate)} tok/s"
            if metric == DECODE:
                is_felt = report.phase == "decode" and not case.wish.tokens_per_s.value_or(0)
                feels = reading_speed(rate) if is_felt else ""
                now = f"{speed_in_words(case, rate)}{feels and ': '}{feels}"
            sentences += [f"{now}.", _should(report, should[metric].mid) if metric in should else ""]
    return " ".join(s for s in sentences if s)


def reading_speed(rate: float) -> str:
    """How a speed compares to reading; empty where it is faster.

    People read 238 words a minute (Brysbaert 2019, the mean of 190 studies), about 5 tokens a second.
    """
    return "slower than reading speed" if rate < _SLOWER else "about reading speed" if rate < _FASTER else ""


def about_rate(rate: float) -> str:
    """An estimated speed: whole tokens per second, two digits below ten."""
    return f"about {rate:,.0f}" if rate >= 10 else f"about {rate:.2g}"  # noqa: PLR2004 (two digits)


def _beside(report: SubjectReport) -> str:
    rate = report.measured.get(DECODE)
    return f"; decode itself runs at {rounded_rate(rate)} tok/s" if rate else ""


def _of_finding(case: CaseView, report: SubjectReport, first: Finding) -> str:
    """What is slow where the usual request is not: the load, the thinking, a later turn, or a long chat.

    By what the first of the roots costs, where that is no part of the usual time of a token.
    """
    cost, load, said = first.cost, case.run.load_s, ""
    if first.cause == "slow_model_load":
        said = f"The model takes {f'{load.value:.0f} s' if isinstance(load, Known) else 'long'} to load"
    elif cost is None:
        rate = report.measured.get(DECODE) if first.phase == report.phase not in _OF_TOKENS else None
        return f"Decode runs at {rounded_rate(rate)} tok/s; the wait before it is what is slow." if rate else ""
    elif cost.depth_tokens is not None:
        return _of_depth(case, cost)
    elif cost.per != "request":
        return ""
    elif first.cause in _WAITS_OF:
        load_s = case.engine.load_time_s if first.cause == _RELOADS else None
        wait_s = load_s or cost.seconds  # the cost is a mean of all requests
        said = _WAITS_OF[first.cause].format(seconds=_seconds(wait_s))
    elif first.phase == "client":
        said = f"Every response is delayed by {_seconds(cost.seconds)} outside the server"
    elif report.phase == "prefill":
        said = f"Prefill takes {_seconds(cost.seconds)} too long in every request"
    return f"{said}{_beside(report)}." if said else ""


def _of_depth(case: CaseView, cost: Cost) -> str:
    tried = [one for one in case.run.depths.value_or(()) if one.tokens_per_s > 0]
    depths = sorted(tried, key=lambda one: one.depth_tokens)
    if len(depths) < 2:  # noqa: PLR2004 (a fall has two ends)
        return ""
    shallow, deep = depths[0], depths[-1]
    usual_s = 1 / deep.tokens_per_s - cost.seconds
    usual = f" ({about_rate(1 / usual_s)} would be normal there)" if usual_s > 0 else ""
    return (
        f"{rounded_rate(shallow.tokens_per_s)} tok/s at the start of a conversation, "
        f"{rounded_rate(deep.tokens_per_s)} tok/s at {deep.depth_tokens:,} tokens of context{usual}."
    )


def _seconds(seconds: float) -> str:
    """A time with two digits, and never as a power of ten."""
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"  # noqa: PLR2004 (two digits)


def _should(report: SubjectReport, rate: float) -> str:
    """What to hold the speed against; a model that is too large for the memory will not reach it here."""
    if report.expected.because == AS_MUCH_AS_FITS:
        return f"{AS_MUCH_AS_FITS.capitalize()}, {about_rate(rate)} is normal.".replace("gpu", "GPU")
    first = next(iter(root_causes(report.findings)), "")
    if first in _LACK_GPU_MEMORY:
        fix = next(iter(report.findings[0].fixes), None)
        if fix and fix.knob in (Knob.CONTEXT_LENGTH, Knob.KV_CACHE_TYPE) and fix.value is not None:
            return f"Fully in VRAM it would reach {about_rate(rate)}."
        return f"Fully in VRAM it would reach {about_rate(rate)}, but it does not fit."
    if first in _LACK_MEMORY:
        return f"With all weights in RAM it would reach {about_rate(rate)}."
    return f"This hardware should reach {about_rate(rate)}."


def root_causes(findings: tuple[Finding, ...]) -> list[str]:
    """The causes that no other finding explains."""
    return [f.cause for f in findings if not any(f.cause in g.explains for g in findings)]


def speed_in_words(case: CaseView, rate: float) -> str:
    """The speed and whose it is: a measurement's, that of requests that were watched, or of all requests so far."""
    if isinstance(case.run.decode_tokens_per_s, Known):
        return f"{rounded_rate(rate)} tok/s"
    if isinstance(case.sharing.each_rate, Known):
        return f"{rounded_rate(rate)} tok/s for each request while observed"
    return f"{rounded_rate(rate)} tok/s on average since it started"


_ROUGHLY = 1.25  # By which factor a loss may be off what a cause can cost: both rest on a prediction
_COSTS = {
    # the CPU computes all, or pages are fetched: RAM is read 5 to 50 times slower than GPU memory, a disk slower still
    "gpu_backend_not_loaded": (3.0, math.inf),
    "gpu_architecture_unsupported": (3.0, math.inf),
    "weights_streamed_from_disk": (3.0, math.inf),
    "type_without_gpu_kernel": (2.0, math.inf),
    "swapping": (3.0, math.inf),
    # one layer of many on the CPU, or a part of the cache
    "output_layer_on_cpu": (1.1, 2.5),
    "kv_cache_on_host": (1.1, 6.0),
    # clocks and power fall to a half or a third before a card gives up
    "gpu_thermal_throttling": (1.1, 4.0),
    "gpu_power_capped": (1.05, 2.5),
    "gpu_shared_with_other_work": (1.1, 4.0),
    # a fixed time for each token, beside one that the memory needs
    "kernel_launch_bound": (1.05, 3.0),
    "eager_mode": (1.05, 4.0),
    "cpu_round_trip_bound": (1.05, 2.5),
    "sampling_on_cpu": (1.05, 3.0),
    "flash_attention_off": (1.05, 2.0),
    # layers on several GPUs: the slowest, or the link, for a part of each token
    "uneven_split": (1.05, 2.5),
    "fits_on_one_gpu": (1.05, 1.6),
    "multi_gpu_link_bound": (1.05, 4.0),
    "speculative_decoding_hurts": (1.05, 2.5),
    # what the CPU loses of its own speed
    "generic_cpu_build": (1.2, 5.0),
    "threads_too_few": (1.1, 4.0),
    "threads_on_efficiency_cores": (1.1, 2.5),
    "numa_remote_memory": (1.2, 4.0),
    "cpu_clock_limited": (1.1, 4.0),
}
"""How many times slower tokens come with a cause, at least and at most: see the pages of the causes for where that is
from. One that is not listed may cost anything."""


def suspects_in_words(report: SubjectReport) -> str:
    """Causes of slow tokens that could cost as much as is lost: those that something speaks for, then common ones.

    Empty where no loss is known, or nothing is left to suspect.
    """
    rate, best = report.measured.get(DECODE), report.expected.achievable.get(DECODE)
    if not rate or not best or rate >= best.low:
        return ""
    lost, able = best.mid / rate, []
    for one in report.cannot_tell:
        cause = all_causes().get(one.cause)
        # what explains a loss only where nothing else does is no suspect by itself
        if cause and cause.phase == "decode" and (one.suspected or not cause.last_resort):
            least, most = _COSTS.get(one.cause, (1.0, math.inf))
            if least <= lost * _ROUGHLY and lost <= most * _ROUGHLY:
                able.append(one)
    likely = sorted(able, key=lambda one: (not one.suspected, -cause_frequency(one.cause)))[:MOST_NAMED]
    names = [all_causes()[one.cause].title for one in likely]
    said = "; ".join(n if n.startswith(("GPU", "KV", "CPU")) else f"{n[0].lower()}{n[1:]}" for n in names)
    return f"Possible causes of a loss this large, most likely first: {said}." if said else ""


REMOVE_SETTING = "remove the setting: "
"""How the reason of a fix begins that takes a setting away; the flag itself says the same shorter."""
_REMOVES = re.compile(r"^(?:remove|start it without) (?=-)")
_ENVIRONMENT = re.compile(r'Environment="(\w{1,60}=[^"\\\s]{1,60})"')
_MAKES_ROOM = "lms unload "  # What only comes before the line that changes something
_MAKES_IT_SEEN = (
    "sudo systemctl daemon-reload",
    "systemctl --user daemon-reload",
    "docker compose up",
    "kubectl apply",
    "ollama create",
)
"""How lines start that only make a change seen, which stands in another one."""


def first_fix(report: SubjectReport, said: str = "") -> str:
    """What to do first, as a command where the runtime has one, and what it should then give.

    `said` is what stands before it: a speed that is named there is not named again with another number.
    """
    chains = chains_of(report.findings) if report.verdict in ("slow", "failed") else []
    links = [f for chain in chains[:1] for f in (chain.root, *chain.after) if f.fixes]
    if not links or not (links[0].fixes[0].why or links[0].fixes[0].commands):
        return ""
    fix = links[0].fixes[0]
    return f"Fix: {_as_said(fix)}.{_gives(fix, report, said)}"


def _gives(fix: Fix, report: SubjectReport, said: str) -> str:
    """What it then gives; less than the achievable speed that was named already is said to be of this fix alone."""
    should, then = report.expected.achievable.get(DECODE), fix.predicted.get(DECODE)
    if should and then and then < should.low and about_rate(should.mid) in said:
        return f" Expected from this fix alone: {about_rate(then)} tok/s."
    if DECODE in fix.predicted:
        return f" Expected: {about_rate(fix.predicted[DECODE])} tok/s."
    if PREFILL in fix.predicted:
        return f" Expected: prefill at {about_rate(fix.predicted[PREFILL])} tok/s."
    if FIRST_TOKEN in fix.predicted:
        return f" Expected: first token after about {fix.predicted[FIRST_TOKEN]:.2g} s."
    return ""


def _as_said(fix: Fix) -> str:
    """The fix in a sentence: what it does, and a line to copy in backticks; what is done by hand in its own words."""
    lines = [parse_line(command) for command in fix.commands]
    short = [line for line in lines if len(line.text) <= LONGEST_COMMAND and line.place is not Place.HAND]
    short = [line for line in short if not line.text.startswith(_MAKES_IT_SEEN)]
    telling = [line for line in short if not line.text.startswith(_MAKES_ROOM)] or short
    removals = telling if fix.why.startswith(REMOVE_SETTING) else []
    dropped = next((line for line in removals if _REMOVES.match(line.text)), None)
    typed = next((line for line in telling if line.place is Place.SHELL), None)
    chosen = dropped or typed or next(iter(telling), None)
    if chosen is None:
        # A line that is too long for a sentence may put a variable into a unit
        found = next((found for line in lines if (found := _ENVIRONMENT.search(line.text))), None)
        if found:
            return f"{fix.why} (`{found[1]}` in the server's environment)" if fix.why else f"`{found[1]}`"
        return fix.why or (lines[0].text if lines else "")
    flag, reason = _REMOVES.sub("", chosen.text), fix.why.removeprefix(REMOVE_SETTING)
    if flag != chosen.text and reason != fix.why:
        return f"drop `{flag}`, which {reason[3:]}" if reason.startswith("it ") else f"drop `{flag}`: {reason}"
    if flag != chosen.text:
        return f"{fix.why} (drop `{flag}`)"
    where = f"{chosen.place} " if chosen.place not in (Place.SHELL, Place.FLAG) else ""
    said = f"{where}`{chosen.text}`"
    return f"{fix.why} ({said})" if fix.why else said
