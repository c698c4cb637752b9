"""Candidates around a plan: the llama.cpp default first, no duplicates, and nothing that exceeds memory."""

from functools import cache

import msgspec
import pytest
from tests.think.plan.llama_cpp import planning

from unslow.facts.knob import Knob
from unslow.think.hardware import Hardware
from unslow.think.memo import one_judgement
from unslow.think.plan.goal import Goal, Work
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.plan import plan_llama_cpp
from unslow.think.plan.llama_cpp.question import LlamaPlanQuestion, Variant
from unslow.think.plan.report import ChangeShown, OptionShown, PlanReport
from unslow.think.stats.tuning_candidates import (
    MOST,
    Around,
    Candidate,
    Candidates,
    Hand,
    as_settings,
    candidates_of,
    full_bytes,
    layers_apart,
    moves_around,
    steps_around,
)

MODEL, PARAMETERS, MARGIN_BYTES, MUCH = "llama-3.1-8b", 8_030_000_000, 256 * 2**20, 2**40
PIECES = Pieces(planning.blueprint(MODEL))
HAND = Hand(PIECES, "Q4_K_M", PARAMETERS, cores=8, logical=16)
SPARSE = Pieces(planning.blueprint("qwen3-30b-a3b"))


def plan_of(machine: Hardware, goal: Goal) -> PlanReport:
    given = Variant("Q4_K_M", PIECES, PARAMETERS, given=True, at_hand=True)
    with one_judgement():
        found = plan_llama_cpp(LlamaPlanQuestion((given,), machine, goal, MARGIN_BYTES, 8), (), 8)
    return PlanReport(
        unslow_version="0", model=MODEL, runtime="llama.cpp", machine="", goal=goal.goal_shown(), verdict="better",
        current=found.current, recommended=found.recommended, options=found.options,
    )  # fmt: skip


@cache
def small() -> PlanReport:
    """For a GPU that is too small."""
    return plan_of(planning.hardware(5), Goal(16384, Work(4096)))


@cache
def large() -> PlanReport:
    """For a GPU that holds it all."""
    return plan_of(planning.hardware(24), Goal(8192, Work(512)))


def best(plan: PlanReport) -> OptionShown:
    assert plan.recommended is not None
    return plan.options[plan.recommended]


def around(
    settings: dict[Knob, object], spare: int = MUCH, hand: Hand = HAND, plan: PlanReport | None = None, **goal: object
) -> Around:
    """Around these settings on a GPU that has so much left beyond its margin."""
    plan = plan or small()
    option = best(plan)
    device = msgspec.structs.replace(option.devices[0], free_bytes=spare + MARGIN_BYTES, margin_bytes=MARGIN_BYTES)
    option = msgspec.structs.replace(option, devices=(device,))
    return Around(settings, msgspec.structs.replace(plan.goal, **goal), hand, option)


def changed(found: Around) -> list[dict[Knob, object]]:
    return [changes for _, changes in (*steps_around(found), *moves_around(found))]


def knobs(candidate: Candidate) -> dict[Knob, object]:
    return dict(as_settings(candidate.settings))


def test_default_is_first_and_plan_is_second() -> None:
    found = candidates_of(small(), HAND)
    assert [candidate.kind for candidate in found.all[:2]] == ["default", "plan"]
    assert knobs(found.all[0]) == {Knob.CONTEXT_LENGTH: 16384, Knob.PARALLEL: 1}
    assert (found.plan, found.references) == (1, (0, 1))
    assert found.all[1].speed == best(small()).speed
    assert small().current
    assert small().current.speed is not None
    assert found.all[0].speed == small().current.speed
    of_what_runs = candidates_of(msgspec.structs.replace(small(), of_running=True), HAND)
    assert of_what_runs.all[0].speed is None


def test_candidates_are_distinct_and_limited() -> None:
    found = candidates_of(small(), HAND)
    assert len({frozenset(knobs(candidate).items()) for candidate in found.all}) == len(found.all) <= MOST
    assert sum(candidate.kind == "neighbour" for candidate in found.all) >= 5
    assert all(knobs(candidate)[Knob.CONTEXT_LENGTH] == 16384 for candidate in found.all)


