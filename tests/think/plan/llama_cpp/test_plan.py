"""Whole plans: recommendations meet their floors and say what they cost."""

from itertools import pairwise

import pytest
from tests.think.plan.llama_cpp import planning

from unslow.think.hardware import Hardware
from unslow.think.memo import one_judgement
from unslow.think.plan.goal import Goal, Work
from unslow.think.plan.llama_cpp.options import name_of
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.placing import Placing
from unslow.think.plan.llama_cpp.plan import plan_llama_cpp
from unslow.think.plan.llama_cpp.points import Points, fits_whole
from unslow.think.plan.llama_cpp.question import EVERYTHING, Abilities, Draft, LlamaPlanQuestion, Variant
from unslow.think.plan.pareto_front import FrontAndChoice
from unslow.think.plan.report import OptionShown

MODEL, PARAMETERS = "llama-3.1-8b", 8_030_000_000
MARGIN_BYTES = 256 * 2**20


def variant(quant: str, *, given: bool = False, at_hand: bool = False) -> Variant:
    pieces = Pieces(planning.blueprint(MODEL, quant))
    return Variant(quant, pieces, PARAMETERS, given=given, at_hand=given or at_hand)


GIVEN = variant("Q4_K_M", given=True)
FINER = variant("Q6_K", at_hand=True)
COARSER = variant("Q3_K_M")


def planned(
    machine: Hardware, goal: Goal, variants: tuple[Variant, ...] = (GIVEN,), abilities: Abilities = EVERYTHING
) -> FrontAndChoice:
    with one_judgement():
        return plan_llama_cpp(LlamaPlanQuestion(variants, machine, goal, MARGIN_BYTES, 8, abilities), (), 8)


def best(found: FrontAndChoice) -> OptionShown:
    assert found.recommended is not None, found.reason
    return found.options[found.recommended]


def knobs(option: OptionShown) -> dict[str, object]:
    return {change.knob: change.value for change in option.settings}


def test_model_that_fits_sets_only_context_and_slot() -> None:
    found = planned(planning.hardware(24), Goal(8192, Work(512)))
    now = found.current
    assert knobs(best(found)) == {"context_length": 8192, "parallel": 1}
    assert best(found).speedup == pytest.approx(1.0, abs=0.01)
    assert now


def test_q8_0_cache_and_small_margin_beat_the_automatic_fit() -> None:
    found = planned(planning.hardware(6), Goal(16384, Work(512)))
    now = found.current
    option = best(found)
    assert knobs(option)["kv_cache_type"] == "q8_0"
    assert knobs(option)["fit"] is False
    assert option.speedup is not None
    assert option.speedup > 1.5
    assert min(device.free_bytes or 0 for device in option.devices) >= MARGIN_BYTES
    assert now
    assert now.name.startswith("llama.cpp default")


def test_cache_stays_on_the_gpu_though_a_short_prompt_would_be_faster() -> None:
    found = planned(planning.hardware(5), Goal(16384, Work(32, 0, 64)))
    assert "kv_offload" not in knobs(best(found))
    said = [r.because for r in found.rejected if "-nkvo" in r.what]
    assert said
    assert "tokens of depth" in said[0]


@pytest.mark.no_cover  # whole plans, as others here are
def test_equal_quality_is_kept_unless_a_floor_allows_less() -> None:
    strict = planned(planning.hardware(5), Goal(16384, Work(512)), (FINER, GIVEN, COARSER))
    loose = planned(
        planning.hardware(5), Goal(16384, Work(512), worst_perplexity_increase=0.5), (FINER, GIVEN, COARSER)
    )
    assert best(strict).quant == "Q4_K_M"
    assert knobs(best(strict))["kv_cache_type"] == "q8_0"
    assert best(loose).quant == "Q4_K_M"  # Q3_K_M is on no disk
    assert knobs(best(loose))["kv_cache_type"] == "q4_0"
    assert any(option.quant == "Q3_K_M" for option in strict.options)


def test_longest_context_at_a_speed_floor_is_found() -> None:
    goal = Goal(4096, Work(512), "context", least_tokens_per_s=40)
    small = planned(planning.hardware(7), goal)
    large = planned(planning.hardware(12), goal)
    assert best(large).context > best(small).context > 4096
    speed = best(small).speed
    assert speed
    assert speed.decode_tokens_per_s.mid >= 40


