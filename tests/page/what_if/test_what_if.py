"""Sliders: what they answer is what `unslow fit` says, to the byte."""

import random

import msgspec
import pytest
from benchmarks.what_if import memory_for
from memory_checks import check_sums, whole
from recorded_machines import first_case

from unslow.commands.fit import FitRequest
from unslow.commands.fit.gguf import gguf_answer
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, Unknown, reported_fact
from unslow.look.system.live import LiveSystem
from unslow.page.view import MemoryBar, WhatIf
from unslow.page.what_if import memory_of
from unslow.page.what_if.memory_view import Memory
from unslow.think.case.view import CaseView
from unslow.think.fit.report import MemoryShown

RAM = 64 * GIB


def of(model: str, *devices: str, **flags: object) -> Memory:
    memory = memory_for(LiveSystem(), FitRequest(model=model, devices=devices, ram_bytes=RAM, **flags))  # type: ignore[arg-type]
    assert isinstance(memory, Memory)
    return memory


def seen(name: str) -> Memory:
    memory = memory_of(None, CaseView(first_case(name)))
    assert isinstance(memory, Memory)
    return memory


def check_bytes(bar: MemoryBar, shown: MemoryShown) -> None:
    assert whole(bar, "weights") == shown.weights_bytes
    assert whole(bar, "kv") == shown.kv_bytes
    assert whole(bar, "compute") == shown.compute_bytes
    assert whole(bar, "lacking") == shown.lacking_bytes
    assert bar.capacity_bytes == shown.capacity_bytes
    assert bar.fits == shown.fits


@pytest.mark.parametrize(
    ("model", "devices"),
    [
        ("smollm2-135m", ("RTX 4090",)),
        ("qwen3-0.6b", ("RTX 3060 12GB", "RTX 3060 12GB")),
        ("olmoe-1b-7b", ("8GB",)),
        ("gemma-3-1b", ("M2 Max 32GB",)),
    ],
)
def test_random_slider_settings_agree_with_fit(model: str, devices: tuple[str, ...]) -> None:
    chance, memory = random.Random(model), of(model, *devices)
    view = memory.view
    for _ in range(3):
        places = {slider.knob: chance.choice(slider.choices).value for slider in view.sliders}
        answer = memory.what_if(places)
        check_sums(answer)
        report = gguf_answer(LiveSystem(), _request(model, devices, view.now.settings, places))
        if report.host.name == "host, same memory":
            assert sum(whole(answer.bars[0], kind) for kind in ("weights", "kv", "compute")) == (
                report.devices[0].total_bytes + report.host.total_bytes
            )
            continue
        for bar, shown in zip(answer.bars, (*report.devices, report.host), strict=True):
            check_bytes(bar, shown)


def _request(model: str, devices: tuple[str, ...], now: dict[str, str], places: dict[str, str]) -> FitRequest:
    """The same question to `unslow fit`; a slot slider that was not moved is a flag that was not given."""
    slots, moved = int(places["slots"]), places["slots"] != now["slots"]
    return FitRequest(
        model=model, devices=devices, quant=places["quant"], kv_type=places["kv_type"],
        context=int(places["context"]) * (slots if moved else 1),
        gpu_layers=int(places["gpu_layers"]) if "gpu_layers" in places else None,
        parallel=slots if moved else None, ram_bytes=RAM,
    )  # fmt: skip


def test_large_model_fits_a_small_card_with_fewer_layers_or_a_smaller_quant(wording) -> None:
    memory = of("llama-3.3-70b", "RTX 4090", quant="Q4_K_M")
    view = memory.view
    assert view.now.verdict == "does_not_fit"
    wording(view.now.summary, tells=("RTX 4090", "18.7 GiB"))
    assert view.now.decode_tokens_per_s is None
    half = memory.what_if({"gpu_layers": "40"})
    assert half.verdict == "partly"
    wording(half.summary, tells=("40 of 81", "RTX 4090"))
    assert half.command == "llama-server -m MODEL.gguf -ngl 40 -c 8192"
    small = memory.what_if({"quant": "IQ2_XXS"})
    assert small.verdict in ("fits", "tight")
    assert half.decode_tokens_per_s
    assert small.decode_tokens_per_s
    assert small.decode_tokens_per_s.low > 5 * half.decode_tokens_per_s.high
    assert any("perplexity" in note for note in small.notes)


def test_ready_answers_cover_every_single_slider_move(wording) -> None:
    memory = of("smollm2-135m", "RTX 4090")
    view, ready = memory.view, memory.ready()
    assert len(ready) == sum(len(slider.choices) - 1 for slider in view.sliders)
    for answer in ready:
        assert sum(answer.settings[knob] != view.now.settings[knob] for knob in answer.settings) == 1
        check_sums(answer)
    assert memory.what_if({}) is view.now
    apart = memory.what_if({"slots": "2"})
    wording(apart.notes, tells="8,192")
    assert apart.command == "llama-server -m MODEL.gguf -c 16384 -np 2"


