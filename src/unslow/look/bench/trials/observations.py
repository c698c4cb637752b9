"""Trials that give a server nothing to do: its traffic, its machine, and the ways to it."""

import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from unslow.facts.merge import bound_facts
from unslow.facts.run import Route, Run, SeenPrompt, Span, Traffic
from unslow.facts.values import (
    LARGEST_COUNT,
    NOT_LOOKED,
    Absence,
    Fact,
    Known,
    estimated_fact,
    measured_fact,
    not_found,
    reported_fact,
)
from unslow.look.bench.completions import Progress
from unslow.look.bench.timing import is_here, processors, sample_here, use_between, watching, with_telemetry
from unslow.look.bench.trials.server_work import RequestedSampling, Work, read_logged_prompts, read_work, speed_of_one
from unslow.look.openai_api import Server
from unslow.look.requests import Plan, Target
from unslow.look.sampler import Sampler
from unslow.look.system import LookError, System, try_look, unknown
from unslow.look.system.http import is_loopback

EVERY_S = 0.25
MOST_LOOKS = 120
LONGER = 3.0
"""Times the usual: for requests that come and go between two looks."""
_FEWEST_TOKENS, _SHORTEST_S = 8, 1.0
T = TypeVar("T", bound=Hashable)

HOST_SECONDS = 3.0
HOST_SLICES = 6
"""Looks at the work come this often, as requests come in waves: a wave that ends before the last look has still run."""
HOST_QUESTION = "telemetry of the host"
_IDLE = not_found("no request was running", "watch it during a request, or allow a measurement")
_WAVES = not_found("requests ran only part of the time")
_NO_GPU = not_found("no GPU driver to sample", "run `nvidia-smi dmon -s pucm` at the same time")

ROUTE_TRIES = 3  # The fastest counts: a name that has to wait does so every time
_LOCAL = ("localhost", "127.0.0.1", "::1")
_SHORTEST = {"llama.cpp": "/health", "vLLM": "/health", "SGLang": "/health", "TGI": "/health", "Ollama": "/api/version"}


class Look(NamedTuple):
    """The work at one moment."""

    at_s: float
    work: Work


class Each(NamedTuple):
    """The speed of one request, among how many, and the prompt tokens per second that were computed meanwhile."""

    speed: Fact[float]
    among: float = 0.0
    prompts: Fact[float] = NOT_LOOKED


def perform_traffic(system: System, target: Target, plan: Plan, progress: Progress) -> Run:
    """The traffic during the sampling, and the speed of a request that was answered alone."""
    start, looks = system.clock(), list[Look]()
    while len(looks) < MOST_LOOKS and (not looks or looks[-1].at_s - start < _watch_s(looks, plan.watch_s)):
        if looks:
            progress("watching its requests", (looks[-1].at_s - start) / _watch_s(looks, plan.watch_s))
            system.sleep(EVERY_S)
        try:
            looks.append(_look(system, target))
        except LookError as error:  # a server that fails on the way has shown what it has shown by then
            if len(looks) < 2:  # noqa: PLR2004 (a growth has two ends)
                return Run(traffic=unknown(error))
            break
    source = f"{len(looks)} looks at {looks[-1].work.source}"
    traffic, alone = measured_fact(traffic_of(looks), source), speed_alone(looks, source)
    depth, queue = depth_of_answers(looks, source), queue_s_of(looks, source)
    logged = read_logged_prompts(system, target)  # again: by now it tells of those that were watched
    run = Run(traffic=traffic, decode_tokens_per_s=alone, depth_tokens=depth, queue_s=queue, logged_prompts=logged)
    return bound_facts(run)


def _watch_s(looks: Sequence[Look], usual_s: float) -> float:
    """How long to watch: longer where requests are so short or so seldom that no speed has been seen."""
    if not any(look.work.running for look in looks) or looks[-1].work.tokens_per_s is not None:
        return usual_s
    known = isinstance(speed_of_each(looks).speed, Known) or isinstance(speed_alone(looks, ""), Known)
    return usual_s if known else LONGER * usual_s


def _look(system: System, target: Target) -> Look:
    work = read_work(system, target)
    if work.running is None:
        why = f"{work.source} does not say how many requests are running"
        raise LookError(why, Absence.NOT_SUPPORTED, "run unslow on its machine, as a user who may see its processes")
    return Look(system.clock(), work)


