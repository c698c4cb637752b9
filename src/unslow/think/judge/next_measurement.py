"""Which measurement to make next: the one that settles most for its seconds.

Worth is the sum over causes that it would settle: how often the cause is behind slow inference, times how much of the
time it could explain here. A server that generates as fast as it can has little to gain from causes of slow generation.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from unslow.catalog.bug_reports import cause_frequency
from unslow.facts.runtime import IN_BATCHES
from unslow.facts.values import Known, Unknown, first_known
from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes
from unslow.think.report import SubjectReport

SPEED, TRAFFIC, HOST = "speed", "traffic", "host"  # Those that all else is judged by
ROOM = 512  # Tokens of a context, for the template and the answer
DEEPEST_TOKENS, LONG_PROMPT_TOKENS = 8192, 2048  # The second is four of llama.cpp's usual micro-batches of 512
WHILE_GENERATING = (
    "run.gpus",
    "run.telemetry",
    "run.own_cpus",
    "run.others_cpus",
    "run.busiest_others",
    "run.waiting_for_cpu_s_per_token",
    "run.cpu_throttled_fraction",
)
"""What is seen of the machine while the server works."""
_LOOPBACK = ("//localhost", "//127.", "//[::1]")


class Load(NamedTuple):
    """What a measurement asks of a server, one after the other."""

    prompt_tokens: float = 0.0
    generated_tokens: float = 0.0
    seconds: float = 0.0  # Beyond what the server computes: waiting, watching, connecting


class Measurement(NamedTuple):
    """One thing that can be measured; `name` is also that of the trial in `unslow.look.bench.trials`."""

    name: str
    doing: str  # What is being done, as a progress line says it: "reading a prompt of 2,048 tokens"
    why: str  # What for, as it goes on: "to measure prefill speed"
    fills: tuple[str, ...]  # The facts that it would fill, by path
    load: Callable[[CaseView], Load]
    sends: bool = True  # Whether it gives the server work to do; what only watches may be done with a busy one
    possible: Callable[[CaseView], bool] = lambda _case: True
    """Whether it can be done here at all: the context is large enough, there are several slots, ..."""
    about: tuple[str, ...] = ()  # Causes that can be told without it, and be told better with it


def context_of(case: CaseView) -> int | None:
    """The tokens that a prompt and its answer may have together, where that is known."""
    return first_known(case.runtime.context.per_slot, case.runtime.context.length).value_or(None)


def prompt_fits(case: CaseView, tokens: int) -> bool:
    """Whether a prompt of so many leaves room for the rest; where nobody knows, it may."""
    context = context_of(case)
    return context is None or context >= tokens + ROOM


def is_here(case: CaseView) -> bool:
    """Whether the server is on this machine."""
    return any(place in case.runtime.process.url.value_or("") for place in _LOOPBACK)


def _serves_several(case: CaseView) -> bool:
    runtime, name = case.runtime, case.runtime.name.value_or("")
    slots = first_known(runtime.scheduling.slots, runtime.scheduling.max_sequences).value_or(0)
    # In a cache that all slots share, the tokens of answers at the same time lie in turns. llama-server copies idle
    # slots to RAM before it starts the next request, and without flash attention, where values lie by rows of the
    # context, it does so number by number: half a minute from a GPU.
    fused, shared = runtime.compute.flash_attention.value_or(default=True), runtime.cache.unified.value_or(default=True)
    in_pieces = not fused and shared and runtime.cache.ram_bytes.value_or(1) != 0
    return (slots > 1 or name in IN_BATCHES) and not (name.endswith("llama.cpp") and in_pieces)


def _is_busy(case: CaseView) -> bool:
    """Whether it works for others, now or between two looks by its log, and can be asked about it."""
    runtime = case.runtime
    busy = first_known(runtime.scheduling.busy_slots, runtime.scheduling.running_requests).value_or(0)
    return bool(busy or case.run.logged_prompts.value_or(())) and isinstance(runtime.process.url, Known)


_EVERY = (
    Measurement(
        "at_once",
        "running concurrent requests",
        "to see what concurrent users get",
        ("run.at_once",),
        lambda _case: Load(prompt_tokens=200, generated_tokens=640, seconds=0.2),
        possible=_serves_several,
        about=("gpu_underused_by_one_stream", "queueing", "kernel_launch_bound"),
    ),
    Measurement(
        "depth",
        "decoding at several context depths",
        "to see what a long context costs",
        ("run.depths",),
        lambda case: Load(
            prompt_tokens=min(DEEPEST_TOKENS, context_of(case) or DEEPEST_TOKENS), generated_tokens=512, seconds=0.2
        ),
        possible=lambda case: prompt_fits(case, 1536),
        about=("kv_cache_outgrows_vram", "flash_attention_off", "kv_cache_on_host"),
    ),
    Measurement(
        "host",
        "observing the machine under load",
        "to see what else is running",
        WHILE_GENERATING,
        lambda _case: Load(seconds=3.0),
        sends=False,
        possible=lambda case: is_here(case) and isinstance(case.run.completions, Unknown),
    ),
    Measurement(
        "long_prompt",
        f"prefilling {LONG_PROMPT_TOKENS:,} tokens",
        "to measure prefill speed",
        ("run.long_prompt",),
        lambda case: Load(
            prompt_tokens=2 * min(LONG_PROMPT_TOKENS, max(64, (context_of(case) or LONG_PROMPT_TOKENS + ROOM) - ROOM)),
            generated_tokens=2,
            seconds=0.2,
        ),
        possible=lambda case: prompt_fits(case, 512),
        about=("prefill_batch_too_small", "prefill_pcie_bound"),
    ),
    Measurement(
        "plain_sampling",
        "decoding with and without samplers",
        "to see what sampling costs",
        ("run.plain_sampling",),
        lambda _case: Load(prompt_tokens=160, generated_tokens=1024, seconds=0.2),
        about=("sampling_on_cpu",),
    ),
    Measurement(
        "routes",
        "connecting by name and by address",
        "to see whether the connection costs time",
        ("run.routes",),
        lambda _case: Load(seconds=0.5),
        possible=is_here,
        about=("client_overhead",),
    ),
    Measurement(
        "speed",
        "sending typical requests",
        "to measure decode speed",
        (
            "run.completions",
            "run.decode_tokens_per_s",
            "run.prefill_tokens_per_s",
            "run.time_to_first_token_s",
            "run.client_decode_tokens_per_s",
            "run.depth_tokens",
            "run.queue_s",
            *WHILE_GENERATING,
        ),
        lambda _case: Load(prompt_tokens=160, generated_tokens=16, seconds=9.0),
    ),
    Measurement(
        "traffic",
        "observing the requests it already serves",
        "to see their speed and the queue",
        ("run.traffic", "run.decode_tokens_per_s", "run.queue_s"),
        lambda _case: Load(seconds=6.0),
        sends=False,
        possible=_is_busy,
        about=("queueing", "kv_cache_preemption", "gpu_underused_by_one_stream", "model_reloads_between_requests"),
    ),
    Measurement(
        "turns",
        "running a three-turn conversation",
        "to see whether each turn prefills everything again",
        ("run.turns",),
        lambda _case: Load(prompt_tokens=1400, generated_tokens=112, seconds=0.2),
        possible=lambda case: prompt_fits(case, 1024),
        about=("prompt_reprocessed",),
    ),
)
MEASUREMENTS = {one.name: one for one in _EVERY}  # All of them by name, in alphabetical order
WORTH_PER_S = 2e-4  # Less is not worth waiting for: a minute of it would explain about a hundredth of the lost time
MOST_S = 8.0  # What a trial beyond the usual speed is given, however slow the server is
_LEAST_S, _LEAST_OF_IT = 1.0, 0.5  # A trial with less of its time than this would tell too little
_SUSPECTED, _FOUND, _RULED_OUT, _BESIDE = 6.0, 2.0, 0.05, 0.2
"""What a cause weighs against one of which nothing is known: something speaks for it; it is there and gets its price;
it is ruled out already; it is open for another reason than what would be measured."""
FIRST = (SPEED, TRAFFIC, HOST)
"""What all else is judged by: the usual speed, or where nothing may be sent, what can be seen of it."""
_SLOW_DECODE, _SLOW_PREFILL = 10.0, 100.0
"""Tokens per second of a server that nothing is known of: a large model on a CPU."""
ALWAYS = 0.05  # A phase that does all it can may still be the one that somebody complains of
UNKNOWN = 0.3  # A phase of which no speed is known, or none is expected
_RATES = {"decode": "decode_tokens_per_s", "prefill": "prefill_tokens_per_s"}


class Choice(NamedTuple):
    """The measurement to make next, which causes it would settle, and how long it should take."""

    measurement: Measurement
    settles: tuple[str, ...]  # What weighs most first
    seconds: float
    worth_per_s: float = 0.0  # By how much of the lost time each second is expected to explain
    decides_suspicion: bool = False
    """Whether something speaks already for a cause that it would settle: such a one comes before those merely open."""


def next_measurement(
    case: CaseView,
    report: SubjectReport,
    done: Collection[str],
    seconds_left: float,
    *,
    may_send: bool,
    patience: float = 1.0,
) -> Choice | None:
    """The measurement to make now; None where none that is left is worth its time, or fits into it.

    With more patience a trial may take longer, and is worth it for less.
    """
    choices = worthwhile(case, report, done, may_send=may_send, patience=patience)
    # The first measurement is worth trying in whatever time there is
    return next(
        (c for c in choices if seconds_left >= (_LEAST_S if c.measurement.name in FIRST else c.seconds * _LEAST_OF_IT)),
        None,
    )


def worthwhile(
    case: CaseView, report: SubjectReport, done: Collection[str], *, may_send: bool, patience: float = 1.0
) -> list[Choice]:
    """Every measurement that is worth its time, whether or not there is so much: what it all hangs on first."""
    left = [m for m in MEASUREMENTS.values() if m.name not in done and m.sends == may_send and m.possible(case)]
    found = (_choice(case, report, m, patience) for m in left)
    choices = sorted(found, key=lambda c: (not c.decides_suspicion, -c.worth_per_s))
    worth = [c for c in choices if c.worth_per_s >= WORTH_PER_S / patience]
    first = None if SPEED in done else next((c for n in FIRST for c in choices if c.measurement.name == n), None)
    return [first, *(c for c in worth if c is not first)] if first else worth


def _choice(case: CaseView, report: SubjectReport, measurement: Measurement, patience: float) -> Choice:
    new = [path for path in measurement.fills if isinstance(case.fact(path), Unknown)]
    at_stake, worth, suspected = stakes(case, report), dict[str, float](), False
    for name, cause in all_causes().items() if new else ():
        if weight := _weight(name, report, new, measurement):
            # Whether something speaks for it already, and this is what it lacks, be it only its price
            suspected |= weight == _SUSPECTED or (weight == _FOUND and name in measurement.about)
            worth[name] = weight * cause_frequency(name) * at_stake[cause.phase]
    settles = tuple(sorted(worth, key=lambda name: (-worth[name], name)))
    # How long a load takes at the speeds that were measured, else at those that are expected
    load = measurement.load(case)
    expected = report.expected.as_configured.get("decode_tokens_per_s")
    decode = report.measured.get("decode_tokens_per_s") or (expected.mid if expected else _SLOW_DECODE)
    prefill = report.measured.get("prefill_tokens_per_s") or max(_SLOW_PREFILL, decode, _least_prefill(case))
    seconds = load.prompt_tokens / max(prefill, 0.1) + load.generated_tokens / max(decode, 0.1) + load.seconds
    seconds = seconds if measurement.name in FIRST else min(MOST_S * patience, seconds)
    in_all = sum(worth[name] for name in settles)
    return Choice(measurement, settles, seconds, in_all / max(seconds, 0.1), suspected)


def _least_prefill(case: CaseView) -> float:
    """Prompt tokens per second that it has at least: those of the short prompts until their first token came."""
    done = case.run.completions.value_or(())
    rates = [c.prompt_tokens / c.client_first_token_s for c in done if c.client_first_token_s]
    return max(rates, default=0.0)


def _weight(name: str, report: SubjectReport, new: Collection[str], measurement: Measurement) -> float:
    asked = [path for need in all_causes()[name].needs for path in ((need,) if isinstance(need, str) else need)]
    touched = name in measurement.about or any(path in new for path in asked)
    untold = next((u for u in report.cannot_tell if u.cause == name), None)
    if untold:
        wanted = [path.strip() for path in untold.missing.split(" or ")]
        gives = any(path == given or path.startswith(f"{given}.") for path in wanted for given in new)
        weight = _SUSPECTED if untold.suspected else 1.0
        return weight if gives else weight * _BESIDE if touched else 0.0
    if not touched:
        return 0.0
    return _FOUND if any(f.cause == name for f in report.findings) else _RULED_OUT


def stakes(case: CaseView, report: SubjectReport) -> dict[str, float]:
    """The share of its time that each phase may have lost, by its name."""
    # What passes between the client and the server, of whole requests
    runs = case.waits.server_timed
    whole = [(c.client_total_s, c.prefill_s + c.decode_s) for c in runs if c.client_total_s]
    total = sum(client for client, _ in whole)
    outside = max(2 * ALWAYS, sum(max(0.0, client - own) for client, own in whole) / total) if total else UNKNOWN
    # Of a slow token, what nothing explains yet; of one at full speed the rest is the error of the prediction
    best, measured = report.expected.achievable.get(_RATES["decode"]), report.measured.get(_RATES["decode"])
    token = [part for part in report.budget if part.phase == "decode"]
    token_s = 0.0 if best and measured and measured >= best.low else sum(part.seconds for part in token)
    unexplained = sum(p.seconds for p in token if p.part == "unexplained") / token_s if token_s else 0.0
    # Whether requests wait for their turn
    traffic, deferred = case.run.traffic.get(), case.runtime.scheduling.deferred_requests.value_or(0)
    waits = deferred or (traffic.waiting if traffic else 0)
    return {
        "decode": max(_lost_share(report, "decode"), unexplained),
        "prefill": _lost_share(report, "prefill"),
        "client": outside,
        "queue": 1.0 if waits else 2 * ALWAYS,
        "load": UNKNOWN,
    }


def _lost_share(report: SubjectReport, phase: str) -> float:
    """What is missing to the achievable speed; little where its interval is reached."""
    measured, best = report.measured.get(_RATES[phase]), report.expected.achievable.get(_RATES[phase])
    if not measured:
        return 1.0
    if best is None or best.mid <= 0:
        return UNKNOWN
    return ALWAYS if measured >= best.low else max(ALWAYS, 1 - measured / best.mid)
