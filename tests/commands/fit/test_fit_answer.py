"""Results of `unslow fit` for recorded model headers, and for models known only from the catalog."""

import msgspec
import pytest
from lab.memory_rows import header_path

from unslow.commands.fit import FitRequest, fit_model
from unslow.facts.errors import UserError
from unslow.look.system.live import LiveSystem
from unslow.think.fit.report import FitReport

GIB, MIB = 2**30, 2**20
LLAMA_8B = str(header_path("llama8b"))


def fit(model: str = LLAMA_8B, **flags: object) -> FitReport:
    flags.setdefault("devices", ["H200"])
    return fit_model(LiveSystem(), FitRequest.from_flags({"model": model, **flags}))


def test_memory_agrees_with_a_recorded_allocation() -> None:
    report = fit(context=4096, parallel=1, kv_unified=False, flash_attention="on")
    (device,), host = report.devices, report.host
    parts = (device.weights_bytes, device.kv_bytes, device.compute_bytes)
    assert [p / MIB for p in parts] == pytest.approx([4403.492, 512.0, 112.01], abs=0.001)
    assert [p / MIB for p in (host.weights_bytes, host.compute_bytes)] == pytest.approx([281.812, 20.012], abs=0.001)
    assert device.total_bytes == sum(parts)
    assert report.fits
    assert device.fits
    assert host.fits is None
    assert report.gpu_layers == report.max_gpu_layers == report.all_gpu_layers == 33
    assert report.max_context == 131_072


def test_json_has_every_promised_field() -> None:
    shown = msgspec.to_builtins(fit())
    promised = {"name", "weights_bytes", "kv_bytes", "compute_bytes", "total_bytes", "free_bytes", "fits"}
    assert promised <= set(shown["devices"][0])
    assert promised <= set(shown["host"])
    assert {"gpu_layers", "max_context", "max_gpu_layers"} <= set(shown)


def test_too_small_gpu_gets_fewer_layers_and_a_smaller_quant() -> None:
    report = fit("llama-3.3-70b", devices=["RTX 4090"], quant="Q4_K_M")
    assert not report.fits
    assert report.max_gpu_layers is not None
    assert 30 < report.max_gpu_layers < 50
    assert report.max_context is None
    assert report.next_quant is not None
    assert report.next_quant.gpu_bytes < 23 * GIB
    fewer = fit("llama-3.3-70b", devices=["RTX 4090"], gpu_layers=report.max_gpu_layers)
    assert fewer.verdict == "cannot_tell"  # the other layers need a host that nobody described
    assert fewer.devices[0].free_bytes >= fewer.devices[0].margin_bytes
    more = fit("llama-3.3-70b", devices=["RTX 4090"], gpu_layers=report.max_gpu_layers + 1, ram_bytes="64GB")
    assert more.verdict == "tight"


def test_max_context_fits_and_a_longer_one_is_tight() -> None:
    report = fit(devices=["12GB"], context=8192)
    assert report.max_context is not None
    assert 8192 < report.max_context < 131_072
    assert fit(devices=["12GB"], context=report.max_context).verdict == "fits"
    assert fit(devices=["12GB"], context=report.max_context + 256).verdict == "tight"


def test_margin_and_experts_on_cpu_change_the_verdict() -> None:
    assert fit("qwen3-30b-a3b", devices=["RTX 3090"], context=40960, margin_bytes="5GiB").verdict == "tight"
    spilled = fit("qwen3-30b-a3b", devices=["12GB"], ram_bytes="64GB")
    assert spilled.verdict == "partly"
    assert spilled.least_cpu_moe
    assert any(f"-ncmoe {spilled.least_cpu_moe}" in way.command for way in spilled.ways)
    on_host = fit("qwen3-30b-a3b", devices=["12GB"], n_cpu_moe=48, ram_bytes="64GB")
    assert on_host.fits
    assert on_host.host.weights_bytes > 14 * GIB


def test_ollama_gives_each_slot_the_whole_context() -> None:
    four = fit(runtime="ollama", context=8192, parallel=4)
    assert four.settings["context"] == 32_768
    assert four.settings["context_per_slot"] == 8192
    assert four.devices[0].kv_bytes == 4 * fit(runtime="ollama", context=8192).devices[0].kv_bytes


