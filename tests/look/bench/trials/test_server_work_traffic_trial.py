import json

import pytest
from doubles import FakeSystem

from unslow.facts.values import NOT_LOOKED, Absence, Known, Unknown
from unslow.look.bench.trials.observations import (
    Look,
    depth_of_answers,
    perform_traffic,
    queue_s_of,
    speed_alone,
    speed_of_each,
    traffic_of,
)
from unslow.look.bench.trials.server_work import (
    Decoding,
    RequestedSampling,
    TaskPrompt,
    Work,
    parse_asked,
    parse_prompts,
    read_work,
)
from unslow.look.requests import Plan, Target
from unslow.look.system import Answer, LookError

URL = "http://127.0.0.1:8080"
S = f"{URL}/slots"


def decoding(**slots: tuple[int, int]) -> dict[int, Decoding]:
    return {int(name[1:]): Decoding(*values) for name, values in slots.items()}


def looks(*works: Work) -> list[Look]:
    return [Look(float(second), work) for second, work in enumerate(works)]


def at_work(slots: dict[int, Decoding], **more) -> Work:
    return Work(S, len(slots), 0.0, decoding=slots, **more)


def test_traffic_averages_running_and_waiting_requests():
    seen = traffic_of(looks(Work(S, 4, 2), Work(S, 4, 3), Work(S, 1, 0)))
    assert (seen.running, seen.looks, seen.seconds) == (3, 3, 2)
    assert seen.waiting == pytest.approx(5 / 3)
    assert seen.counts_waiting
    assert isinstance(seen.preemptions, Unknown)


def test_a_server_without_a_queue_counter_is_marked_as_such():
    seen = traffic_of(looks(Work(S, 4, None), Work(S, 4, None)))
    assert (seen.waiting, seen.counts_waiting) == (0, False)


def test_traffic_adds_decoded_tokens_over_all_slots():
    seen = traffic_of(
        looks(
            at_work(decoding(s0=(7, 10), s1=(8, 100))),
            at_work(decoding(s0=(7, 30), s1=(9, 5))),
            at_work(decoding(s0=(7, 50))),
        )
    )
    assert seen.tokens_per_s.need() == (20 + 5 + 20) / 2


def test_traffic_uses_counter_growth_and_gauge_maximum():
    first = Work(S, 8, 4, tokens=100, preemptions=3, cache_used=0.5)
    seen = traffic_of(
        looks(
            first, first._replace(tokens=300, preemptions=5, cache_used=0.9), first._replace(tokens=500, preemptions=5)
        )
    )
    assert (seen.tokens_per_s.need(), seen.preemptions.need(), seen.cache_used.need()) == (200, 2, 0.9)


def test_model_loads_during_traffic_are_counted():
    one, two = frozenset({"a 4096"}), frozenset({"a 8192"})
    seen = traffic_of(looks(*(Work(S, 1, 0, loaded=loaded) for loaded in (one, one, two, one))))
    assert seen.loads.need() == 2


def test_the_most_common_sampling_options_are_reported():
    asked = (RequestedSampling(0, None, 3), RequestedSampling(40, None, 0), RequestedSampling(0, None, 3))
    seen = traffic_of(looks(Work(S, 3, 0, asked=asked), Work(S, 0, 0)))
    assert (seen.top_k.need(), seen.logprobs.need()) == (0, 3)
    assert isinstance(seen.grammar, Unknown)


def test_speed_alone_excludes_prefill_and_shared_intervals():
    alone = looks(
        at_work(decoding(s0=(7, 0))),  # the prompt is still being read
        at_work(decoding(s0=(7, 10))),
        at_work(decoding(s0=(7, 40))),
        at_work(decoding(s0=(7, 70))),
        at_work(decoding(s0=(7, 80), s1=(8, 1))),
    )
    assert speed_alone(alone, S).need() == 30
    assert "several" in speed_alone(alone[-1:] * 3, S).why
    assert isinstance(speed_alone(looks(Work(S, 1, 0), Work(S, 1, 0)), S), Unknown)


@pytest.mark.parametrize("params", [None, 3, [], {}, {"top_k": "x", "grammar": 3, "n_probs": -1}, {"top_k": 2**70}])
def test_garbage_sampling_parameters_are_ignored(params):
    assert parse_asked(params) == RequestedSampling()


def server(slots, metrics=None) -> FakeSystem:
    http = {f"GET {S}": Answer(200, json.dumps(slots).encode())}
    if metrics is not None:
        http[f"GET {URL}/metrics"] = Answer(200, metrics.encode())
    return FakeSystem(http=http)


BUSY = {
    "id": 0,
    "is_processing": True,
    "id_task": 7,
    "params": {"top_k": 0, "n_probs": 5},
    "next_token": [{"n_decoded": 9}],
}
IDLE = {"id": 1, "is_processing": False}


