"""Sweeps over start settings, on simulated servers with a known optimum."""

import importlib
import random
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from doubles import FakeSystem, Quiet

from unslow.commands.bench.sweeps import Limits, batch, threads, ubatch
from unslow.facts.bench import DECODE, LOAD, PREFILL, Failure, Pass
from unslow.facts.errors import UserError
from unslow.facts.machine import Cpu, Machine
from unslow.facts.runtime import Runtime
from unslow.facts.values import reported_fact
from unslow.look.requests import Target

load = importlib.import_module("unslow.commands.bench.sweeps.load")

LOAD_S = 2.0
MACHINE = Machine(
    cpu=Cpu(
        physical_cores=reported_fact(8, "t"),
        logical_cpus=reported_fact(16, "t"),
        performance_cores=reported_fact(8, "t"),
    )
)


class Clock(FakeSystem):
    """Time passes where somebody says that work was done."""

    now_s = 0.0

    def clock(self) -> float:
        return self.now_s


class Words:
    """Prompts of a word for each token."""

    learned = ()

    def prompt(self, tokens: int) -> str:
        return "word " * tokens

    def learn(self, words: int, tokens: int) -> None:
        self.learned = (words, tokens)


@dataclass
class SimulatedBencher:
    """Answers at the speeds of its settings, with noise; some answers may never come."""

    own: "SimulatedOwn"
    settings: dict[str, int]
    runtime: Runtime
    failures: list[Failure] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.system, self.subject = self.own.system, SimpleNamespace(runtime=self.runtime)
        self.prompts = Words()
        self.target = Target("http://127.0.0.1:1", pid=77)

    def ask(self, wanted) -> Pass | Failure:
        if self.own.asked == self.own.interrupt_at:
            raise KeyboardInterrupt
        self.own.asked += 1
        decode, prefill = (self.own.noisy(speed) for speed in self.own.truth(self.settings))
        if decode <= 0:
            one = Failure(case=wanted.case, round=wanted.round, started_s=0, lasted_s=1, kind="gone", why="it is gone")
            self.failures.append(one)
            return one
        read = wanted.prompt_tokens or len(wanted.prompt.split()) or 20
        reading, writing = read / prefill, (wanted.tokens - 1) / decode
        self.own.system.now_s += reading + writing
        return Pass(
            case=wanted.case,
            round=wanted.round,
            started_s=0,
            asked_tokens=wanted.tokens,
            prompt_tokens=read,
            generated_tokens=wanted.tokens,
            server_prefill_s=reading,
            server_decode_s=writing,
            client_first_token_s=reading,
            client_last_token_s=reading + writing,
            client_total_s=reading + writing,
        )


@dataclass
class SimulatedOwn:
    """Starts servers that exist only here; `truth` gives the speeds of generating and of reading by the settings."""

    truth: Callable[[dict[str, int]], tuple[float, float]]
    runtime: Runtime = field(default_factory=Runtime)
    machine: Machine = MACHINE
    noise: float = 0.01
    interrupt_at: int = -1
    settable: tuple[str, ...] = ("threads", "threads_batch", "batch", "ubatch", "context")
    refused: Callable[[dict[str, int]], bool] = lambda _settings: False
    started_with: list[dict[str, int]] = field(default_factory=list)
    load_s, share, interrupted, asked = LOAD_S, 0.0, False, 0
    case = None

    def __post_init__(self) -> None:
        self.system, self.progress, self.chance = Clock(), Quiet(), random.Random(7)

    def noisy(self, speed: float) -> float:
        return speed * self.chance.lognormvariate(0, self.noise)

    def need(self, setting: str) -> None:
        if setting not in self.settable:
            raise UserError(f"no {setting}")

    def can_set(self, setting: str) -> bool:
        return setting in self.settable

    def files(self) -> list[str]:
        return []

    def file_bytes(self) -> int:
        return 0

    @contextmanager
    def start(self, settings):
        if self.refused(settings):
            raise UserError("the server ended before it answered: out of memory")
        self.started_with.append(settings)
        self.system.now_s += LOAD_S
        yield SimulatedBencher(self, settings, self.runtime)


