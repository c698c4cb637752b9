from typing import Any

import pytest
from deep_server import DeepServer
from doubles import Quiet

from unslow.commands.bench.bencher import Bencher
from unslow.commands.bench.sweeps import Limits, depth
from unslow.facts.bench import DECODE, PREFILL, Sweep
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import measured_fact
from unslow.look.requests import Target

URL = "http://127.0.0.1:1"
CONTEXT = 24_000


def bencher_of(system: DeepServer, context: int | None = CONTEXT) -> Bencher:
    runtime = Runtime().with_facts(context_per_slot=measured_fact(context, "/props")) if context else Runtime()
    return Bencher(system, Subject(runtime=runtime), Target(URL), Quiet())


def swept(system: DeepServer, context: int | None = CONTEXT, **limits: Any) -> tuple[Sweep, Bencher]:
    bencher = bencher_of(system, context)
    return depth.sweep(bencher, Limits(**{"tokens": 32, "seconds": 3600.0, **limits})), bencher


def test_linear_slowdown_gives_verdict_slope_after_two_rounds(wording):
    found, bencher = swept(DeepServer())
    assert (found.verdict, found.stopped_early) == ("slope", "")
    wording(found.because, tells="1000")
    assert [p.figures[DECODE].count for p in found.points] == [2] * len(found.points)
    assert len(found.points) >= 6
    assert found.points[-1].at > CONTEXT * 0.9
    assert found.points[0].at < 600
    assert bencher.passes[1].case == bencher.passes[-1].case  # the shallowest is read first and last


def test_second_round_reuses_the_cache_and_adds_no_prefill_figures():
    found, bencher = swept(DeepServer())
    down = [done for done in bencher.passes if done.round == 2]
    assert all(done.prompt_tokens <= 2 for done in down)
    assert all(p.figures[PREFILL].count == 1 for p in found.points)
    assert all(p.figures[PREFILL].median == pytest.approx(1000) for p in found.points)
    assert "prefilled" in found.points[2].note


def test_cliff_is_located_and_deeper_points_are_skipped(wording):
    found, _ = swept(DeepServer(token_s=lambda d, _now: (0.012 + 1e-7 * d) * (5 if d > 3000 else 1)))
    assert found.verdict == "cliff"
    assert 2500 <= found.knee <= 3000
    wording(found.stopped_early)
    assert max(p.at for p in found.points) < 5000
    assert "undetermined" in found.because  # not sampled
    assert "measured once" not in found.because
    assert min(p.at for p in found.points if p.at > found.knee) < 3500  # between 2048 and 4096 it looked closer


def wanted_depths(context: int | None, **limits: Any) -> list[int]:
    return depth._Walk(bencher_of(DeepServer(), context), Limits(**limits)).depths.wanted


def test_requested_depths_are_sorted():
    assert wanted_depths(CONTEXT, values=(4096.0, 0.0, 512.4, 512.0)) == [1, 512, 4096]


def test_unknown_context_is_assumed_small():
    assert 2048 < wanted_depths(None, tokens=128)[-1] < 4096
    assert wanted_depths(100, tokens=128) == []


class Watching:
    """A sampler that sees the link busy while deep answers are generated."""

    def __init__(self, server: DeepServer) -> None:
        self.server = server

    def note(self, span: Any) -> None:
        """Phases are nothing to it."""

    def means_between(self, start_s: float, end_s: float | None = None) -> dict[str, float]:
        deep = len(self.server.kept) > 3000
        assert end_s is not None
        assert end_s > start_s
        return {
            "gpu0_pcie_receive_bytes_per_s": 11e9 if deep else 2e7,
            "gpu0_temperature_c": 50.0,
            "gpu0_busy": 0.2 if deep else 0.97,
        }


def test_counters_beyond_the_cliff_identify_a_spill(wording):
    server = DeepServer(token_s=lambda d, _now: 0.012 * (5 if d > 3000 else 1))
    bencher = bencher_of(server)
    bencher.sampler = Watching(server)  # type: ignore[assignment]
    found = depth.sweep(bencher, Limits(tokens=32))
    wording(found.because, tells=("11.0 GB/s", "20%", "97%"))
    assert "gpu0_temperature_c" not in found.points[0].seen


