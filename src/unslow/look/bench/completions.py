"""The first measurement: a warm-up, then three completions or as many as it takes, the median counts.

Prompts and protocol are those that the guides to slow inference share: a question that asks for a long answer, up to
512 tokens, three times. Every prompt is unique from its first word on, so that no prompt cache can answer it. Server
and client timings are kept apart.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from unslow.facts.run import Completion, Run
from unslow.facts.values import Absence, Fact, Unknown, failed, measured, not_found, not_supported
from unslow.look.bench.asking import ask
from unslow.look.bench.company import Company
from unslow.look.bench.guest import AskError, Plan, Question, Reply, Target, Timed
from unslow.look.bench.prompts import PROMPTS
from unslow.look.bench.thinking import may_think_unseen, thinking
from unslow.look.bench.watching import is_here, note_completion, watching, with_telemetry
from unslow.look.kernel.cpu_time import CpuSample, CpuUse, cpus_between, read_cpu_sample, read_own_pid, read_run_delay
from unslow.look.sampler import Sampler
from unslow.look.system import LookError, System, unknown
from unslow.look.system.closing import was_closed
from unslow.look.system.door import SILENCE_S, STREAM_TIMEOUT_S

OPENINGS = ("Warming", "First", "Second", "Third")
WARM_UP_TOKENS = 16
FEWEST_TOKENS, MOST_TOKENS = 24, 512
COMPLETIONS = 3
MOST_SHARED = 5
"""Answers beside somebody else's that are asked for again: whoever is there after so many stays."""
_FEWEST_CUT = 4
SHARED = not_found(
    "requests of others were answered at the same time, so its speed alone can't be told", "try again when it is idle"
)

NOT_WATCHED = not_supported("the GPU is not watched while it is measured", "run `nvidia-smi dmon -s pucm` meanwhile")

Progress = Callable[[str, float], None]
"""Called with what is being done and the share of it that is done."""


class Repeats(NamedTuple):
    """How many completions: the fewest, and more while they are further apart than this share, up to the most."""

    fewest: int = COMPLETIONS
    most: int = COMPLETIONS
    apart: float = 0.0

    def enough(self, runs: Sequence[Completion], seconds: float) -> bool:
        """Whether no more are needed, or the time that all of them together should take is over."""
        spent = sum(run.client_total_s or run.prefill_s + run.decode_s for run in runs)
        if spent > seconds * self.most:
            return True
        return len(runs) >= self.fewest and (len(runs) >= self.most or self._agree([decode_rate(r) for r in runs]))

    def _agree(self, rates: Sequence[float]) -> bool:
        """Whether more than half of them are as near to their median as two that are no further apart than allowed."""
        middle = statistics.median(rates)
        near = sum(abs(rate - middle) <= self.apart / 2 * middle for rate in rates)
        return near > len(rates) / 2


THREE = Repeats()


class _Watched(NamedTuple):
    """A completion and what the processors did meanwhile."""

    timed: Timed
    use: CpuUse | LookError
    start_s: float | None
    """By the sampler's clock; None where nobody looked at it."""
    whole: bool = True
    """Whether all of it came before the time was up."""


def measure(system: System, target: Target, plan: Plan, progress: Progress, repeats: Repeats = THREE) -> Run:
    """Measure, and watch meanwhile; what was measured before a server fails is kept, with the reason for the rest."""
    with watching(system, target) as sampler:
        run = _measured(system, target, plan, progress, sampler, repeats)
    return with_telemetry(system, run, sampler)