def test_more_context_layers_or_slots_never_need_less_memory() -> None:
    memory = of("qwen3-0.6b", "RTX 4090")
    for knob in ("context", "slots", "quant", "kv_type"):
        slider = next(slider for slider in memory.view.sliders if slider.knob == knob)
        taken = [_taken(memory.what_if({knob: choice.value})) for choice in slider.choices]
        if knob in ("context", "kv_type"):
            assert taken == sorted(taken), knob
        if knob == "slots":  # by itself llama-server has four that share one context
            assert taken[:2] == sorted(taken[:2])
            assert taken[2] == taken[0]
        assert len(set(taken)) > 1, knob


def _taken(answer: WhatIf) -> int:
    return sum(whole(bar, kind) for bar in answer.bars for kind in ("weights", "kv"))


def test_running_server_shows_its_buffers_and_other_programs(wording) -> None:
    memory = seen("h200_live_stranger_holds_vram")
    view = memory.view
    check_sums(view.now)
    card, host = view.now.bars
    wording(view.source)
    wording([part.name for part in card.parts if part.kind == "stranger"], tells="python3")
    assert whole(card, "stranger") / GIB == pytest.approx(134.8, abs=0.1)
    assert host.is_host
    assert view.now.verdict == "partly"
    assert view.now.decode_tokens_per_s
    more = memory.what_if({"gpu_layers": "10"})
    assert "-ngl 10" in more.command
    check_sums(more)


def test_calculated_layout_matches_the_reported_buffers() -> None:
    """The laid-out bytes of a healthy server are those of its log: only rounding to whole MiB lies between them."""
    memory = seen("h200_llama_server_healthy_full_gpu")
    now = memory.view.now
    near = memory.what_if({"context": str(int(now.settings["context"]) + 256)})
    for kind in ("weights", "compute"):
        assert whole(near.bars[0], kind) == pytest.approx(whole(now.bars[0], kind), rel=0.002)


def test_runtime_with_unknown_layout_says_so() -> None:
    found = memory_of(None, CaseView(first_case("built_exllama_near_its_bandwidth")))
    assert isinstance(found, Unknown)
    assert "exllamav2" in found.why
    assert found.how_to_get


def test_vllm_takes_its_share_of_a_card() -> None:
    memory = seen("built_vllm_preemptions")
    view = memory.view
    check_sums(view.now)
    assert {slider.knob for slider in view.sliders} >= {"context", "kv_type"}
    assert view.now.verdict == "fits"
    assert memory.what_if({"kv_type": "fp8"}).notes != view.now.notes
    with pytest.raises(UserError, match="gpu_layers"):
        memory.what_if({"gpu_layers": "3"})


def test_vllm_and_transformers_on_a_named_card() -> None:
    served = of("qwen3-0.6b", "RTX 4090", runtime="vllm", kv_type="auto")
    loaded = of("qwen3-0.6b", "RTX 4090", runtime="transformers")
    for memory in (served, loaded):
        check_sums(memory.view.now)
        assert memory.view.now.verdict == "fits"
    assert "--max-model-len 4096" in served.what_if({"context": "4096"}).command
    memory = of("llama-3.1-8b", "RTX 4090", runtime="vllm", kv_type="auto")
    assert memory.view.now.verdict == "fits"
    long = memory.what_if({"context": "131072"})
    check_sums(long)
    assert long.verdict == "does_not_fit"
    assert whole(long.bars[0], "lacking") / GIB == pytest.approx(10.9, abs=0.2)
    many = loaded.what_if({"slots": "16"})
    assert _taken(many) > _taken(loaded.view.now)


def test_unknown_model_or_memory_is_stated(wording) -> None:
    case = first_case("h200_llama_server_healthy_full_gpu")
    nameless = msgspec.structs.replace(case.model, name=reported_fact("my-own", "test"), path=Unknown("gone"))
    bare = msgspec.structs.replace(nameless, tensors=Unknown("not read"), architecture=Unknown("not read"))
    found = memory_of(None, CaseView(msgspec.structs.replace(case, model=bare)))
    assert isinstance(found, Unknown)
    wording(found.why)
    nowhere = memory_of(None, CaseView(Case(runtime=case.runtime, model=case.model)))
    assert isinstance(nowhere, Unknown)
    assert nowhere.how_to_get


def test_missing_model_is_a_user_error() -> None:
    with pytest.raises(UserError):
        of("no-such-model-at-all", "RTX 4090")
    with pytest.raises(UserError, match="tensor-split"):
        of("smollm2-135m", "RTX 4090", tensor_split=(1.0, 1.0))


def test_same_kind_of_placement_has_the_interval_of_the_report() -> None:
    """What the report expects of a spilled model says little of the same model whole on the GPU."""
    memory = seen("h200_llama_server_gpu_layers_set_too_low")
    now = memory.view.now
    fewer = memory.what_if({**now.settings, "gpu_layers": "16"}).decode_tokens_per_s
    all_of_it = memory.what_if({**now.settings, "gpu_layers": "33"}).decode_tokens_per_s
    assert now.decode_tokens_per_s
    assert fewer
    assert all_of_it
    assert fewer.high / fewer.low == pytest.approx(now.decode_tokens_per_s.high / now.decode_tokens_per_s.low)
    assert fewer.mid < now.decode_tokens_per_s.mid
    assert all_of_it.high / all_of_it.low < 1.5
    assert 180 < all_of_it.mid < 300  # what the report calls achievable