def test_slowdown_with_time_is_drift_not_cliff(wording):
    found, _ = swept(DeepServer(token_s=lambda d, now: (0.012 + 1e-7 * d) * (3 if now > 8 else 1)))
    assert found.verdict == "drift"
    wording(found.because)
    assert found.knee is None


class Stranger(Watching):
    """A sampler that sees memory taken and the link busy from a moment on."""

    def means_between(self, start_s: float, end_s: float | None = None) -> dict[str, float]:
        late = start_s > 1008
        return {"gpu0_pcie_receive_bytes_per_s": 9e9 if late else 0.0, "gpu0_vram_used_bytes": 140e9 if late else 20e9}


def test_counters_since_the_drift_explain_it(wording):
    server = DeepServer(token_s=lambda d, now: (0.012 + 1e-7 * d) * (3 if now > 8 else 1))
    bencher = bencher_of(server)
    bencher.sampler = Stranger(server)  # type: ignore[assignment]
    found = depth.sweep(bencher, Limits(tokens=32))
    assert found.verdict == "drift"
    wording(found.because, tells="18.6")
    assert "the GPU received" in found.because


def test_brief_slowdown_is_not_a_cliff():
    found, _ = swept(DeepServer(token_s=lambda d, now: (0.012 + 1e-6 * d) * (4 if 6 < now < 9 else 1)))
    assert found.verdict != "cliff"


def test_context_shorter_than_expected_gives_one_failed_point():
    found, _ = swept(DeepServer(context=5000))
    failed = [p for p in found.points if p.failures]
    assert [p.failures for p in failed] == [1]
    assert not failed[0].figures
    assert "exceeds the available context" in failed[0].note
    assert found.verdict == "slope"


def test_dead_server_stops_the_sweep_with_the_reason():
    found, bencher = swept(DeepServer(context=0))
    assert found.verdict == "cannot_tell"
    assert "did not respond" in found.stopped_early
    assert len(bencher.failures) == 1


def test_depths_beyond_the_time_limit_are_skipped_and_reported(wording):
    found, bencher = swept(DeepServer(prompt_token_s=0.02), seconds=60.0)
    wording(found.stopped_early)
    assert max(p.at for p in found.points) < 3000
    assert bencher.system.clock() - bencher.began_s < 90
    assert found.points[0].figures[DECODE].count >= 2


def test_server_without_prompt_cache_is_still_measured():
    found, bencher = swept(DeepServer(keeps=False, prompt_token_s=1e-4))
    assert found.verdict == "slope"
    assert not any(done.cached_tokens for done in bencher.passes)
    assert found.points[-1].figures[PREFILL].count == 2


def test_user_given_depths_are_measured_beyond_a_cliff(wording):
    server = DeepServer(token_s=lambda d, _now: 0.012 * (5 if d > 1500 else 1))
    found, _ = swept(server, values=(100.0, 1000.0, 2000.0, 4000.0, 99_999.0))
    assert [round(p.at, -2) for p in found.points] == [100, 1000, 2000, 4000]
    wording(found.stopped_early, tells="99999")
    assert found.verdict == "cliff"


def test_interrupted_sweep_keeps_its_points(wording):
    found, bencher = swept(DeepServer(interrupt_at_s=1000.0 + 5))
    assert bencher.interrupted
    wording(found.stopped_early)
    assert found.points
    assert found.points[0].figures[DECODE].median > 0


def test_context_without_room_gives_cannot_tell():
    found, bencher = swept(DeepServer(), context=64)
    assert (found.verdict, bencher.passes) == ("cannot_tell", [])
    assert "context is too short" in found.stopped_early


def test_passes_are_flushed_each_round():
    bencher, flushed = bencher_of(DeepServer()), []
    bencher.flush = lambda: flushed.append(len(bencher.passes))
    depth.sweep(bencher, Limits(tokens=32))
    assert len(flushed) >= 2
    assert flushed == sorted(flushed)