def test_plan_equal_to_the_default_is_one_candidate() -> None:
    found = candidates_of(large(), HAND)
    assert (found.plan, found.references) == (0, (0,))
    assert found.all[0].kind == "default"
    assert not any(Knob.THREADS in knobs(candidate) for candidate in found.all)  # all is on the GPU


def test_without_a_recommendation_the_default_has_neighbours() -> None:
    plan = msgspec.structs.replace(small(), recommended=None, options=(), current=None, verdict="cannot_tell")
    found = candidates_of(plan, HAND)
    assert (found.plan, found.references) == (None, (0,))
    assert any(knobs(candidate).get(Knob.THREADS) == 16 for candidate in found.all)
    assert Candidates(found.all, None).references == (0,)


@pytest.mark.parametrize(
    ("file", "context", "increase", "stays"),
    [
        (None, 16384, 0.0, True),
        ("/models/other-Q4_K_S.gguf", 16384, 0.0, True),
        ("Q3_K_M", 16384, 0.0, False),
        (None, 32768, 0.0, False),
        (None, 16384, 0.5, False),
        (None, 16384, None, False),
    ],
)
def test_front_options_of_equal_quality_that_are_here_stay(
    file: str | None, context: int, increase: float | None, stays: bool
) -> None:
    files = (ChangeShown(knob="model_file", value=file),) if file else ()
    option = msgspec.structs.replace(
        best(small()), name="the other", context=context, settings=(ChangeShown(knob="threads", value=3), *files),
        quality=msgspec.structs.replace(best(small()).quality, perplexity_increase=increase),
    )  # fmt: skip
    plan = msgspec.structs.replace(small(), options=(best(small()), option), recommended=0)
    for floor in (None, 0.1):
        asked = msgspec.structs.replace(plan, goal=msgspec.structs.replace(plan.goal, worst_perplexity_increase=floor))
        names = [candidate.name for candidate in candidates_of(asked, HAND).all]
        assert ("the other" in names) is stays


def test_threads_are_tried_only_with_cpu_layers() -> None:
    some = {Knob.GPU_LAYERS: 20, Knob.FIT: False}
    tried = [c[Knob.THREADS] for c in changed(around(some)) if Knob.THREADS in c]
    assert tried == [16, 7]
    assert not any(Knob.THREADS in c for c in changed(around({Knob.GPU_LAYERS: 33})))
    alone = Around({}, small().goal, HAND._replace(cores=1, logical=1))
    assert not any(Knob.THREADS in c for c in changed(alone))


def test_larger_micro_batch_needs_long_prompts_and_memory() -> None:
    def batches(found: Around) -> list[object]:
        return [c[Knob.BATCH] for c in changed(found) if Knob.BATCH in c]

    assert batches(around({})) == [256, 1024]
    assert batches(around({Knob.BATCH: 256})) == [128, None]  # the default needs no word
    assert batches(around({}, prompt_tokens=512)) == [256]
    assert batches(around({}, prompt_tokens=100)) == []
    assert batches(around({}, spare=0)) == [256]
    assert batches(around({Knob.BATCH: 4096})) == [2048]
    grown = [c for c in changed(around({Knob.BATCH: 1024, Knob.LOGICAL_BATCH: 1024})) if c.get(Knob.BATCH) == 2048]
    assert grown[0][Knob.LOGICAL_BATCH] == 2048
    assert batches(around({Knob.BATCH: "large"})) == []


def test_cache_type_changes_within_quality_and_memory() -> None:
    def caches(found: Around) -> list[object]:
        return [c[Knob.KV_CACHE_TYPE] for c in changed(found) if Knob.KV_CACHE_TYPE in c]

    assert caches(around({})) == ["q8_0"]
    assert caches(around({}, worst_perplexity_increase=0.0)) == []
    assert caches(around({}, worst_perplexity_increase=0.2)) == ["q8_0"]
    assert caches(around({Knob.KV_CACHE_TYPE: "q8_0"})) == [None]
    assert caches(around({Knob.KV_CACHE_TYPE: "q8_0"}, spare=0)) == []
    assert caches(around({Knob.KV_CACHE_TYPE: "q4_0"})) == []