def test_several_gpus_share_layers_by_memory() -> None:
    report = fit("llama-3.3-70b", devices=["RTX 4090", "RTX 4090", "RTX 3060"])
    weights = [d.weights_bytes for d in report.devices]
    assert weights[0] == pytest.approx(weights[1], rel=0.1)
    assert weights[2] < 0.7 * weights[0]


@pytest.mark.parametrize(
    ("model", "context", "kv_gib"),
    [("gpt-oss-20b", 131_072, 3.0), ("gemma-3-27b", 131_072, 10.61), ("deepseek-v3", 131_072, 8.6)],
)
def test_kv_cache_of_window_and_mla_models_is_exact(model: str, context: int, kv_gib: float) -> None:
    """Half of gpt-oss's layers and five of six of Gemma 3's have a window; DeepSeek caches 576 numbers per token."""
    report = fit(model, context=context, parallel=1, devices=["8x H200"])
    assert sum(d.kv_bytes for d in report.devices) / GIB == pytest.approx(kv_gib, rel=0.01)


@pytest.mark.parametrize(
    "flags",
    [
        {"kv_type": "q8_0", "flash_attention": "off"},
        {"devices": ["no such card"]},
        {"override_tensor": ["exps"]},
        {"override_tensor": ["(=CPU"]},
        {"tensor_split": [1.0, 2.0]},
        {"model": "no-such-model"},
        {"model": __file__},
        {"quant": "Q9_Z"},
    ],
)
def test_invalid_requests_are_refused_with_a_hint(flags: dict[str, object]) -> None:
    with pytest.raises(UserError) as error:
        fit(**flags)
    assert error.value.hint


def test_unknown_host_memory_gives_cannot_tell() -> None:
    report = fit("deepseek-r1", devices=["RTX 4090"], gpu_layers=0)
    assert report.verdict == "cannot_tell"
    assert report.fits is None
    assert report.max_context is None


def test_command_contains_every_non_default_setting() -> None:
    flags = {"context": 16384, "parallel": 2, "kv_type": "q8_0", "gpu_layers": 20, "kv_unified": True, "ubatch": 4096}
    command = fit(**flags).command
    assert command.split()[0] == "llama-server"
    for part in ("-c 16384", "-np 2", "-ctk q8_0", "-ctv q8_0", "-ngl 20", "-kvu", "-b 4096", "-ub 4096"):
        assert part in command


def test_without_a_gpu_everything_is_in_host_memory() -> None:
    report = fit("qwen3-8b", devices=["cpu"], ram_bytes="8GB")
    assert report.devices == ()
    assert report.gpu_layers == report.max_gpu_layers == 0
    assert report.host.fits
    assert report.host.weights_bytes > 4 * GIB


def test_vllm_fills_its_memory_share_with_kv_cache(wording) -> None:
    """A published vLLM 0.19 log on an H100 reports 15.0 GiB of weights and about 430,000 tokens for this model."""
    report = fit("llama-3.1-8b", runtime="vllm", devices=["H100 SXM"], context=32_768, gpu_memory_utilization=0.9)
    (card,) = report.devices
    assert report.fits
    assert card.weights_bytes / GIB == pytest.approx(15.0, rel=0.01)
    assert card.kv_bytes == 32 * 2 * 8 * 128 * 2 * 32_768
    assert card.total_bytes + (card.free_bytes or 0) < 0.9 * 80 * GIB
    wording(report.notes[0], tells="32,768")
    assert "--gpu-memory-utilization 0.9" in report.command


@pytest.mark.parametrize("flags", [{"context": 131_072}, {"gpu_memory_utilization": 0.85}, {"context": 8192}, {}])
@pytest.mark.parametrize(("model", "cards"), [("llama-3.3-70b", "2x H100 SXM"), ("gpt-oss-120b", "H100 SXM")])
def test_vllm_free_and_lacking_bytes_count_against_its_share(model: str, cards: str, flags: dict[str, object]) -> None:
    report = fit(model, runtime="vllm", devices=[cards], **flags)
    for card in report.devices:
        usable = (card.capacity_bytes or 0) - card.others_bytes - card.reserve_bytes
        assert usable - card.total_bytes == (card.free_bytes or 0) - card.lacking_bytes
        assert usable < float(report.settings["gpu_memory_utilization"]) * 80 * GIB
        assert card.fits is bool(report.fits)