def eight_threads(**others) -> Runtime:
    return Runtime().with_facts(
        threads=reported_fact(8, "t"), batch=reported_fact(2048, "t"), ubatch=reported_fact(512, "t"), **others
    )


def by_threads(best: int) -> Callable[[dict[str, int]], tuple[float, float]]:
    """Generating is best with some threads, reading with as many as there are."""

    def truth(settings: dict[str, int]) -> tuple[float, float]:
        count = settings.get("threads", 8)
        return 20.0 / (1 + 0.08 * abs(count - best)), 30.0 * min(count, 16)

    return truth


@pytest.mark.parametrize("best", [1, 3, 5, 8, 12, 16])
def test_best_thread_count_is_found(best):
    own = SimulatedOwn(by_threads(best), eight_threads(), noise=0.003)
    swept = threads.sweep(own, Limits())
    assert swept.axis == "threads"
    assert abs(swept.best - best) <= max(1, best // 8)
    assert swept.verdict == ("current_is_best" if best == 8 else "best_found")
    assert {1, 4, 8, 16} <= {int(point.at) for point in swept.points}
    assert all({DECODE, PREFILL, LOAD} == set(point.figures) for point in swept.points)
    assert "-tb 16" in swept.because or best == 16
    assert len(own.started_with) <= 30


def test_every_start_sets_threads_and_batch_threads():
    own = SimulatedOwn(by_threads(4), eight_threads())
    threads.sweep(own, Limits())
    assert own.started_with[0] == {}  # as it was given, to know what that is
    assert all(one["threads"] == one["threads_batch"] for one in own.started_with[1:])


def test_clear_result_ends_the_rounds_early(wording):
    own = SimulatedOwn(by_threads(4), eight_threads(), noise=0.001)
    swept = threads.sweep(own, Limits(values=(1, 2, 4, 8), repeats=6))
    wording(swept.stopped_early, tells="2 of 6")
    assert {int(point.at): point.figures[DECODE].count for point in swept.points} == {1: 1, 2: 2, 4: 2, 8: 2}


def test_threads_without_effect_give_verdict_flat():
    own = SimulatedOwn(lambda _settings: (20.0, 300.0), eight_threads(), noise=0.004)
    swept = threads.sweep(own, Limits(values=(2, 4, 8)))
    assert (swept.verdict, swept.best) == ("flat", 2)


def test_time_limit_is_kept(wording):
    own = SimulatedOwn(by_threads(4), eight_threads())
    swept = threads.sweep(own, Limits(seconds=40))
    wording(swept.stopped_early)
    assert own.system.now_s <= 55
    assert swept.points


def test_many_core_machine_skips_one_thread():
    many = Machine(cpu=Cpu(physical_cores=reported_fact(64, "t"), logical_cpus=reported_fact(128, "t")))
    own = SimulatedOwn(by_threads(48), Runtime().with_facts(threads=reported_fact(64, "t")), many)
    swept = threads.sweep(own, Limits(seconds=400))
    assert 1 not in {int(point.at) for point in swept.points}
    assert abs(swept.best - 48) <= 6


def test_thread_count_is_limited_by_allowed_cpus_and_quota():
    cpu = Cpu(
        logical_cpus=reported_fact(64, "t"), allowed_cpus=reported_fact(16, "t"), quota_cpus=reported_fact(3.5, "t")
    )
    assert threads.most_threads(cpu, 64) == 4
    assert threads.most_threads(Cpu(), 6) == 12


@pytest.mark.parametrize("at", [0, 3, 9])
def test_interrupt_keeps_measured_points(at, wording):
    own = SimulatedOwn(by_threads(4), eight_threads(), interrupt_at=at)
    swept = threads.sweep(own, Limits())
    assert own.interrupted
    wording(swept.stopped_early)
    assert len(swept.points) == max(0, (at - 2) // 2)
    assert swept.verdict == "cannot_tell"


def by_ubatch(settings: dict[str, int]) -> tuple[float, float]:
    return 20.0, 400.0 * min(settings.get("ubatch", 512), 256) / 256


def test_knee_of_ubatch_is_found():
    own = SimulatedOwn(by_ubatch, eight_threads(), noise=0.002)
    swept = ubatch.sweep(own, Limits())
    assert (swept.verdict, swept.best, swept.knee) == ("current_is_best", 512, 256)
    assert max(point.at for point in swept.points) == 1024  # nothing was gained, so larger ones were not tried
    assert own.started_with[1] == {"ubatch": 64}


def test_ubatch_never_exceeds_batch():
    runtime = Runtime().with_facts(
        batch=reported_fact(256, "t"), ubatch=reported_fact(256, "t"), context_per_slot=reported_fact(4608, "t")
    )
    own = SimulatedOwn(lambda s: (20.0, 4.0 * s.get("ubatch", 256)), runtime, noise=0.002)
    ubatch.sweep(own, Limits(values=(256, 512)))
    assert {"ubatch": 512, "batch": 512} in own.started_with
    assert {"ubatch": 256} in own.started_with
    own = SimulatedOwn(lambda s: (20.0, 4.0 * s.get("batch", 256)), runtime, noise=0.002)
    batch.sweep(own, Limits(values=(128, 512)))
    assert {"batch": 128, "ubatch": 128} in own.started_with
    assert {"batch": 512} in own.started_with


def test_size_the_server_does_not_start_with_is_a_failed_point():
    own = SimulatedOwn(lambda s: (20.0, 4.0 * s.get("ubatch", 512)), eight_threads(), noise=0.002)
    own.refused = lambda settings: settings.get("ubatch", 0) > 600
    swept = ubatch.sweep(own, Limits(values=(256, 512, 1024)))
    broken = {int(point.at): point for point in swept.points}[1024]
    assert broken.failures == 1
    assert "out of memory" in broken.note
    assert swept.best == 512


def test_sizes_larger_than_the_prompt_are_skipped(wording):
    slow = SimulatedOwn(lambda s: (2.0, 0.1 * s.get("ubatch", 512)), eight_threads(), noise=0.002)
    swept = ubatch.sweep(slow, Limits(seconds=3600))
    assert max(point.at for point in swept.points) == 512
    wording(swept.stopped_early, tells="1024")


def test_server_that_never_answers_is_a_user_error(wording):
    with pytest.raises(UserError) as caught:
        threads.sweep(SimulatedOwn(lambda _settings: (0.0, 1.0), eight_threads()), Limits())
    wording(str(caught.value))


@pytest.mark.parametrize("module", [threads, batch, ubatch])
def test_setting_the_server_lacks_is_refused(module):
    with pytest.raises(UserError, match=f"no {module.AXIS}"):
        module.sweep(SimulatedOwn(by_threads(4), settable=()), Limits())


def test_load_without_known_files_measures_warm_only(wording):
    own = SimulatedOwn(lambda _settings: (20.0, 300.0), eight_threads())
    swept = load.sweep(own, Limits())
    assert swept.verdict == "cannot_tell"
    wording(swept.because)
    assert [point.label for point in swept.points] == ["warm"]
    assert swept.points[0].figures[LOAD].count == 2


def test_failed_start_keeps_other_load_times(wording):
    own = SimulatedOwn(lambda _settings: (20.0, 300.0), eight_threads())
    own.refused = lambda _settings: len(own.started_with) == 2
    swept = load.sweep(own, Limits())  # the first start only tells which files there are
    wording(swept.stopped_early)
    assert swept.points[0].figures[LOAD].count == 1


@pytest.mark.parametrize("module", [threads, batch, ubatch, load])
def test_every_sweep_module_is_named_after_its_axis(module):
    assert module.__name__.rpartition(".")[2] == module.AXIS
    assert module.OWN_SERVER is True