def traffic_of(looks: Sequence[Look]) -> Traffic:
    """Means, growth and maxima over the looks."""
    works = [look.work for look in looks]
    source = works[-1].source
    running = [work.running for work in works if work.running is not None]
    waiting = [work.waiting for work in works if work.waiting is not None]
    each = speed_of_each(looks)
    preempted = [count for work in (works[0], works[-1]) if (count := work.preemptions) is not None]
    preemptions: Fact[int] = not_found(f"{source} does not count preemptions")
    if len(preempted) > 1:
        preemptions = measured_fact(max(0, int(preempted[1] - preempted[0])), source)
    loaded = [work.loaded for work in works if work.loaded is not None]
    loads: Fact[int] = not_found(f"{source} does not say what is loaded")
    if len(loaded) > 1:
        loads = measured_fact(sum(len(after - before) for before, after in pairwise(loaded)), source)
    shares = [work.cache_used for work in works if work.cache_used is not None]
    untold = not_found(f"{source} does not say how full its KV cache is")
    return Traffic(
        seconds=looks[-1].at_s - looks[0].at_s,
        looks=len(looks),
        running=sum(running) / len(running),
        waiting=sum(waiting) / len(waiting) if waiting else 0.0,
        counts_waiting=len(waiting) == len(works),
        tokens_per_s=_tokens_per_s(looks),
        prompt_tokens_per_s=_prompt_tokens_per_s(looks),
        preemptions=preemptions,
        cache_used=reported_fact(max(shares), source) if shares else untold,
        loads=loads,
        top_k=_usual(works, lambda asked: asked.top_k),
        grammar=_usual(works, lambda asked: asked.grammar),
        logprobs=_usual(works, lambda asked: asked.logprobs),
        prompts=_prompts(works),
        each_tokens_per_s=each.speed,
        each_among=each.among,
        each_prompt_tokens_per_s=each.prompts,
    )


def depth_of_answers(looks: Sequence[Look], source: str) -> Fact[int]:
    """How far into their contexts the requests were while they were answered: prompt and answer so far, the median."""
    depths: list[float] = [
        prompt.tokens + answered.tokens
        for look in looks
        for prompt in look.work.prompts or ()
        if (answered := (look.work.decoding or {}).get(prompt.slot)) and answered.tokens
    ]
    if depths:
        return measured_fact(int(statistics.median(depths)), source)
    # Else what the cache holds for each, which counts what several share once, or what those had asked that ended
    held = [work.held_tokens / work.running for _, work in looks if work.running and work.held_tokens is not None]
    likely = [statistics.median(held)] if held else []
    first, last = looks[0].work, looks[-1].work
    asked = _mean_of_new((first.ended, first.ended_prompt_tokens), (last.ended, last.ended_prompt_tokens))
    likely += [] if asked is None else [asked[0]]
    if not likely or max(likely) >= LARGEST_COUNT:
        return not_found(f"{looks[-1].work.source} does not show how long the prompts are")
    return estimated_fact(int(max(likely)), source)


def queue_s_of(looks: Sequence[Look], source: str) -> Fact[float]:
    """How long the requests that ended meanwhile had waited for their turn; not looked at where nobody counts it."""
    first, last = looks[0].work, looks[-1].work
    waited = _mean_of_new((first.queued, first.queued_s), (last.queued, last.queued_s))
    return NOT_LOOKED if waited is None else measured_fact(waited[0], f"{source}: {waited[1]:.0f} requests")


def _mean_of_new(
    before: tuple[float | None, float | None], after: tuple[float | None, float | None]
) -> tuple[float, float] | None:
    """By how much the sum grew for each that was counted meanwhile, and how many; None where none was, or no growth."""
    (count, total), (later, more) = before, after
    if count is None or total is None or later is None or more is None or later - count < 1 or more < total:
        return None
    return (more - total) / (later - count), later - count


def _prompts(works: Sequence[Work]) -> Fact[tuple[SeenPrompt, ...]]:
    """The prompt of every task that was seen twice, as it was last: at first its slot may still show the one before."""
    if all(work.prompts is None for work in works):
        return not_found(f"{works[-1].source} does not show how much of a prompt is cached")
    seen = [prompt for work in works for prompt in work.prompts or ()]
    looks, last = Counter(prompt.task for prompt in seen), {prompt.task: prompt for prompt in seen}
    known = (last[task] for task, count in looks.items() if count > 1)
    prompts = (SeenPrompt(slot=p.slot, tokens=p.tokens, cached_tokens=p.cached_tokens) for p in known)
    return measured_fact(tuple(prompts), works[-1].source)


