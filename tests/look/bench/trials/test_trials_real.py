"""Every trial on a real llama-server with a cached conversation: it is measured, and the conversation stays cached."""

import os
from threading import Timer

import pytest
from real_llama_server import NEEDED, served

from unslow.facts.run import Run
from unslow.facts.values import Known, Unknown
from unslow.look.bench.timing import ask
from unslow.look.bench.trials import trials
from unslow.look.engine.made_up_models import ModelCache
from unslow.look.requests import Plan, Question, Target
from unslow.look.runtimes.llama_cpp.bench import read_free_slots
from unslow.look.system.live import LiveSystem

pytestmark = NEEDED
SYSTEM = LiveSystem()
TALK = "A long talk about cheese and other things. " * 12
PLAN = Plan(1.0, seconds=10.0, watch_s=1.0)
FACTS = {"depth": "depths", "speed": "decode_tokens_per_s", "host": "others_cpus"}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return os.environ.get("UNSLOW_MODEL") or str(ModelCache(tmp_path_factory.mktemp("cache")).model("tiny"))


def perform(name: str, target: Target, **plan) -> Run:
    free = read_free_slots(target.server(SYSTEM)).unused
    return trials()[name](SYSTEM, target, PLAN._replace(slot=free[-1], slots=free, **plan), lambda *_: None)


def fact_of(name: str, run: Run):
    return getattr(run, FACTS.get(name, name))


@pytest.mark.parametrize(
    ("arguments", "shared"),
    [
        (("-np", "4", "-c", "16384"), False),
        (("-c", "8192"), True),
        (("-c", "8192", "--no-cache-idle-slots"), True),
        (("-np", "4", "-c", "4096", "--cache-ram", "0", "-kvu"), True),
        (("-np", "2", "-c", "2048", "--cache-ram", "0"), False),
    ],
    ids=["apart", "as it comes", "idle slots stay", "shared, no cache in RAM", "small"],
)
def test_trials_keep_a_cached_conversation_in_the_server(model, arguments, shared):
    with served(model, *arguments) as (target, _):
        first = ask(SYSTEM, target, Question(TALK, 16, keep=True))
        SYSTEM.request("POST", f"{target.url}/completion", {"prompt": TALK, "n_predict": 16}, timeout_s=60.0)
        runs = {name: perform(name, target, shared=shared) for name in trials()}
        again = ask(SYSTEM, target, Question(TALK + "And now?", 2, keep=True))
    assert again.cached_tokens > 0.9 * (first.prompt_tokens + first.cached_tokens), again
    told = [name for name, run in runs.items() if isinstance(fact_of(name, run), Known)]
    assert {"speed", "long_prompt", "plain_sampling", "routes", "traffic", "host"} <= set(told), runs


def test_the_api_key_is_sent_and_a_wrong_one_gives_the_401(model):
    with served(model, "-c", "4096", key="sk-unslow-test-0123456789") as (target, _):
        assert isinstance(perform("long_prompt", target).long_prompt, Known)
        wrong = trials()["long_prompt"](SYSTEM, target._replace(api_key="sk-wrong"), PLAN, lambda *_: None)
    assert "401" in wrong.long_prompt.why


@pytest.mark.parametrize(("arguments", "is_kept"), [((), True), (("--no-cache-prompt",), False)])
def test_turns_reuse_the_prompt_cache_only_if_it_is_enabled(model, arguments, is_kept):
    with served(model, "-c", "4096", "-np", "1", *arguments) as (target, _):
        _, second, third = perform("turns", target).turns.need()
    assert (second.computed_tokens < second.prompt_tokens / 2) == is_kept
    assert (third.computed_tokens < third.prompt_tokens / 2) == is_kept


@pytest.mark.parametrize("name", ["speed", "long_prompt", "at_once", "turns", "traffic"])
def test_a_server_killed_during_a_trial_gives_a_fact_or_a_reason(model, name):
    with served(model, "-c", "8192", "-np", "4") as (target, server):
        Timer(0.3, server.kill).start()
        run = perform(name, target, seconds_per_completion=20.0, watch_s=2.0)
    fact = fact_of(name, run)
    assert isinstance(fact, Known) or (isinstance(fact, Unknown) and fact.why)
