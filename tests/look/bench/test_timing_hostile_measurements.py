"""Timed completions on hostile servers: an error, or a measurement that a snapshot can hold."""

import pytest
from lab.replay import serve

from unslow.facts.run import Run
from unslow.facts.snapshot import Snapshot, Subject, dump_snapshot, parse_snapshot
from unslow.facts.values import measured_fact
from unslow.look.bench.timing import complete, decode_rate
from unslow.look.requests import Plan, Target, TimedCompletion
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem

KEY = "sk-unslow-test-0123456789"
MODES = (
    "numbers",
    "not_numbers",
    "types",
    "shapes",
    "escapes",
    "not_utf8",
    "echo_key",
    "cut",
    "endless",
    "nested",
    "refused",
)
RUNTIMES = {"llama.cpp": "llama_cpp", "Ollama": "ollama", "LM Studio": "lm_studio", "vLLM": "vllm"}


class Impatient(LiveSystem):
    """The real door, which waits for less long."""

    def stream(self, url, body, headers=None, timeout_s=0.0, silence_s=0.0):
        return super().stream(url, body, headers, 0.25, silence_s)


def measured_at(runtime: str, mode: str) -> TimedCompletion | LookError:
    with serve(RUNTIMES[runtime], fail=mode, tokens_per_s=1000, prompt_tokens_per_s=1e5) as url:
        target = Target(url=url, api_key=KEY, runtime=runtime, model="qwen3:8b")
        try:
            return complete(Impatient(), target, Plan(1.0), "hello", 8)
        except LookError as error:
            return error


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_hostile_stream_gives_an_error_or_a_storable_measurement(runtime, mode):
    timed = measured_at(runtime, mode)
    if isinstance(timed, LookError):
        assert KEY not in timed.why + timed.how_to_get
        assert 0 < len(timed.why) < 1000
        return
    speed = decode_rate(timed.completion)
    run = Run(
        completions=measured_fact((timed.completion,), "server"), decode_tokens_per_s=measured_fact(speed, timed.clock)
    )
    written = dump_snapshot(Snapshot(unslow_version="0", subjects=(Subject(run=run),)))
    assert parse_snapshot(written).subjects[0].run == run


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_measured_speed_is_the_replayed_speed(runtime):
    with serve(RUNTIMES[runtime], tokens_per_s=200, prompt_tokens_per_s=1e5) as url:
        target = Target(url=url, runtime=runtime, model="qwen3:8b")
        timed = complete(LiveSystem(), target, Plan(1.0), "hello", 20)
    assert timed.completion.generated_tokens == 20
    if timed.clock.startswith("client"):
        whole_s = timed.completion.prefill_s + timed.completion.decode_s  # a first token that was heard late is in both
        assert whole_s > 18 / 200  # never faster than it was sent
    else:
        assert timed.completion.decode_s == pytest.approx(20 / 200)