def test_a_free_llama_server_slot_means_nothing_waits():
    door = server([BUSY, IDLE])
    work = read_work(door, Target(URL))
    assert (work.running, work.waiting, work.asked) == (1, 0, (RequestedSampling(0, None, 5),))
    assert [asked for asked, _ in door.sent] == [f"GET {S}"]


def test_with_all_slots_busy_waiting_comes_from_metrics():
    assert read_work(server([BUSY], "llamacpp:requests_deferred 3\n"), Target(URL)).waiting == 3
    assert read_work(server([BUSY]), Target(URL)).waiting is None


def test_without_slots_llama_server_metrics_give_running_and_waiting():
    text = "llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\n"
    door = FakeSystem(http={f"GET {S}": Answer(501, b"{}"), f"GET {URL}/metrics": Answer(200, text.encode())})
    assert read_work(door, Target(URL))[1:3] == (2, 1)


def test_ollama_traffic_is_read_from_its_llama_server_child():
    ps = {"models": [{"name": "a", "digest": "d" * 64, "context_length": 4096}]}
    door = FakeSystem(
        http={
            f"GET {URL}/api/ps": Answer(200, json.dumps(ps).encode()),
            "GET http://127.0.0.1:40123/slots": Answer(200, json.dumps([BUSY]).encode()),
        },
        files={"/proc/7/cmdline": "/usr/lib/ollama/llama-server\0--model\0x\0--port\0" + "40123\0"},
    )
    work = read_work(door, Target(URL, pid=7, runtime="Ollama"))
    assert (work.running, len(work.loaded)) == (1, 1)
    assert read_work(door, Target(URL, runtime="Ollama")).running is None


def test_traffic_is_not_supported_on_runtimes_without_counters():
    run = perform_traffic(FakeSystem(), Target(URL, runtime="LM Studio"), Plan(), lambda *_: None)
    assert run.traffic.absence is Absence.NOT_SUPPORTED


def test_traffic_up_to_the_death_of_a_server_is_kept():
    class Mortal(FakeSystem):
        def request(self, method, url, body=None, headers=None, timeout_s=0):
            if len(self.sent) > 3:
                raise LookError("gone")
            return super().request(method, url, body, headers, timeout_s)

    run = perform_traffic(Mortal(http=server([BUSY, IDLE]).http), Target(URL), Plan(watch_s=60.0), lambda *_: None)
    assert isinstance(run.traffic, Known)
    assert run.traffic.need().looks == 4


def test_cached_prompt_tokens_of_other_requests_are_reported():
    one = TaskPrompt(slot=0, task=7, tokens=300, cached_tokens=0)
    grown, brief = one._replace(tokens=552), TaskPrompt(slot=1, task=8, tokens=900, cached_tokens=0)
    works = [at_work({}, prompts=prompts) for prompts in ((one,), (grown,), (brief,))]
    seen = traffic_of(looks(*works)).prompts.need()
    assert [(p.tokens, p.cached_tokens) for p in seen] == [(552, 0)], "one look alone may show the prompt before"
    assert isinstance(traffic_of(looks(Work(S, 1), Work(S, 1))).prompts, Unknown)


@pytest.mark.parametrize("bad", [{"id_task": None}, {"n_prompt_tokens": -1}, {"n_prompt_tokens_cache": True}])
def test_prompt_tokens_of_a_slot_exclude_decoded_tokens(bad):
    counts = {"id": 1, "id_task": 7, "n_prompt_tokens": 560, "n_prompt_tokens_cache": 12}
    slot = counts | {"next_token": [{"n_decoded": 8}]}
    assert parse_prompts([slot]) == (TaskPrompt(slot=1, task=7, tokens=552, cached_tokens=12),)
    assert parse_prompts([slot | bad]) == ()


def test_speed_of_each_uses_intervals_with_an_unchanged_set_of_tasks():
    two = [at_work(decoding(_0=(7, 10 + 40 * s), _1=(8, 5 + 30 * s))) for s in range(3)]
    comes = at_work(decoding(_0=(7, 200), _1=(8, 100), _2=(9, 0)))
    three = at_work(decoding(_0=(7, 230), _1=(8, 130), _2=(9, 30)))
    each = speed_of_each(looks(*two, comes, three))  # the third one came, and its prompt was read at the next look
    assert each.speed.value == pytest.approx(35.0)
    assert each.among == 2
    assert isinstance(speed_of_each(looks(at_work(decoding(_0=(7, 1))), at_work(decoding(_0=(8, 40))))).speed, Unknown)


