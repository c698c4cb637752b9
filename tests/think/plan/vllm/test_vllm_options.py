"""Plans for vLLM as reported: the Pareto front, the recommendation, and rejected settings with reasons."""

import pytest
from tests.think.plan.vllm.vllm_questions import LLAMA_8B, PLAIN, question

from unslow.catalog.weight_parts import Role
from unslow.facts.values import GIB
from unslow.think.plan.report import OptionShown
from unslow.think.plan.vllm.choices import (
    Checkpoint,
    Pool,
    VllmPlanQuestion,
    can_split,
    every_choice,
    freest,
    splits,
    why_no_fp8,
)
from unslow.think.plan.vllm.plan import vllm_options
from unslow.think.plan.vllm.search import Search

HALVED = tuple(p if p.role in (Role.EMBEDDING, Role.OUTPUT) else p._replace(bytes=p.bytes // 2) for p in PLAIN.parts)
AT_LOAD = Checkpoint("Llama 8B", "FP8", HALVED, "q8", "FP8 per tensor", packed_at_load=True)


def recommended(asked: VllmPlanQuestion) -> OptionShown:
    planned = vllm_options(asked)
    assert planned.recommended is not None
    return planned.options[planned.recommended]


def knobs(option: OptionShown) -> dict[str, object]:
    return {change.knob: change.value for change in option.changes}


def test_recommendation_is_on_the_front_with_every_setting() -> None:
    planned = vllm_options(question(users=8))
    assert planned.recommended is not None
    option = planned.options[planned.recommended]
    assert option.speed
    fastest = min(o.speed.request_s.mid for o in planned.options if o.speed)
    assert option.speed.request_s.mid <= fastest * 1.011
    settings = {change.knob for change in option.settings}
    assert {"memory_share", "context_length", "parallel", "batch", "kv_cache_type", "graphs", "split_mode"} <= settings
    assert {change.knob for change in option.changes} <= settings
    assert all(device.fits for device in option.devices)
    assert len({o.name for o in planned.options}) == len(planned.options)


def test_settings_without_gain_are_not_changed() -> None:
    assert knobs(recommended(question(context=20_000))) == {"context_length": 20_000}  # its own 131,072 do not fit
    assert knobs(recommended(question("H100 SXM"))) == {}


def test_other_processes_lower_the_memory_share() -> None:
    option = recommended(question(others=4 * GIB, context=4096))
    share = knobs(option)["memory_share"]
    assert isinstance(share, float)
    assert share < 0.83
    card = 24 * GIB
    assert share * card < card - 4 * GIB


def test_eager_mode_is_replaced_with_its_gain() -> None:
    now = question("H100 SXM").default()._replace(eager=True, context=8192)
    found = vllm_options(question("H100 SXM", current=now))
    option = found.options[found.recommended or 0]
    assert knobs(option)["graphs"] is True
    assert option.speedup is not None
    assert option.speedup > 2
    assert found.current
    assert not found.current.changes


def test_reported_kv_cache_size_is_used(wording) -> None:
    now = question().default()._replace(context=8192)
    few = vllm_options(question(current=now, users=32, measured_pool=6000)).current
    many = vllm_options(question(current=now, users=32, measured_pool=60_000)).current
    assert few
    assert many
    assert few.speed
    assert many.speed
    assert few.speed.request_s.mid > 2 * many.speed.request_s.mid
    wording(few.costs[0], tells="5 of 32")


def test_cpu_offload_is_removed() -> None:
    now = question().default()._replace(context=8192)
    found = vllm_options(question(current=now, offloaded_bytes=4 * GIB))
    option = found.options[found.recommended or 0]
    assert found.current
    assert found.current.speed
    assert found.current.speed.decode_tokens_per_s.mid < 3
    assert knobs(option)["gpu_layers"] == -1
    assert (option.speedup or 0) > 10


@pytest.mark.parametrize(
    ("device", "version", "why"),
    [("RTX 3090", (0, 28), "not support FP8"), ("RTX 4090", (0, 9), "newer versions"), ("RTX 4090", (0, 28), "")],
)
def test_fp8_cache_needs_gpu_and_version_support(device: str, version: tuple[int, int], why: str) -> None:
    asked = question(device, version=version)
    assert why in why_no_fp8(asked)
    assert bool(why) == bool(why_no_fp8(asked))
    kinds = {choice.kv for choice in every_choice(asked, Pool(asked))}
    assert kinds == ({"auto"} if why else {"auto", "fp8"})
    refused = [r for r in vllm_options(asked).rejected if "fp8" in r.what]
    assert not why or why in refused[0].because


def test_fp8_mla_cache_needs_kernels() -> None:
    latent = question("RTX 4090")
    latent = latent._replace(shape=type(LLAMA_8B)(**{**_fields(), "kv_rank": 512, "rope_length": 64}))
    assert "latent attention" in why_no_fp8(latent)


def _fields() -> dict[str, object]:
    return {name: getattr(LLAMA_8B, name) for name in LLAMA_8B.__struct_fields__}


def test_tensor_parallel_needs_divisible_heads() -> None:
    three = question("RTX 3090", 3)
    assert (3, 1) in splits(three)
    assert not can_split(three, 0, 3)
    assert can_split(three, 0, 2)
    said = [r.because for r in vllm_options(three).rejected if r.what == "--tensor-parallel-size 3"]
    assert "32 heads" in said[0]
    running = three._replace(current=three.default()._replace(tensor=3))
    assert can_split(running, 0, 3)  # what runs can be run
    grouped = three._replace(checkpoints=(PLAIN._replace(align=4096),))
    assert not can_split(grouped, 0, 2)


def test_tensor_parallel_speeds_up_decode() -> None:
    one, two = recommended(question("RTX 3090")), recommended(question("RTX 3090", 2))
    assert one.speed
    assert two.speed
    assert two.speed.decode_tokens_per_s.mid > 1.3 * one.speed.decode_tokens_per_s.mid
    assert knobs(two)["split_mode"] == 2
    assert len(two.devices) == 2


def test_narrow_pcie_slows_tensor_parallel_prefill() -> None:
    wide, narrow = (Search(question("RTX 3090", 4, link_bytes_per_s=link)) for link in (12e9, 0.8e9))
    choice = wide.question.default()._replace(tensor=4, context=8192)
    assert wide.point(choice).served.prefill.mid > 1.5 * narrow.point(choice).served.prefill.mid
    assert wide.point(choice).served.decode.mid > narrow.point(choice).served.decode.mid
    pipeline = choice._replace(tensor=1, pipeline=4)
    assert wide.point(pipeline).served == narrow.point(pipeline).served


def test_nvlink_speeds_up_prefill() -> None:
    bridged, alone = (Search(question("RTX 3090", 2, linked=linked)) for linked in (True, False))
    choice = alone.question.default()._replace(tensor=2, context=8192)
    assert bridged.point(choice).served.prefill.mid > 1.2 * alone.point(choice).served.prefill.mid


def test_quantizing_at_load_needs_room_for_the_plain_weights() -> None:
    both = (PLAIN, AT_LOAD)
    fits = question("RTX 4090", checkpoints=both)
    planned = vllm_options(fits)
    assert planned.options[planned.recommended or 0].quant == "BF16"
    said = next(r.because for r in planned.rejected if r.what == "--quantization fp8")
    assert said.startswith("faster")
    allowed = vllm_options(question("RTX 4090", checkpoints=both, worst_perplexity_increase=0.02))
    option = allowed.options[allowed.recommended or 0]
    assert knobs(option)["quant_kernel"] == "fp8"
    assert "compare answers" in option.risk
    small = vllm_options(question("RTX 3060", checkpoints=both))
    assert small.recommended is None  # 8.5 GB of weights would fit, the 16 of before do not
    assert "15.0 GiB" in small.reason


def test_gpus_with_most_free_memory_are_chosen() -> None:
    asked = question("RTX 3090", 2, context=4096)
    rooms = (asked.hardware.rooms[0]._replace(others_bytes=20 * GIB, name="held"), asked.hardware.rooms[1])
    asked = asked._replace(hardware=asked.hardware._replace(rooms=rooms))
    assert [room.name for room in freest(asked, 1)] == ["RTX 3090"]
    option = recommended(asked)
    assert knobs(option)["device"] == "1"
    assert [device.name for device in option.devices] == ["RTX 3090"]


def test_impossible_plan_says_what_is_missing() -> None:
    planned = vllm_options(question("RTX 3060"))
    assert planned.recommended is None
    assert "do not fit" in planned.rejected[-1].because
    slow = vllm_options(question(least_tokens_per_s=500.0, aim="context"))
    assert slow.recommended is None
    assert "tok/s" in slow.reason
    assert slow.hint


def test_common_settings_are_rejected_with_reasons() -> None:
    planned = vllm_options(question("RTX 4090", 2, users=4))
    said = {r.what: r.because for r in planned.rejected}
    assert said["--enforce-eager"].startswith("slower")
    assert "PCIe" in said["--cpu-offload-gb"]
    assert "frees nothing" in said["a shorter --max-model-len"]
    assert "as fast" in said["--max-num-batched-tokens 16384"]  # 8192 are worth it for four prompts at once
    assert "slower" in said["--pipeline-parallel-size 2"]


def test_fewer_gpus_are_judged_at_the_requested_context(wording) -> None:
    """It fits them, where the longest context does not."""
    planned = vllm_options(question("RTX 4090", 2))
    assert planned.recommended is not None
    assert planned.options[planned.recommended].context == 131072
    said = next(r.because for r in planned.rejected if r.what == "--tensor-parallel-size 1")
    assert said.startswith("slower")
    wording(said, tells="8,192")


def test_fp8_weights_keep_prefill_speed_only_with_fp8_hardware() -> None:
    both = (PLAIN, AT_LOAD)
    for device, is_quick in (("RTX 4090", True), ("RTX 3090", False)):
        search = Search(question(device, checkpoints=both))
        plain = search.question.default()._replace(context=8192)
        prompts = [search.point(plain._replace(checkpoint=n)).served.prefill.mid for n in (0, 1)]
        assert (prompts[1] >= prompts[0] * 0.99) is is_quick


def test_running_settings_are_not_listed_as_an_option() -> None:
    now = question().default()._replace(context=8192, sequences=8)
    found = vllm_options(question(current=now, users=30))
    assert found.current
    assert found.current.name not in {option.name for option in found.options}
    assert all(option.changes for option in found.options)


def test_pipeline_parallel_size_is_stated() -> None:
    option = recommended(question("RTX 3060", 3, others=3 * GIB, context=2048))
    assert knobs(option)["split_mode"] == "layer 3"
    assert len(option.devices) == 3
