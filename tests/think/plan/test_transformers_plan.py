"""Plans for Transformers: against H200 recordings, and properties that hold for any question."""

from typing import Any

import pytest

from unslow.catalog.device_names import find_written
from unslow.catalog.weight_parts import parts_of_shape, plain_storage
from unslow.commands._hardware import named_room
from unslow.facts.model import HfShape
from unslow.facts.values import GIB
from unslow.think.hardware import Hardware, Room
from unslow.think.memory.transformers import transformers_memory
from unslow.think.plan.pareto_front import FrontAndChoice, goal_rank
from unslow.think.plan.report import GoalShown, OptionShown
from unslow.think.plan.transformers import (
    Choice,
    Point,
    TransformersPlanQuestion,
    choices,
    laid_out,
    longest_fitting,
    priced_point,
    transformers_options,
)

RECORDED = HfShape(
    layers=32, width=4096, vocabulary=32000, heads=64, kv_heads=16, key_length=64, value_length=64, feed_forward=11264,
    positions=2048,
)  # fmt: skip
"""The model of the recordings h200_transformers_8b_eager and h200_transformers_8b_static."""
LLAMA_8B = HfShape(
    layers=32, width=4096, vocabulary=128256, heads=32, kv_heads=8, key_length=128, value_length=128,
    feed_forward=14336, positions=131072,
)  # fmt: skip
EAGER = Choice("bfloat16", "sdpa", "dynamic", "cuda:0")


def question(
    device: str = "RTX 4090", shape: HfShape = LLAMA_8B, cards: int = 1, **changes: Any
) -> TransformersPlanQuestion:
    usual = {
        "aim": "speed", "context": 4096, "prompt_tokens": 512, "kept_tokens": 0, "answer_tokens": 128, "users": 1
    }  # fmt: skip
    of_goal = {name: changes.pop(name) for name in GoalShown.__struct_fields__ if name in changes}
    found = find_written(device)
    assert found is not None
    parts = tuple(parts_of_shape(shape, plain_storage(2)))
    rooms = (named_room(device),) * cards
    asked = TransformersPlanQuestion(
        shape, parts, "BF16", "f16", Hardware(rooms, devices=(found,) * cards), GoalShown(**{**usual, **of_goal})
    )
    return asked._replace(**changes)


def priced_points(asked: TransformersPlanQuestion) -> list[Point]:
    return [point for choice in choices(asked) if (point := priced_point(asked, choice))]


def best(planned: FrontAndChoice) -> OptionShown:
    assert planned.recommended is not None
    return planned.options[planned.recommended]


def knobs(option: OptionShown) -> dict[str, object]:
    return {change.knob: change.value for change in option.changes}


def test_compiled_speedup_matches_the_recording() -> None:
    asked = question("H200", RECORDED, context=512, prompt_tokens=64, answer_tokens=64, current=EAGER)
    found = transformers_options(asked)
    option = best(found)
    assert found.current
    assert found.current.speed
    assert option.speed
    now, then = found.current.speed.decode_tokens_per_s, option.speed.decode_tokens_per_s
    assert now.low < 63 / 1.688 < now.high  # the fourth call of the eager recording
    assert then.mid == pytest.approx(63 / 0.4445, rel=0.25)  # the second call of the static one
    assert then.low < 63 / 0.4445 < then.high
    assert knobs(option) == {"cache": "static", "compile": True}
    assert option.speedup == pytest.approx(1.717 / 0.492, rel=0.25)
    assert "40 s" in option.costs[0]
    assert all(other.changes for other in found.options)  # what runs is no option beside itself


def test_float32_is_replaced_by_a_16_bit_type() -> None:
    now = EAGER._replace(dtype="float32")
    option = best(transformers_options(question("H200", current=now)))
    assert knobs(option)["weights_type"] == "bfloat16"
    old = question("RTX 2080 Ti", RECORDED)
    assert {choice.dtype for choice in choices(old)} == {"float16", "float32"}


def test_default_dtype_is_float32_before_version_5() -> None:
    assert question(version=(4, 57)).now.dtype == "float32"
    assert question().now.dtype == "bfloat16"
    assert question(version=(4, 57), packed=True).now.dtype == "bfloat16"


@pytest.mark.no_cover  # many plans through the same lines
def test_no_setting_beats_the_recommendation() -> None:
    for aim in ("speed", "context", "quality"):
        asked = question(aim=aim, context=20_000, prompt_tokens=8000, least_tokens_per_s=5.0)
        points = priced_points(asked)
        option = best(transformers_options(asked))
        chosen = next(p for p in points if p.context == option.context and _named(p.choice, option))
        plain = [p for p in points if p.choice.cache != "quantized" and p.paced.decode.mid >= 5.0]
        assert goal_rank(asked.goal, chosen.worth) == max(goal_rank(asked.goal, p.worth) for p in plain)


