"""What several causes cite.

What was watched and counted, the command line, and what the CPU, copies and depth take by physics.
"""

import math
import statistics
from typing import NamedTuple

import msgspec

from unslow.facts.run import AtDepth, Phase, PhaseTelemetry, Stat, Traffic
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Origin, first_known
from unslow.think.case.demand import missing
from unslow.think.case.gpus import watched_gpus
from unslow.think.case.placement import cpu_computes, host_weights_bytes
from unslow.think.case.prediction import Prediction, host_share, predict
from unslow.think.case.work import Cure, measured_prompt_tokens, prompt_speed
from unslow.think.causes._facts import ask_for, cite, if_known, must_predict
from unslow.think.report import Cost, Evidence

ENOUGH_SAMPLES = 3  # Of a figure in a phase: fewer may be what was left of the phase before


def in_phase(case: Case, phase: Phase) -> PhaseTelemetry | None:
    """All devices in one phase; None where nobody watched, or no request was in it."""
    telemetry = case.run.telemetry
    phases = telemetry.value.phases if isinstance(telemetry, Known) else ()
    return next((p for p in phases if p.phase == phase and p.samples), None)


def host_figure(case: Case, name: str, phase: Phase = "decode") -> Stat | None:
    """A figure of the whole machine, such as `major_faults_per_s`; None where it was not watched."""
    seen = in_phase(case, phase)
    return seen.host.get(name) if seen else None


def host_at_work(case: Case, name: str) -> Stat | None:
    """The figure while tokens were generated; over all that was watched, where no request came to its end meanwhile."""
    found = host_figure(case, name)
    if found is None and in_phase(case, "decode") is None and isinstance(case.run.decode_tokens_per_s, Known):
        found = host_figure(case, name, "idle")
    return found if found and found.samples >= ENOUGH_SAMPLES else None


def gpu_figure(case: Case, name: str, phase: Phase = "decode") -> Stat | None:
    """A figure of the runtime's GPU on which it is highest, such as `pcie_receive_bytes_per_s`."""
    seen = in_phase(case, phase)
    found = [g.figures[name] for g in watched_gpus(case, seen.gpus if seen else ()) if name in g.figures]
    return max(found, key=lambda stat: stat.mean, default=None)


def cite_watched(case: Case, name: str, value: str, reference: str | None = None) -> Evidence:
    """A watched figure as evidence, in words that tell its unit."""
    known = case.run.telemetry
    origin, source = (str(known.origin), known.source) if isinstance(known, Known) else ("measured", "")
    return Evidence(fact=f"run.telemetry.{name}", value=value, reference=reference, origin=origin, source=source)


def figure_of(case: Case, index: int, name: str) -> Stat | None:
    """A figure of this GPU while tokens were generated; None where it was not watched."""
    seen = in_phase(case, "decode")
    gpu = next((g for g in seen.gpus if g.index == index), None) if seen else None
    return gpu.figures.get(name) if gpu else None


def cite_traffic(case: Case, traffic: Traffic, words: str) -> Evidence:
    """What was watched, as evidence."""
    return cite(case, "run.traffic", f"{traffic.looks} looks in {traffic.seconds:.0f} s", words)


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


def started_without(case: Case, *flags: str, by_ollama: bool = False) -> bool:
    """Whether a llama.cpp whose whole command line and environment are known has none of these flags.

    A flag stands for all that begin with it, and for the variable of the same name. `by_ollama` counts the llama-server
    that Ollama starts for a model since 0.30, of what no request can set.
    """
    runtime = case.runtime
    if not isinstance(runtime.command, Known) or not isinstance(runtime.environment, Known):
        return False
    is_child = runtime.name.value_or("") == "Ollama" and "llama-server" in "".join(runtime.command.value[:1])
    if not runtime.name.value_or("").endswith("llama.cpp") and not (by_ollama and is_child):
        return False
    variables = tuple(f"LLAMA_ARG_{flag.strip('-').replace('-', '_').upper()}" for flag in flags)
    asked = any(word.startswith(flags) for word in runtime.command.value)
    return not asked and not any(name.startswith(variables) for name in runtime.environment.value)


MOST = 0.5  # Of a token's time: what takes more of it dominates


def cpu_dominates(case: Case) -> bool | None:
    """Whether most of a token's time is the CPU's; None where nothing tells."""
    expected = predict(case)
    if isinstance(expected, Prediction):
        return host_share(expected) > MOST
    return False if cpu_computes(case) is False else None


