"""Every trial against replayed servers: what is measured is what was replayed, live and from a recording."""

from pathlib import Path

import msgspec
import pytest
from lab.replay import serve

from unslow.facts.run import Run
from unslow.facts.snapshot import Snapshot, Subject, dump_snapshot, parse_snapshot
from unslow.facts.values import NOT_LOOKED, Known
from unslow.look.bench.trials import trials
from unslow.look.requests import Plan, Target
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import RecordedSystem, Recorder

PLAN = Plan(seconds_per_completion=0.2, seconds=3.0, watch_s=0.6, prefill_tokens_per_s=20_000, decode_tokens_per_s=400)
PACE = {"tokens_per_s": 2000, "prompt_tokens_per_s": 50_000}
FOLDERS = {"llama.cpp": "llama_cpp", "Ollama": "ollama", "vLLM": "vllm", "LM Studio": "lm_studio"}
FACTS = {"depth": "depths", "speed": "decode_tokens_per_s", "host": "others_cpus"}
SENDING = ("long_prompt", "depth", "at_once", "plain_sampling", "turns", "routes")
KEY = "sk-unslow-test-0123456789"


class Impatient(LiveSystem):
    """The real door, which waits for less long."""

    def stream(self, url, body, headers=None, timeout_s=0.0, silence_s=0.0):
        return super().stream(url, body, headers, 0.1, 0.1)


def perform(name: str, url: str, runtime: str, system=None) -> Run:
    context = 32_768 if runtime == "Ollama" else 4096  # which the replayed Ollama has loaded it with
    target = Target(url, KEY, runtime=runtime, model="qwen3:8b", context=context)
    return trials()[name](system or LiveSystem(), target, PLAN, lambda *_: None)


def fact_of(name: str, run: Run):
    return getattr(run, FACTS.get(name, name))


def filled(run: Run) -> dict:
    return {name: fact for name in run.__struct_fields__ if (fact := getattr(run, name)) != NOT_LOOKED}


def is_storable(run: Run) -> bool:
    written = dump_snapshot(Snapshot(unslow_version="0", subjects=(Subject(run=run),)))
    return parse_snapshot(written).subjects[0].run == run


def test_all_trials_are_discovered():
    assert set(trials()) == {*SENDING, "speed", "traffic", "host"}


@pytest.mark.parametrize("runtime", FOLDERS)
def test_every_trial_works_on_every_replayed_runtime(runtime):
    with serve(FOLDERS[runtime], **PACE) as url:
        runs = {name: perform(name, url, runtime) for name in SENDING if name != "turns"}
    assert all(is_storable(run) for run in runs.values())
    assert all(isinstance(fact_of(name, run), Known) for name, run in runs.items()), runs
    long = runs["long_prompt"].long_prompt.need()
    assert long.tokens == pytest.approx(2048, rel=0.35)
    assert long.tokens / long.seconds <= PACE["prompt_tokens_per_s"] * 1.01  # never faster than it was played
    assert runs["long_prompt"].prefill_tokens_per_s.need() == pytest.approx(long.tokens / long.seconds)
    shallow, deep = runs["depth"].depths.need()
    assert shallow.depth_tokens < 100
    assert deep.depth_tokens > 1000
    alone, several = runs["at_once"].at_once.need()
    assert (alone.requests, several.requests) == (1, 8 if runtime == "vLLM" else 4)
    assert [route.host for route in runs["routes"].routes.need()] == ["127.0.0.1", "localhost", "::1"]


def test_llama_server_timings_give_the_replayed_speeds():
    with serve("llama_cpp", **PACE) as url:
        runs = {name: perform(name, url, "llama.cpp") for name in ("long_prompt", "plain_sampling")}
    assert runs["long_prompt"].prefill_tokens_per_s.need() == pytest.approx(50_000)
    assert runs["plain_sampling"].plain_sampling.need().as_set_tokens_per_s == pytest.approx(2000, rel=0.05)


def test_without_a_cache_every_turn_is_computed_in_full():
    with serve("llama_cpp", **PACE) as url:
        turns = perform("turns", url, "llama.cpp").turns.need()
    assert [turn.computed_tokens == turn.prompt_tokens for turn in turns] == [True] * 3
    assert turns[0].new_tokens == turns[0].prompt_tokens
    assert 0 < turns[1].new_tokens < turns[1].prompt_tokens / 3


@pytest.mark.parametrize("name", sorted({*SENDING, "speed", "traffic", "host"}))
def test_every_trial_replays_identically_from_its_recording(name, tmp_path: Path):
    recorder = Recorder(LiveSystem(), tmp_path)
    with serve("llama_cpp", **PACE) as url:
        live = perform(name, url, "llama.cpp", recorder)
    recorder.close()
    again = perform(name, url, "llama.cpp", RecordedSystem(tmp_path))
    assert filled(live)
    assert msgspec.to_builtins(filled(again)) == msgspec.to_builtins(filled(live))


@pytest.mark.parametrize("mode", ["numbers", "types", "echo_key", "cut", "endless"])
@pytest.mark.parametrize("runtime", ["llama.cpp", "vLLM"])
def test_a_hostile_server_gives_a_reason_or_storable_facts(runtime, mode):
    with serve(FOLDERS[runtime], fail=mode, tokens_per_s=1000, prompt_tokens_per_s=1e5) as url:
        for name in ("long_prompt", "at_once", "turns", "traffic", "plain_sampling"):
            run = perform(name, url, runtime, Impatient())
            assert filled(run)
            assert is_storable(run)
            assert KEY not in str(run)


@pytest.mark.parametrize("name", SENDING)
def test_a_trial_without_a_server_gives_a_reason(name):
    run = perform(name, "http://127.0.0.1:9", "llama.cpp")
    fact = fact_of(name, run)
    assert all(route.seconds is None for route in fact.need()) if name == "routes" else fact.why


def test_the_traffic_trial_reads_a_busy_vllm():
    with serve("vllm_busy") as url:
        run = perform("traffic", url, "vLLM")
    seen = run.traffic.need()
    assert (seen.running, seen.waiting, seen.preemptions.need()) == (8, 4, 0)
    assert 0 < seen.cache_used.need() <= 1