def test_vllm_without_context_takes_the_longest_that_fits(wording) -> None:
    """gpt-oss-120b runs on one H100, with less than the 131,072 tokens that it was trained for."""
    report = fit("gpt-oss-120b", runtime="vllm", devices=["H100 SXM"])
    assert report.verdict == "fits"
    context = int(report.settings["context"])
    assert 16_384 < context < 131_072
    assert f"--max-model-len {context}" in report.command
    wording(report.notes, tells="131,072")
    again = fit("gpt-oss-120b", runtime="vllm", devices=["H100 SXM"], context=context)
    assert again.verdict == "fits"
    assert fit("gpt-oss-120b", runtime="vllm", devices=["H100 SXM"], context=131_072).verdict == "does_not_fit"


_VLLM_FLAGS = {
    "--max-model-len": ("context", int), "--gpu-memory-utilization": ("gpu_memory_utilization", float),
    "--kv-cache-dtype": ("kv_type", str), "--max-num-seqs": ("parallel", int),
    "--max-num-batched-tokens": ("batch", int),
}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "card", "flags", "offered"),
    [
        ("gpt-oss-120b", "H100 SXM", {}, ("context of", "of each GPU", "concurrent requests", "FP8 KV", "2 of these")),
        ("gpt-oss-120b", "H100 SXM", {"batch": 16384}, ("context of", "of each GPU", "concurrent", "2 of these")),
        ("llama-3.3-70b", "H200 SXM", {}, ("FP8 checkpoint", "2 of these GPUs")),
        (
            "llama-3.1-8b",
            "RTX 2080 Ti",
            {"context": 8192},
            ("4-bit checkpoint", "2 of these GPUs"),
        ),  # a chip without FP8
    ],
)
def test_ways_offered_for_vllm_really_fit(
    model: str, card: str, flags: dict[str, int], offered: tuple[str, ...]
) -> None:
    report = fit(model, runtime="vllm", devices=[card], **{"context": 131_072, **flags})
    assert not report.fits
    assert report.command == ""
    assert [word for word in offered if any(word in way.what for way in report.ways)] == list(offered)
    assert len(report.ways) == len(offered)
    for way in report.ways:
        words = way.command.split()
        pairs = dict(zip(words[3::2], words[4::2], strict=True))
        cards = int(pairs.pop("--tensor-parallel-size", "1"))
        asked = {_VLLM_FLAGS[name][0]: _VLLM_FLAGS[name][1](value) for name, value in pairs.items()}
        quant = words[2].removeprefix("MODEL").removeprefix("-") or None
        assert fit(model, runtime="vllm", quant=quant, devices=[f"{cards}x {card}"], **asked).fits


def test_vllm_splits_weights_and_refuses_models_that_are_too_large() -> None:
    one = fit("llama-3.1-70b", runtime="vllm", devices=["H100 SXM"], quant="fp8")
    two = fit("llama-3.1-70b", runtime="vllm", devices=["2x H100 SXM"], quant="fp8")
    assert two.fits
    assert two.devices[0].weights_bytes == pytest.approx(one.devices[0].weights_bytes / 2, rel=0.01)
    assert not fit("llama-3.1-70b", runtime="vllm", devices=["RTX 4090"]).fits
    with pytest.raises(UserError, match="GPU"):
        fit("llama-3.1-8b", runtime="vllm", devices=["cpu"])


def test_transformers_spill_to_the_host_is_reported() -> None:
    small = fit("llama-3.1-8b", runtime="transformers", devices=["RTX 4090"])
    assert small.fits
    assert small.devices[0].kv_bytes == 32 * 2 * 8 * 128 * 2 * 8191
    large = fit("qwen3-30b-a3b", runtime="transformers", devices=["RTX 4090"], ram_bytes="64GB")
    assert large.verdict == "partly"
    assert large.host.weights_bytes > 30 * GIB
    assert "on the host" in large.notes[0]


def test_gguf_file_is_refused_for_vllm() -> None:
    with pytest.raises(UserError, match="GGUF"):
        fit(runtime="vllm")


@pytest.mark.parametrize(
    ("model", "ubatch", "says"),
    [("olmoe-1b-7b", 1024, True), ("olmoe-1b-7b", 64, False), ("llama-3.2-1b", 1024, False)],
)
def test_extra_memory_of_fused_kernels_is_noted_where_it_applies(model: str, ubatch: int, *, says: bool) -> None:
    report = fit(model, quant="Q4_K_M", context=4096, ubatch=ubatch, parallel=1)
    assert any("fused kernels" in note for note in report.notes) is says