def test_load_mode_and_draft_are_tried_where_they_apply() -> None:
    part = {Knob.GPU_LAYERS: 20}
    assert {Knob.LOAD_MODE: "none"} in changed(around(part))
    assert {Knob.LOAD_MODE: "mmap"} in changed(around({**part, Knob.LOAD_MODE: "none"}))
    assert not any(Knob.LOAD_MODE in c for c in changed(around({})))
    drafting = HAND._replace(draft="/models/draft.gguf", draft_bytes=2**28)
    assert {Knob.SPECULATIVE: "/models/draft.gguf"} in changed(around(part, hand=drafting))
    assert not any(Knob.SPECULATIVE in c for c in changed(around(part, spare=2**28, hand=drafting)))


def test_one_more_gpu_layer_needs_its_memory() -> None:
    settings = {Knob.GPU_LAYERS: 20}
    layer = full_bytes(around(settings), [12])
    moved = [c[Knob.GPU_LAYERS] for c in changed(around(settings, spare=layer)) if set(c) == {Knob.GPU_LAYERS}]
    assert moved == [21, 19]
    tight = [c[Knob.GPU_LAYERS] for c in changed(around(settings, spare=layer - 1)) if set(c) == {Knob.GPU_LAYERS}]
    assert tight == [19]
    assert not changed_places(around({Knob.GPU_LAYERS: 20, Knob.TENSOR_SPLIT: "10,10"}))
    assert not changed_places(around({}))
    assert not changed_places(Around(settings, small().goal, HAND))


def changed_places(found: Around) -> list[object]:
    return [changes for _, changes in moves_around(found)]


def test_whole_layers_and_overrides_are_exchanged(wording) -> None:
    whole = around({Knob.GPU_LAYERS: 28})  # five layers with the host
    words, swapped = list(moves_around(whole))[-1]
    assert swapped[Knob.GPU_LAYERS] == 33
    apart = layers_apart(around({Knob.GPU_LAYERS: 33, Knob.TENSOR_OVERRIDE: swapped[Knob.TENSOR_OVERRIDE]}))
    wording(words, tells=str(len(apart)))
    pieces = sum(PIECES.layers[layer].piece_bytes for layer in apart)
    assert pieces >= full_bytes(whole, range(5)) > pieces - PIECES.layers[apart[-1]].piece_bytes
    back = around({Knob.GPU_LAYERS: 33, Knob.TENSOR_OVERRIDE: swapped[Knob.TENSOR_OVERRIDE]})
    _, again = list(moves_around(back))[-1]
    assert again[Knob.TENSOR_OVERRIDE] is None
    assert 33 - again[Knob.GPU_LAYERS] in (5, 6)
    far = around({Knob.GPU_LAYERS: 28, Knob.KV_OFFLOAD: False})
    assert not any(Knob.TENSOR_OVERRIDE in c for c in changed(far))


def test_experts_move_by_one_layer_or_all() -> None:
    hand = Hand(SPARSE, "Q4_K_M", 30_500_000_000, 8, 16)
    settings = {Knob.GPU_LAYERS: hand.layers + 1, Knob.EXPERTS_ON_CPU: 10}
    moved = [c[Knob.EXPERTS_ON_CPU] for c in changed_places(around(settings, hand=hand)) if Knob.EXPERTS_ON_CPU in c]
    assert moved == [11, 9, None]
    tight = [c[Knob.EXPERTS_ON_CPU] for c in changed_places(around(settings, 0, hand)) if Knob.EXPERTS_ON_CPU in c]
    assert tight == [11, None]
    whole = around({Knob.GPU_LAYERS: hand.layers - 3}, hand=hand)
    assert list(moves_around(whole))[-1][1][Knob.EXPERTS_ON_CPU] >= 4


def test_too_many_host_layers_have_no_override_variant() -> None:
    few = around({Knob.GPU_LAYERS: 2})
    assert not any(Knob.TENSOR_OVERRIDE in changes for changes in changed_places(few))


def test_unknown_knobs_are_left_out() -> None:
    assert as_settings((ChangeShown(knob="wings", value=2), ChangeShown(knob="threads", value=2))) == {Knob.THREADS: 2}