def _tokens_per_s(looks: Sequence[Look]) -> Fact[float]:
    """Of all requests together: by the growth of a counter or of the answers in the slots, else as the server says."""
    first, last = looks[0], looks[-1]
    seconds, source = last.at_s - first.at_s, last.work.source
    said = [look.work.tokens_per_s for look in looks if look.work.tokens_per_s is not None]
    if said:
        return reported_fact(sum(said) / len(said), source)
    if seconds <= 0:
        return not_found("no time passed between two looks")
    if first.work.tokens is not None and last.work.tokens is not None:
        return measured_fact(max(0.0, last.work.tokens - first.work.tokens) / seconds, source)
    if first.work.decoding is None:
        return not_found(f"{source} does not count tokens")
    # An answer that began between two looks brings all that it has; what it got after its last look is not seen
    tokens = 0
    for one, two in pairwise(looks):
        before, after = one.work.decoding or {}, two.work.decoding or {}
        for slot, now in after.items():
            goes_on = slot in before and before[slot].task == now.task
            tokens += max(0, now.tokens - (before[slot].tokens if goes_on else 0))
    return estimated_fact(tokens / seconds, source)


def _prompt_tokens_per_s(looks: Sequence[Look]) -> Fact[float]:
    first, last = looks[0], looks[-1]
    seconds, before, after = last.at_s - first.at_s, first.work.prompt_tokens, last.work.prompt_tokens
    if before is None or after is None or seconds <= 0:
        return not_found(f"{last.work.source} does not count the tokens of prompts")
    return measured_fact(max(0.0, after - before) / seconds, last.work.source)


def speed_of_each(looks: Sequence[Look]) -> Each:
    """What a request got while it and those beside it went on: whoever comes or goes takes a part of a step or two."""
    together = [(one, two, grown) for one, two in pairwise(looks) if (grown := _steady(one.work, two.work))]
    steady = [(two.at_s - one.at_s, *grown) for one, two, grown in together]
    seconds, tokens = sum(took * requests for took, requests, _ in steady), sum(grown for _, _, grown in steady)
    if tokens < _FEWEST_TOKENS or seconds < _SHORTEST_S:
        return Each(not_found("no requests ran together for long enough"))
    among = sum(took * requests**2 for took, requests, _ in steady) / seconds
    source = f"{len(looks)} looks at {looks[-1].work.source}"
    counts = [(one.work.prompt_tokens, two.work.prompt_tokens) for one, two, _ in together]
    read = [max(0.0, after - before) for before, after in counts if before is not None and after is not None]
    counted = len(read) == len(counts)
    prompts = measured_fact(sum(read) / sum(took for took, _, _ in steady), source) if counted else NOT_LOOKED
    return Each(measured_fact(tokens / seconds, source), among, prompts)


def _steady(one: Work, two: Work) -> tuple[float, float] | None:
    """The requests that were answered at both looks, and their tokens; None where these were not the same."""
    before, after = one.decoding, two.decoding
    if before is not None and after is not None:
        same = before.keys() == after.keys() and all(before[slot].task == after[slot].task for slot in after)
        grown = [after[slot].tokens - before[slot].tokens for slot in after] if same else []
        began = all(decoding.tokens for decoding in before.values())  # else its prompt was still being read
        return (len(grown), sum(grown)) if grown and began and min(grown) > 0 else None
    if one.tokens is None or two.tokens is None or not one.running or one.running != two.running:
        return None
    return (one.running, two.tokens - one.tokens) if two.tokens > one.tokens else None


def _usual(works: Sequence[Work], value: Callable[[RequestedSampling], T | None]) -> Fact[T]:
    found = Counter(v for work in works for asked in work.asked if (v := value(asked)) is not None)
    if not found:
        return not_found(f"{works[-1].source} does not show the requests' settings")
    return reported_fact(found.most_common(1)[0][0], works[-1].source)


def speed_alone(looks: Sequence[Look], source: str) -> Fact[float]:
    """Tokens per second of a request while it was the only one; unknown where none was, for long enough."""
    tokens = seconds = 0.0
    why: Fact[float] = not_found("no request ran alone for long enough")
    for (start_s, one), (end_s, two) in pairwise(looks):
        took = end_s - start_s
        alone = speed_of_one(one, two, took)
        if isinstance(alone, Known):
            tokens, seconds = tokens + alone.value * took, seconds + took
        else:
            why = alone
    if tokens < _FEWEST_TOKENS or seconds < _SHORTEST_S:
        return why
    return measured_fact(tokens / seconds, source)