def _named(choice: Choice, option: OptionShown) -> bool:
    settings = {change.knob: change.value for change in option.settings}
    return [settings[knob] for knob in ("weights_type", "attention", "cache")] == [*choice[:3]]


@pytest.mark.no_cover  # many plans through the same lines
def test_more_memory_never_gives_less() -> None:
    speeds, contexts = [], []
    for device in ("RTX 4060 Ti 16GB", "RTX 4090", "RTX 5090"):
        room = named_room(device)
        asked = question("RTX 4090")
        asked = asked._replace(hardware=asked.hardware._replace(rooms=(room,)))
        points = priced_points(asked)
        speeds.append(max((p.worth.speed for p in points), default=0.0))
        contexts.append(max((p.context for p in points), default=0))
    assert speeds == sorted(speeds)
    assert contexts == sorted(contexts)


@pytest.mark.no_cover  # many plans through the same lines
def test_more_users_never_make_one_of_them_faster() -> None:
    rates = []
    for users in (1, 2, 8):
        option = best(transformers_options(question("H200", users=users)))
        assert option.speed
        rates.append((option.speed.decode_tokens_per_s.mid, -option.speed.request_s.mid))
    assert rates == sorted(rates, reverse=True)


def test_plain_caches_match_the_memory_model() -> None:
    asked = question(users=2)
    for cache in ("dynamic", "static"):
        choice = EAGER._replace(cache=cache)
        laid = laid_out(asked, choice, 3000)
        whole = transformers_memory(
            asked.shape, asked.parts, asked.settings(choice, 3000), [asked.hardware.rooms[0].usable_bytes]
        )
        assert laid.devices == whole.devices


def test_smaller_caches_hold_longer_contexts_and_cost_time() -> None:
    asked = question()
    plain, packed, away = (
        longest_fitting(asked, EAGER._replace(cache=c)) for c in ("dynamic", "quantized", "offloaded")
    )
    assert plain < packed
    assert plain < away
    points = {p.choice: p for p in priced_points(asked)}
    seconds = [points[EAGER._replace(cache=c)].paced.request_s.mid for c in ("static", "dynamic", "quantized")]
    assert seconds == sorted(seconds)
    deep = {p.choice: p for p in priced_points(question(context=12_000, prompt_tokens=10_000))}
    assert deep[EAGER._replace(cache="offloaded")].paced.decode.mid < 0.5 * deep[EAGER].paced.decode.mid
    held = laid_out(asked, EAGER._replace(cache="offloaded"), 4096)
    assert held.host.kv_bytes > 10 * held.devices[0].kv_bytes


def test_spilled_weights_are_priced_and_not_compiled() -> None:
    asked = question("RTX 4090", cards=1, context=600, prompt_tokens=64, answer_tokens=32)
    half = asked.hardware.rooms[0]._replace(others_bytes=8 * GIB)
    asked = asked._replace(hardware=asked.hardware._replace(rooms=(half,), host_room=Room("host", 64 * GIB)))
    spread = EAGER._replace(device_map="auto")
    laid = laid_out(asked, spread, 600)
    assert laid.spilled_bytes > GIB
    found = [p for p in priced_points(asked) if p.laid.spilled_bytes]
    assert all(not p.choice.is_compiled and p.paced.decode.mid < 20 for p in found)


def test_flash_attention_is_used_where_installed_and_explained_where_not() -> None:
    without = transformers_options(question())
    assert any("flash_attention_2" in r.what for r in without.rejected)
    kinds = {choice.attention for choice in choices(question(has_flash=True))}
    assert "flash_attention_2" in kinds
    assert all(
        c.dtype != "float32" and c.cache != "static"
        for c in choices(question(has_flash=True))
        if "flash" in c.attention
    )
    assert {c.attention for c in choices(question("RTX 2080 Ti", has_flash=True))} == {"sdpa", "eager"}


def test_eager_attention_shortens_the_context_and_is_slower() -> None:
    asked = question(context=16_000, prompt_tokens=12_000)
    assert longest_fitting(asked, EAGER._replace(attention="eager")) < longest_fitting(asked, EAGER) / 2
    points = {p.choice: p for p in priced_points(question())}
    assert points[EAGER._replace(attention="eager")].paced.decode.mid <= points[EAGER].paced.decode.mid


def test_impossible_plan_says_what_is_missing() -> None:
    small = transformers_options(question("RTX 3060"))
    assert small.recommended is None
    assert "GiB" in small.reason
    slow = transformers_options(question(least_tokens_per_s=900.0, aim="context"))
    assert slow.recommended is None
    assert "tok/s" in slow.reason


def test_quantized_cache_needs_a_perplexity_allowance() -> None:
    asked = question(context=80_000, prompt_tokens=2000, worst_perplexity_increase=0.01)
    planned = transformers_options(asked)
    assert all("quantized" not in option.name for option in planned.options)
    kept = question(kept_tokens=1000)
    assert any("reprocesses" in cost for cost in best(transformers_options(kept)).costs)