def test_speed_of_each_from_counters_needs_a_constant_running_count():
    works = [
        Work("/metrics", running, 0.0, tokens=tokens) for running, tokens in ((4, 0), (4, 200), (5, 400), (4, 600))
    ]
    each = speed_of_each(looks(*works))
    assert each.speed.value == pytest.approx(50.0)
    assert each.among == 4
    assert isinstance(speed_of_each(looks(*works[1:])).speed, Unknown)


def test_prompts_beside_the_speed_of_each_are_those_of_the_same_intervals():
    counts = ((4, 0, 0), (4, 200, 100), (8, 300, 9000), (8, 900, 9000))
    works = [Work("/metrics", running, 0.0, tokens=made, prompt_tokens=read) for running, made, read in counts]
    each = speed_of_each(looks(*works))
    assert each.prompts.value == pytest.approx(50.0)  # the wave of prompts came while the number of requests changed
    assert isinstance(speed_of_each(looks(*[w._replace(prompt_tokens=None) for w in works])).prompts, Unknown)


def test_vllm_computed_prompt_tokens_exclude_prefix_cache_hits():
    rows = 'vllm:num_requests_running{{e="0"}} 4\nvllm:num_requests_waiting{{e="0"}} 0\n'
    rows += 'vllm:prompt_tokens_total{{e="0"}} {0}\nvllm:prefix_cache_hits_total{{e="0"}} {1}\n'
    works = []
    for counts in ((1000, 200), (5000, 1200)):
        text = Answer(200, rows.format(*counts).encode())
        works.append(read_work(FakeSystem(http={f"GET {URL}/metrics": text}), Target(url=URL, runtime="vLLM")))
    assert [work.prompt_tokens for work in works] == [800, 3800]
    assert traffic_of(looks(*works)).prompt_tokens_per_s.need() == 3000
    assert isinstance(traffic_of(looks(Work(S, 1), Work(S, 1))).prompt_tokens_per_s, Unknown)


@pytest.mark.parametrize("number", [[], {}, "0", None])
def test_a_slot_without_a_valid_id_is_ignored(number):
    work = read_work(server([{**BUSY, "id": number}, IDLE]), Target(URL))
    assert (work.running, work.asked, work.decoding) == (0, (), {})


def test_a_queue_is_timed_by_the_requests_that_ended_while_it_was_watched():
    def look(at_s, queued, queued_s):
        return Look(at_s, Work("/metrics", 4.0, 2.0, queued=queued, queued_s=queued_s))

    assert queue_s_of([look(0.0, 100, 900.0), look(6.0, 110, 905.0)], "2 looks").need() == 0.5
    assert queue_s_of([look(0.0, 100, 900.0), look(6.0, 100, 900.0)], "2 looks") == NOT_LOOKED
    assert queue_s_of([look(0.0, None, None), look(6.0, None, None)], "2 looks") == NOT_LOOKED


def test_the_depth_of_answers_is_what_the_cache_holds_for_each_or_what_those_that_ended_had_asked():
    def look(at_s, running, held, ended=(None, None)):
        prompts = {"ended": ended[0], "ended_prompt_tokens": ended[1]}
        return Look(at_s, Work("/metrics", running, held_tokens=held, **prompts))

    assert depth_of_answers([look(0.0, 1.0, 30_000.0), look(6.0, 1.0, 30_400.0)], "2 looks").need() == 30_200
    assert depth_of_answers([look(0.0, 8.0, 8000.0), look(6.0, 8.0, 8000.0)], "2 looks").need() == 1000
    shared = [look(0.0, 8.0, 8000.0, (10.0, 5e4)), look(6.0, 8.0, 8000.0, (14.0, 7.4e4))]
    assert depth_of_answers(shared, "2 looks").need() == 6000, "a prefix that all share is held once"
    assert isinstance(depth_of_answers([look(0.0, 0.0, 0.0), look(6.0, 0.0, 0.0)], "2 looks"), Unknown)
    assert isinstance(depth_of_answers([look(0.0, 2.0, None), look(6.0, 2.0, None)], "2 looks"), Unknown)


def test_vllm_tells_what_its_cache_holds_by_its_size_and_the_share_in_use():
    text = """vllm:num_requests_running{engine="0"} 2.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:cache_config_info{block_size="16",num_gpu_blocks="1000"} 1.0
vllm:request_prompt_tokens_count{engine="0"} 5.0
vllm:request_prompt_tokens_sum{engine="0"} 2500.0
"""
    system = FakeSystem(http={f"GET {URL}/metrics": Answer(200, text.encode())})
    work = read_work(system, Target(URL, runtime="vLLM"))
    assert (work.held_tokens, work.ended, work.ended_prompt_tokens) == (4000.0, 5.0, 2500.0)
    unsized = Answer(200, text.replace("vllm:cache_config_info", "vllm:x").encode())
    assert read_work(FakeSystem(http={f"GET {URL}/metrics": unsized}), Target(URL, runtime="vLLM")).held_tokens is None