def perform_host(system: System, target: Target, plan: Plan, progress: Progress) -> Run:
    """What the server's machine does for a few seconds, without sending anything: who else uses processors and GPUs.

    Where requests of others are answered, what the devices do meanwhile counts as what they do while generating.
    """
    if not is_here(target):
        elsewhere = LookError("the server runs on another machine", how_to_get="run unslow there")
        return Run(**dict.fromkeys(("others_cpus", "busiest_others", "gpus", "telemetry"), unknown(elsewhere)))
    progress(f"watching the machine for {min(HOST_SECONDS, plan.watch_s):.0f} s", 0.0)
    with watching(system, target) as sampler:
        run = _watch_host(system, target, min(HOST_SECONDS, plan.watch_s), sampler)
    return bound_facts(with_telemetry(system, run, sampler, HOST_QUESTION))


def _watch_host(system: System, target: Target, seconds: float, sampler: Sampler) -> Run:
    before, looks = sample_here(system, target), [(sampler.clock(), try_look(None, read_work, system, target))]
    for _ in range(HOST_SLICES):
        system.sleep(seconds / HOST_SLICES)
        # A server that failed once is not waited for again
        work = try_look(None, read_work, system, target) if looks[-1][1] else None
        looks.append((sampler.clock(), work))
    after = sample_here(system, target)
    decoded = []
    for (start_s, one), (end_s, two) in pairwise(looks):
        # A slow server that works at both may count its next token later
        goes_on = one and two and one.running and two.running and two.tokens is not None
        if generates(one, two) or (goes_on and generates(looks[0][1], looks[-1][1])):
            decoded.append((start_s, end_s))
    for start_s, end_s in decoded:
        if end_s > start_s:
            sampler.note(Span(phase="decode", start_s=start_s, end_s=end_s))
    all_the_while = len(decoded) == HOST_SLICES
    when = "while generating" if all_the_while else "during the sampling"
    facts: dict[str, Any] = processors([use_between(system, target, before, after)], when)
    if not all_the_while:
        facts["own_cpus"] = _WAVES if decoded else _IDLE
    return Run(gpus=_NO_GPU if decoded else _IDLE, **facts)


def generates(before: Work | None, after: Work | None) -> bool:
    """Whether tokens were generated between two looks: by the growth of a counter, else by requests at both ends."""
    if before is None or after is None:
        return False
    if before.tokens is not None and after.tokens is not None:
        return after.tokens > before.tokens
    if not before.running or not after.running:
        return False
    if before.decoding is not None and after.decoding is not None:
        return any(d.tokens for d in before.decoding.values()) and any(d.tokens for d in after.decoding.values())
    return bool(before.tokens_per_s and after.tokens_per_s)


def perform_routes(system: System, target: Target, plan: Plan, progress: Progress) -> Run:  # noqa: ARG001 (every trial is called so)
    """The ways to a server: its shortest question by the address that was given and by the other names of this machine.

    A name that stands for several addresses is tried one after the other. Where the server listens on one of them only,
    a client may wait for the first to fail before it tries the second, with every request.
    """
    path = shortest_question(target.runtime)
    hosts = hosts_of(target.url)
    routes = []
    for number, host in enumerate(hosts):
        progress(f"timing {host}", number / len(hosts))
        parts, name = urlsplit(target.url), f"[{host}]" if ":" in host else host
        url = parts._replace(netloc=f"{name}:{parts.port}" if parts.port else name).geturl()
        server = Server(system, url, target.api_key)
        found = []  # seconds until it answered, whatever it said
        for _ in range(ROUTE_TRIES):
            start = system.clock()
            with suppress(LookError):
                server.ask(path)
                found.append(max(0.0, system.clock() - start))
        routes.append(Route(host=host, seconds=min(found, default=None)))
    return bound_facts(Run(routes=measured_fact(tuple(routes), f"fastest of {ROUTE_TRIES} answers of {path}")))


def shortest_question(runtime: str) -> str:
    """The path of the cheapest question that a server of this runtime answers."""
    return next((path for name, path in _SHORTEST.items() if runtime.endswith(name)), "/v1/models")


def hosts_of(url: str) -> list[str]:
    """The host as it was given, then the other names of this machine, where it is one of them and needs no TLS."""
    parts = urlsplit(url)
    given = parts.hostname or ""
    others = _LOCAL if is_loopback(given) and parts.scheme == "http" else ()
    return [given, *(host for host in others if host != given)]