USUAL_UBATCH = 512  # The default of llama.cpp
NEAR = (0.25, 1.6)  # A measured speed within this of what copying allows is bound by it


class Price(NamedTuple):
    """How much faster prompts would be, and what each of their tokens loses."""

    speedup: float
    lost: Cost


class Copies(NamedTuple):
    """One copy for every micro-batch, beside the speed that was measured, of prompts of so many tokens."""

    copy_s: float
    ubatch: float
    tokens_per_s: float
    prompt_tokens: float = math.inf

    @property
    def is_bound(self) -> bool:
        """Whether the speed is about what copying allows."""
        return NEAR[0] <= self.tokens_per_s * self.copy_s / self.shared_by <= NEAR[1]

    @property
    def shared_by(self) -> float:
        """Tokens that share a copy: a prompt that is shorter than a micro-batch fills none."""
        return min(self.ubatch, self.prompt_tokens)

    def with_link(self, faster: float) -> Price:
        """The price of a link that could be so many times as fast."""
        return self._price(self.copy_s / faster / self.shared_by)

    def with_ubatch(self, ubatch: float) -> Price:
        """The price of sharing a copy among too few tokens."""
        return self._price(self.copy_s / min(ubatch, self.prompt_tokens))

    def _price(self, then_s: float) -> Price:
        """A token's time with another share of the copy: of the time that was measured it is at most all."""
        now_s = 1 / self.tokens_per_s
        lost_s = max(0.0, min(now_s, self.copy_s / self.shared_by) - then_s)
        return Price(now_s / max(then_s, now_s - lost_s), Cost(seconds=lost_s, per="prompt_token"))


def copies(case: Case, link_bytes_per_s: float) -> Copies | None:
    """The copies of this case; None where nothing is copied, or where no long prompt was measured."""
    speed = prompt_speed(case)
    if not isinstance(speed, Known) or speed.value <= 0 or link_bytes_per_s <= 0 or cpu_computes(case) is False:
        return None
    if case.runtime.op_offload.value_or(default=True) is False:
        return None
    copied = if_known(host_weights_bytes, case)
    ubatch = case.runtime.ubatch.value_or(0) or USUAL_UBATCH
    tokens = measured_prompt_tokens(case) or math.inf
    return Copies(copied / link_bytes_per_s, ubatch, speed.value, tokens) if copied and copied > 0 else None


BEYOND = 1.5
"""Times the fall that physics expects: a ratio of two speeds of one server is free of most of a prediction's error."""
TRY_IT = "run `unslow` while the runtime is idle; or {try_depth}"


class Fall(NamedTuple):
    """The speed at the start of the context and deep in it: as measured, and how far it should fall."""

    shallow: AtDepth
    deep: AtDepth
    expected: float  # Times slower, by physics

    @property
    def measured(self) -> float:
        """Times slower, as it was."""
        return self.shallow.tokens_per_s / self.deep.tokens_per_s

    @property
    def beyond(self) -> float:
        """The measured fall over the expected one."""
        return self.measured / self.expected

    @property
    def words(self) -> str:
        """For a person."""
        speeds = f"{self.shallow.tokens_per_s:.1f} tokens per second at {self.shallow.depth_tokens} tokens, "
        return f"{speeds}{self.deep.tokens_per_s:.1f} at {self.deep.depth_tokens}"


def fall_with_depth(case: Case, cure: Cure | None = None) -> Fall:
    """The fall between the first and the last depth, expected with a cure applied; MissingFactError says what lacks."""
    depths = sorted(ask_for(case, "run.depths", TRY_IT), key=lambda d: d.depth_tokens)
    if len(depths) < 2 or min(d.tokens_per_s for d in depths) <= 0:  # noqa: PLR2004 (a fall has two ends)
        raise missing("the speed at two depths", TRY_IT)
    ends = depths[0], depths[-1]
    first, last = (must_predict(at_depth(case, end.depth_tokens), cure).seconds.mid for end in ends)
    return Fall(*ends, expected=max(1.0, last / first))


def at_depth(case: Case, tokens: int) -> Case:
    """The case as if it had been measured so far into the context."""
    depth = Known(tokens, Origin.MEASURED, "run.depths")
    return msgspec.structs.replace(case, run=msgspec.structs.replace(case.run, depth_tokens=depth))