def test_best_quality_at_a_speed_floor_is_found() -> None:
    goal = Goal(8192, Work(512), "quality", least_tokens_per_s=20)
    found = planned(planning.hardware(12), goal, (FINER, GIVEN))
    assert best(found).quant == "Q6_K"
    quick = planned(planning.hardware(12), goal._replace(least_tokens_per_s=140), (FINER, GIVEN))
    assert best(quick).quant == "Q4_K_M"


def test_quality_aim_may_take_a_smaller_quant_to_meet_the_speed_floor() -> None:
    goal, coarser = Goal(8192, Work(512), "quality", least_tokens_per_s=60), COARSER._replace(at_hand=True)
    found = planned(planning.hardware(4.5), goal, (GIVEN, coarser))
    assert best(found).quant == "Q3_K_M"
    assert any("Q3_K_M: +10.5" in cost for cost in best(found).costs)
    none = planned(planning.hardware(4.5), goal._replace(aim="speed"), (GIVEN, coarser))
    assert none.recommended is None
    assert "--worst-perplexity 10." in none.hint


def test_longer_context_keeps_f16_cache_where_it_fits() -> None:
    roomy = planned(planning.hardware(24), Goal(8192, Work(512)))
    tight = planned(planning.hardware(6.2), Goal(8192, Work(512)))
    for found, cache in ((roomy, "f16"), (tight, "q8_0")):
        longest = max(found.options, key=lambda option: option.context)
        assert longest.context > 8192
        assert f"cache {cache}" in longest.name


def test_first_quant_that_fits_entirely_is_on_the_front() -> None:
    goal, machine = Goal(8192, Work(512)), planning.hardware(3.6)
    small = variant("IQ2_XS")._replace(whole=True)
    assert [fits_whole(v.blueprint, machine, goal, MARGIN_BYTES) for v in (GIVEN, COARSER, small)] == [
        False,
        False,
        True,
    ]
    assert not fits_whole(small.blueprint, machine._replace(rooms=(), chips=()), goal, MARGIN_BYTES)
    others = (COARSER, variant("Q2_K"), small)
    found = planned(machine, goal, (GIVEN, *others))
    assert any(option.quant == "IQ2_XS" and "all on the GPU" in option.name for option in found.options)


def test_speed_floor_at_full_context_is_noted(wording) -> None:
    found = planned(planning.hardware(8), Goal(4096, Work(512), "context", least_tokens_per_s=40))
    wording(found.notes, tells="40 tok/s")


def test_options_on_the_front_have_distinct_names() -> None:
    found = planned(planning.hardware(12, gpus=2), Goal(8192, Work(512)))
    names = [option.name for option in found.options]
    assert len(names) == len(set(names))
    assert not any("Q4_K_M" in other.what and "f16" in other.what for other in found.rejected)


def test_missing_plan_gives_the_reason(wording) -> None:
    none = planned(planning.hardware(1, host_gib=1), Goal(8192, Work(512)))
    assert none.recommended is None
    wording(none.reason, tells="1.0 GiB")
    bare = planning.hardware(1, host_gib=1)._replace(rooms=(), chips=())
    wording(planned(bare, Goal(8192, Work(512))).reason, tells="1.0 GiB")
    slow = planned(planning.hardware(4), Goal(8192, Work(512), least_tokens_per_s=1000))
    assert slow.recommended is None
    assert "the fastest gives" in slow.reason
    poor = planned(planning.hardware(8), Goal(8192, Work(512), worst_perplexity_increase=0.0))
    assert poor.recommended is None
    assert "quality" in poor.reason


def test_runtime_without_overrides_gets_whole_layers() -> None:
    only = Abilities(apart=False, cache_on_host=False, micro_batches=(512,))
    found = planned(planning.hardware(5), Goal(16384, Work(4096)), abilities=only)
    assert not {"tensor_override", "experts_on_cpu", "kv_offload", "batch"} & set(knobs(best(found)))
    assert 0 < int(str(knobs(best(found))["gpu_layers"])) < 33


