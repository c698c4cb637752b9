"""Replies of a real llama-server match its own counters and timings."""

import os

import pytest
from real_llama_server import NEEDED, served

from unslow.look.bench.prompts import Prompts
from unslow.look.bench.timing import ask
from unslow.look.engine.made_up_models import ModelCache
from unslow.look.requests import AskError, Question, Target
from unslow.look.server_answers import parse_metrics
from unslow.look.system.live import LiveSystem

pytestmark = NEEDED
SYSTEM = LiveSystem()


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    model = os.environ.get("UNSLOW_MODEL") or str(ModelCache(tmp_path_factory.mktemp("cache")).model("llama_135m"))
    with served(model, "-c", "4096", "-np", "1", "--metrics") as (target, _):
        yield target


def counted(target: Target) -> dict[str, float]:
    text = SYSTEM.request("GET", f"{target.url}/metrics").body.decode()
    metrics = parse_metrics(text, "/metrics", "llamacpp:")
    names = ("prompt_tokens_total", "prompt_seconds_total", "tokens_predicted_total", "tokens_predicted_seconds_total")
    return {name: metrics.total(f"llamacpp:{name}").need() for name in names}


@pytest.mark.parametrize("question", [{}, {"greedy": True}, {"stream": False}], ids=str)
def test_token_counts_and_times_match_llama_server_metrics(target, question):
    prompt, before = Prompts(SYSTEM, target).prompt(256), counted(target)
    reply = ask(SYSTEM, target, Question(prompt, 48, **question))
    after = counted(target)
    delta = {name: after[name] - before[name] for name in after}
    assert (reply.prompt_tokens, reply.generated_tokens) == (
        delta["prompt_tokens_total"],
        delta["tokens_predicted_total"],
    )
    assert reply.generated_tokens == 48
    assert reply.server_prefill_s == pytest.approx(delta["prompt_seconds_total"], rel=0.01, abs=0.002)
    assert reply.server_decode_s == pytest.approx(delta["tokens_predicted_seconds_total"], rel=0.01, abs=0.002)


def test_each_token_is_one_chunk_and_client_times_match_the_server(target):
    reply = ask(SYSTEM, target, Question(Prompts(SYSTEM, target).prompt(0), 64))
    assert len(reply.arrivals_s) == reply.generated_tokens == 64
    assert reply.arrivals_s[-1] - reply.arrivals_s[0] == pytest.approx(reply.server_decode_s, rel=0.1, abs=0.05)
    assert reply.arrivals_s[0] >= reply.server_prefill_s


@pytest.mark.parametrize("tokens", [8, 64, 300, 1500])
def test_real_prompts_are_within_two_tokens_of_the_requested_length(target, tokens):
    reply = ask(SYSTEM, target, Question(Prompts(SYSTEM, target).prompt(tokens), 1))
    assert reply.prompt_tokens == pytest.approx(tokens, abs=2)


def test_the_prompt_cache_is_used_only_with_keep(target):
    prompt = Prompts(SYSTEM, target).prompt(200)
    first = ask(SYSTEM, target, Question(prompt, 2, keep=True))
    again = ask(SYSTEM, target, Question(prompt, 2, keep=True))
    anew = ask(SYSTEM, target, Question(prompt, 2))
    assert first.prompt_tokens == anew.prompt_tokens == again.prompt_tokens + again.cached_tokens
    assert again.prompt_tokens <= 2
    assert anew.cached_tokens == 0


def test_a_prompt_beyond_the_context_is_an_error_and_the_server_survives(target):
    with pytest.raises(AskError) as caught:
        ask(SYSTEM, target, Question(Prompts(SYSTEM, target).prompt(6000), 2))
    assert caught.value.kind == "error"
    assert ask(SYSTEM, target, Question("hello", 2)).generated_tokens == 2