def _measured(
    system: System, target: Target, plan: Plan, progress: Progress, sampler: Sampler, repeats: Repeats
) -> Run:
    stamp, done, most = system.now(), list[_Watched](), repeats.most
    warm: _Watched | None = None
    company, shared = Company(system, target, plan), 0
    may_think = may_think_unseen(system, target)
    try:
        progress("warming up", 0.0)
        warm = _warmed_up(system, target, plan, _prompt(stamp, 0))
        tokens = _tokens_for(warm.timed.completion, plan.seconds_per_completion)
        while shared < MOST_SHARED and not repeats.enough(_whole(done), plan.seconds_per_completion):
            number = len(done) + 1
            progress(f"measuring, {number} of {_up_to(repeats)}: {tokens} tokens", number / (most + 1))
            company.look()
            watched = _watched(system, target, plan, (_prompt(stamp, number + shared), tokens), sampler)
            if company.came():
                shared, tokens = shared + 1, max(FEWEST_TOKENS, tokens // 3)  # a short one fits between two of theirs
            else:
                done.append(watched)
    except LookError as error:
        if warm and was_closed(error) and not shared and not any(watched.whole for watched in done):
            done.append(warm)  # so slow that there was no time for more
        if not done and not shared:
            why = failed(error.why, error.how_to_get)
            return Run(completions=why, decode_tokens_per_s=why)
    if not done:
        return Run(completions=SHARED, decode_tokens_per_s=SHARED)
    progress("measured", 1.0)
    cut_off = [warm, *done] if warm and not shared else done  # a short answer that is whole tells more than half of one
    kept = [watched for watched in done if watched.whole] or [w for w in cut_off if w.whole] or done
    for watched in kept:
        _note(sampler, watched)
    facts = thinking(target, [watched.timed for watched in kept], may_think=may_think)
    return msgspec.structs.replace(summarise(kept, target.url), **facts)


def _warmed_up(system: System, target: Target, plan: Plan, prompt: str) -> _Watched:
    """A first, short answer; only the sampler looks on, because it counts for nothing where there is time for more."""
    timed, whole = _as_far_as_it_came(system, target, plan, (prompt, WARM_UP_TOKENS))
    return _Watched(timed, LookError("nobody looked"), None, whole)


def _note(sampler: Sampler, watched: _Watched) -> None:
    """Tell the sampler when it was; a warm-up that has to do ended just now."""
    completion = watched.timed.completion
    if watched.start_s is None:
        note_completion(sampler, completion, sampler.clock() - (completion.client_total_s or 0.0))
    else:
        note_completion(sampler, completion, watched.start_s)


def _as_far_as_it_came(system: System, target: Target, plan: Plan, wanted: tuple[str, int]) -> tuple[Timed, bool]:
    """A completion, and whether it is whole: one that the end of the time cut off is as good as what came of it."""
    try:
        return complete(system, target, plan, *wanted), True
    except LookError as error:
        cut = _cut_short(target, error) if was_closed(error) else None
        if cut is None:
            raise
        return cut, False


def _whole(done: Sequence[_Watched]) -> list[Completion]:
    return [watched.timed.completion for watched in done]


def _cut_short(target: Target, error: LookError) -> Timed | None:
    """What came of an answer before the time was up, by the client's clock; None where that is too little to time."""
    arrivals = error.arrivals_s if isinstance(error, AskError) else ()
    if len(arrivals) < _FEWEST_CUT or not target.runtime.endswith("llama.cpp") or arrivals[-1] <= arrivals[0]:
        return None  # elsewhere a piece is not one token
    completion = Completion(
        prompt_tokens=0,
        generated_tokens=len(arrivals),
        prefill_s=arrivals[0],
        decode_s=arrivals[-1] - arrivals[0],
        client_first_token_s=arrivals[0],
        client_total_s=arrivals[-1],
    )
    return Timed(completion, "client clock, of an answer that was cut short", prompt_timed=False)


def _up_to(repeats: Repeats) -> str:
    return f"{repeats.most}" if repeats.fewest == repeats.most else f"up to {repeats.most}"


def _prompt(stamp: str, number: int) -> str:
    return f"{OPENINGS[number % len(OPENINGS)]} request of {stamp}. {PROMPTS[number % len(PROMPTS)]}"


def _tokens_for(warm: Completion, seconds: float) -> int:
    """As many tokens as fit into the time, within the protocol's bounds."""
    rate = warm.generated_tokens / max(warm.decode_s, 1e-6)
    return max(FEWEST_TOKENS, min(MOST_TOKENS, int(rate * seconds)))


def _watched(system: System, target: Target, plan: Plan, wanted: tuple[str, int], sampler: Sampler) -> _Watched:
    before, waited_before = sample_here(system, target), _run_delay(system, target.pid)
    start_s = sampler.clock()
    timed, whole = _as_far_as_it_came(system, target, plan, wanted)
    after, waited_after = sample_here(system, target), _run_delay(system, target.pid)
    if waited_before is not None and waited_after is not None:
        waited = max(0.0, waited_after - waited_before)
        timed = timed._replace(completion=msgspec.structs.replace(timed.completion, waited_s=waited))
    return _Watched(timed, use_between(system, target, before, after), start_s, whole)


def use_between(
    system: System, target: Target, before: CpuSample | LookError, after: CpuSample | LookError
) -> CpuUse | LookError:
    """Who used the processors between two samples, the server and this program apart from the others."""
    if isinstance(before, LookError):
        return before
    if isinstance(after, LookError):
        return after
    own = [p for p in (target.pid, _own_pid(system)) if p is not None]
    return cpus_between(before, after, own)


def sample_here(system: System, target: Target) -> CpuSample | LookError:
    """The processors of the server's machine; those of another say nothing of it."""
    if not is_here(target):
        return LookError("the server runs on another machine", Absence.NOT_SUPPORTED, "run unslow there")
    try:
        return read_cpu_sample(system)
    except LookError as error:
        return error


def _own_pid(system: System) -> int | None:
    try:
        return read_own_pid(system)
    except LookError:
        return None


def _run_delay(system: System, pid: int | None) -> float | None:
    try:
        return read_run_delay(system, pid) if pid is not None else None
    except LookError:
        return None


def complete(system: System, target: Target, plan: Plan, prompt: str, tokens: int) -> Timed:
    """One request for that many tokens, in the words of the server's runtime; LookError where none can be timed."""
    reply = ask(system, target, Question(prompt, tokens, plan.slot, silence_s=SILENCE_S, deadline_s=STREAM_TIMEOUT_S))
    return Timed(completion_of(reply), reply.clock, reply.server_prefill_s is not None, reply.thinking_tokens)


def completion_of(reply: Reply) -> Completion:
    """The reply by the server's clock, else by the client's; LookError where it came in one piece."""
    first_s, last_s = (reply.arrivals_s[0], reply.arrivals_s[-1]) if reply.arrivals_s else (reply.total_s,) * 2
    decode_s = reply.server_decode_s if reply.server_decode_s is not None else last_s - first_s
    if decode_s <= 0 or (reply.server_decode_s is None and reply.generated_tokens < 2):  # noqa: PLR2004 (a step has two ends)
        raise LookError("the answer came in one piece, so its speed can't be told", how_to_get="is a proxy in between?")
    return Completion(
        prompt_tokens=reply.prompt_tokens,
        cached_tokens=reply.cached_tokens,
        generated_tokens=reply.generated_tokens,
        prefill_s=reply.server_prefill_s if reply.server_prefill_s is not None else first_s,
        decode_s=decode_s,
        client_first_token_s=first_s,
        client_total_s=reply.total_s,
        drafted_tokens=reply.drafted_tokens,
        accepted_tokens=reply.accepted_tokens,
    )


def decode_rate(completion: Completion) -> float:
    """Tokens per second by the server's clock: the first token belongs to the prompt, so n tokens took n - 1 steps."""
    return max(1, completion.generated_tokens - 1) / max(completion.decode_s, 1e-9)


def summarise(done: Sequence[_Watched], url: str) -> Run:
    """Medians over the completions, and what the processors did in all of them."""
    runs = [w.timed.completion for w in done]
    source, clock = f"median of {len(runs)} completions at {url}", done[-1].timed.clock
    clients = [_client_rate(c) for c in runs]
    firsts = [c.client_first_token_s for c in runs if c.client_first_token_s is not None]
    return Run(
        completions=measured(tuple(runs), url),
        decode_tokens_per_s=measured(statistics.median(decode_rate(c) for c in runs), f"{source}, {clock}"),
        prefill_tokens_per_s=_prefill([w.timed for w in done], f"{source}, {clock}"),
        time_to_first_token_s=_median(firsts, f"{source}, client clock"),
        client_decode_tokens_per_s=_median([c for c in clients if c], f"{source}, client clock"),
        depth_tokens=measured(int(statistics.median(c.prompt_tokens + c.generated_tokens / 2 for c in runs)), url),
        waiting_for_cpu_s_per_token=_waiting(runs),
        gpus=NOT_WATCHED,
        **processors([w.use for w in done]),
    )


def _prefill(done: Sequence[Timed], source: str) -> Fact[float]:
    if not all(timed.prompt_timed for timed in done):
        return not_found("the server does not time its prompts, and these are too short for the client's clock")
    runs = [timed.completion for timed in done]
    return _median([c.prompt_tokens / c.prefill_s for c in runs if c.prefill_s > 0], source)


def _median(values: Sequence[float], source: str) -> Fact[float]:
    return measured(statistics.median(values), source) if values else not_found("no timing of this kind came back")


def _client_rate(completion: Completion) -> float | None:
    if completion.client_total_s is None or completion.client_first_token_s is None:
        return None
    seconds = completion.client_total_s - completion.client_first_token_s
    return (completion.generated_tokens - 1) / seconds if seconds > 0 and completion.generated_tokens > 1 else None


def _waiting(runs: Sequence[Completion]) -> Fact[float]:
    waits = [c.waited_s / c.generated_tokens for c in runs if c.waited_s is not None]
    if not waits:
        return Unknown("the run-queue times of the runtime's threads can't be read", "run unslow as the same user")
    return measured(statistics.median(waits), "/proc/PID/task/*/schedstat while generating")


def processors(uses: Sequence[CpuUse | LookError], when: str = "while generating") -> dict[str, Any]:
    """The facts on who used the processors: of the one in the middle, by how busy they were."""
    known = [u for u in uses if not isinstance(u, LookError)]
    if not known:
        error = next((u for u in uses if isinstance(u, LookError)), LookError("nobody looked"))
        return {"own_cpus": unknown(error), "others_cpus": unknown(error), "busiest_others": unknown(error)}
    source = f"/proc/stat and /proc/PID/stat {when}"
    middle = sorted(known, key=lambda u: u.busy_cpus)[len(known) // 2]
    return {
        "own_cpus": measured(middle.excluded_cpus, source),
        "others_cpus": measured(middle.busy_cpus, source),
        "busiest_others": measured(middle.busiest, source),
    }
