"""A measurement with eyes on the machine: who used its processors, and what its devices did meanwhile."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from unslow.facts.run import Completion, Run, Span, Telemetry
from unslow.facts.values import Absence, Fact, Known, Unknown, measured
from unslow.look.bench.timing import as_far_as_it_came
from unslow.look.kernel.processors import CpuSample, CpuUse, cpus_between, read_cpu_sample, read_own_pid, read_run_delay
from unslow.look.requests import Plan, Target, Timed
from unslow.look.sampler import Sampler
from unslow.look.sampler.timeline import UNDER_LOAD, decode_phase, throttled_fraction, under_load
from unslow.look.system import LookError, System, converted, try_fact, try_look, unknown
from unslow.look.system.http import is_local_url

QUESTION = "telemetry"  # The name under which a recording holds the summary; the samples themselves pass it by

WARM_UP_TOKENS = 16


class WatchedAnswer(NamedTuple):
    """A completion and what the processors did meanwhile."""

    timed: Timed
    use: CpuUse | LookError
    start_s: float | None  # By the sampler's clock; None where nobody looked at it
    whole: bool = True  # Whether all of it came before the time was up


@contextmanager
def watching(system: System, target: Target) -> Iterator[Sampler]:
    """A sampler around a measurement; it does not run where the server is on another machine."""
    sampler = Sampler(system, [target.pid] if target.pid is not None else [])
    if is_here(target):
        sampler.start()
    try:
        yield sampler
    finally:
        sampler.stop()


def is_here(target: Target) -> bool:
    """Whether the server runs on this machine, so that what this machine does has to do with it."""
    return target.pid is not None or is_local_url(target.url)


def note_completion(sampler: Sampler, completion: Completion, start_s: float) -> None:
    """Tell the sampler when the prompt was read and when tokens came, by the client's clock."""
    first, total = completion.client_first_token_s, completion.client_total_s
    if first is None or total is None:
        return
    prompt_s = min(completion.prefill_s, first)
    sampler.note(Span(phase="queue", start_s=start_s, end_s=start_s + first - prompt_s))
    sampler.note(Span(phase="prefill", start_s=start_s + first - prompt_s, end_s=start_s + first))
    sampler.note(Span(phase="decode", start_s=start_s + first, end_s=start_s + total))


def with_telemetry(system: System, run: Run, sampler: Sampler, question: str = QUESTION) -> Run:
    """The run with what was seen meanwhile; in a recording that holds none, the run as it is."""

    def ask() -> Any:
        telemetry = sampler.telemetry()
        if not telemetry.samples:
            raise LookError("the machine was not watched", Absence.NOT_LOOKED, "measure on the machine of the server")
        return msgspec.to_builtins(telemetry)

    def read() -> Fact[Telemetry]:
        return measured(converted(system.ask(question, ask), Telemetry, "the telemetry does not fit"), UNDER_LOAD)

    return joined_telemetry(run, try_fact(read))


def joined_telemetry(run: Run, telemetry: Fact[Telemetry]) -> Run:
    """The run with a summary, and with what causes want to know of it."""
    run = msgspec.structs.replace(run, telemetry=telemetry)
    if not isinstance(telemetry, Known):
        return run
    gpus = under_load(telemetry.value)
    return msgspec.structs.replace(
        run,
        gpus=measured(gpus, UNDER_LOAD) if gpus else run.gpus,
        cpu_throttled_fraction=throttled_fraction(telemetry.value),
        own_cpus=_processors(run.own_cpus, telemetry.value, "own_cpus"),
        others_cpus=_processors(run.others_cpus, telemetry.value, "others_cpus"),
    )


def _processors(known: Fact[float], telemetry: Telemetry, figure: str) -> Fact[float]:
    """What was counted around each answer; of one that was cut off, what the sampler saw meanwhile."""
    decode = decode_phase(telemetry)
    seen = decode.host.get(figure) if decode and isinstance(known, Unknown) else None
    return measured(max(0.0, seen.mean), UNDER_LOAD) if seen else known


def use_between(
    system: System, target: Target, before: CpuSample | LookError, after: CpuSample | LookError
) -> CpuUse | LookError:
    """Who used the processors between two samples, the server and this program apart from the others."""
    if isinstance(before, LookError):
        return before
    if isinstance(after, LookError):
        return after
    own = [p for p in (target.pid, try_look(None, read_own_pid, system)) if p is not None]
    return cpus_between(before, after, own)


def sample_here(system: System, target: Target) -> CpuSample | LookError:
    """The processors of the server's machine; those of another say nothing of it."""
    if not is_here(target):
        return LookError("the server runs on another machine", Absence.NOT_SUPPORTED, "run unslow there")
    try:
        return read_cpu_sample(system)
    except LookError as error:
        return error


def run_delay(system: System, pid: int | None) -> float | None:
    """Seconds that its threads have waited for a processor so far, where that can be read."""
    return None if pid is None else try_look(None, read_run_delay, system, pid)


def processors(uses: Sequence[CpuUse | LookError], when: str = "while generating") -> dict[str, Any]:
    """The facts on who used the processors: of the one in the middle, by how busy they were."""
    known = [u for u in uses if not isinstance(u, LookError)]
    if not known:
        error = next((u for u in uses if isinstance(u, LookError)), LookError("nobody looked"))
        return dict.fromkeys(("own_cpus", "others_cpus", "busiest_others"), unknown(error))
    source = f"/proc/stat and /proc/PID/stat {when}"
    middle = sorted(known, key=lambda u: u.busy_cpus)[len(known) // 2]
    return {
        "own_cpus": measured(middle.excluded_cpus, source),
        "others_cpus": measured(middle.busy_cpus, source),
        "busiest_others": measured(middle.busiest, source),
    }


def watched_answer(
    system: System, target: Target, plan: Plan, wanted: tuple[str, int], sampler: Sampler
) -> WatchedAnswer:
    """The answer to a prompt, of so many tokens, with a look at the processors before and after it."""
    before, waited_before = sample_here(system, target), run_delay(system, target.pid)
    start_s = sampler.clock()
    timed, whole = as_far_as_it_came(system, target, plan, wanted)
    after, waited_after = sample_here(system, target), run_delay(system, target.pid)
    if waited_before is not None and waited_after is not None:
        waited = max(0.0, waited_after - waited_before)
        timed = timed._replace(completion=msgspec.structs.replace(timed.completion, waited_s=waited))
    return WatchedAnswer(timed, use_between(system, target, before, after), start_s, whole)


def warmed_up(system: System, target: Target, plan: Plan, prompt: str) -> WatchedAnswer:
    """A first, short answer; only the sampler looks on, because it counts for nothing where there is time for more."""
    timed, whole = as_far_as_it_came(system, target, plan, (prompt, WARM_UP_TOKENS))
    return WatchedAnswer(timed, LookError("nobody looked"), None, whole)


def note(sampler: Sampler, seen: WatchedAnswer) -> None:
    """Tell the sampler when it was; a warm-up that has to do ended just now."""
    completion, start_s = seen.timed.completion, seen.start_s
    just_now = sampler.clock() - (completion.client_total_s or 0.0)
    note_completion(sampler, completion, just_now if start_s is None else start_s)