def test_several_gpus_share_the_layers() -> None:
    found = planned(planning.hardware(3.2, gpus=2), Goal(8192, Work(512)))
    split = str(knobs(best(found))["tensor_split"]).split(",")
    assert sum(map(int, split)) == 33
    assert all(device.fits for device in best(found).devices)


def test_without_a_gpu_the_cpu_is_planned() -> None:
    machine = planning.hardware(4)._replace(rooms=(), chips=())
    found = planned(machine, Goal(4096, Work(512)))
    assert "on the CPU" in best(found).name
    assert any("fewer threads" in r.what for r in found.rejected)


@pytest.mark.no_cover  # whole plans, as others here are
@pytest.mark.parametrize("prompt", [32, 4096])
def test_more_memory_never_gives_a_slower_plan(prompt: int) -> None:
    seconds = []
    for gib in (3, 4, 6, 8):
        speed = best(planned(planning.hardware(gib), Goal(16384, Work(prompt, 0, 64)))).speed
        assert speed
        seconds.append(speed.request_s.mid)
    assert all(later <= earlier * 1.03 for earlier, later in pairwise(seconds))


def test_draft_model_is_an_option_but_never_recommended(wording) -> None:
    draft = Draft("small", Pieces(planning.blueprint("llama-3.2-1b")), "/models/small.gguf")
    question = LlamaPlanQuestion((GIVEN,), planning.hardware(24), Goal(8192, Work(512)), MARGIN_BYTES, 8, draft=draft)
    with one_judgement():
        found = plan_llama_cpp(question, (), 8)
    last = found.options[-1]
    assert knobs(last)["speculative"] == "/models/small.gguf"
    wording(last.risk, tells="70%")
    wording(found.notes, tells="70%")
    assert found.recommended != len(found.options) - 1
    assert last.speed
    assert last.speed.decode_tokens_per_s.mid > 0


def test_model_that_fits_one_gpu_is_not_split() -> None:
    found = planned(planning.hardware(12, gpus=2), Goal(8192, Work(32, 0, 512)))
    assert knobs(best(found)) == {"context_length": 8192, "parallel": 1, "split_mode": "none", "main_gpu": 0}
    assert sum(1 for device in best(found).devices if device.total_bytes) == 1
    assert any("-sm row" in r.what for r in planned(planning.hardware(4, gpus=2), Goal(8192, Work(512))).rejected)


def test_layer_count_is_singular_for_one_layer() -> None:
    given = Variant("Q4_K_M", Pieces(planning.blueprint()), 135_000_000, given=True, at_hand=True)
    question = LlamaPlanQuestion((given,), planning.hardware(24), Goal(4096, Work(512)), MARGIN_BYTES, 8)
    with one_judgement():
        point = Points(question).at(given, "F16", "F16", 4096)
    assert point
    for placing, words in ((Placing(1), "1 layer"), (Placing(2, 1), "2 layers and the feed-forward of 1 layer")):
        assert f", {words} on the CPU" in name_of(point._replace(found=point.found._replace(placing=placing)))


def test_several_users_show_speed_each_and_combined() -> None:
    found = planned(planning.hardware(24), Goal(4096, Work(512, users=4)))
    speed = best(found).speed
    assert speed
    assert speed.together_tokens_per_s == pytest.approx(4 * speed.decode_tokens_per_s.mid)
    alone = best(planned(planning.hardware(24), Goal(4096, Work(512)))).speed
    assert alone
    assert alone.together_tokens_per_s is None


def test_micro_batch_closest_to_the_default_wins_among_equals() -> None:
    goal = Goal(8192, Work(4096, 0, 64), alone=True)
    points = Points(LlamaPlanQuestion((GIVEN,), planning.hardware(6.5), goal, MARGIN_BYTES, 8))
    with one_judgement():
        taken = points.at(GIVEN, "F16", "F16", 8192)
        base = points.base(8192)
        takes_s = {size: points.new_search(GIVEN).best(base, (size,)) for size in EVERYTHING.micro_batches}
    assert taken
    seconds = {size: found.price.request_s for size, found in takes_s.items() if found}
    assert min(seconds, key=seconds.__getitem__) == 4096
    nearly = [size for size in (512, 1024, 2048, 4096) if seconds[size] <= 1.03 * seconds[4096]]
    assert taken.found.settings.micro_batch == nearly[0] == 2048
