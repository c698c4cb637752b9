"""A printed command, parsed again with the runtime's defaults, takes exactly the predicted bytes."""

import ast
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from unslow.catalog.devices import find_device
from unslow.commands._hardware import find_memory
from unslow.commands.fit import FitRequest, fit_model
from unslow.commands.models.find import find_gguf_model, find_shape
from unslow.commands.plan import PlanRequest, safetensors
from unslow.commands.plan.gguf import planned_hardware
from unslow.commands.plan.planner import make_plan
from unslow.commands.plan.safetensors import asked_for, checkpoints_of, named_cards
from unslow.facts.commands import Place, parse_line
from unslow.facts.values import GIB
from unslow.look.gguf_server_flags import parse_settings
from unslow.look.runtimes.vllm.flags import FLAGS as VLLM_FLAGS
from unslow.look.system.live import LiveSystem
from unslow.think.fit.answers import shown_held
from unslow.think.hardware import Hardware
from unslow.think.memory import vllm
from unslow.think.memory.llama_cpp.hyperparameters import Settings, ollama_micro_batch
from unslow.think.memory.vllm import VllmMemory, vllm_memory
from unslow.think.plan import transformers
from unslow.think.setup import Setup
from unslow.think.speed.question import has_links

CASES = (
    ("gemma-3-12b", "RTX 4060", 4096),
    ("llama-3.1-8b", "RTX 4090", 32768),
    ("qwen3-30b-a3b", "RTX 4060", 32768),
    ("gpt-oss-20b", "RTX 4090", 4096),
)
"""Windows, a dense model, experts, experts with windows: whole on the card and beyond it."""
MARGIN = GIB  # what llama-server's own fit leaves free


def laid_out(
    command: list[str], blueprint: Any, hardware: Hardware, *, fuses: bool = False
) -> list[tuple[int, int, int]]:
    """The memory of every device by the words of a line alone; `fuses` of a build that keeps more for its kernels."""
    told = {name: setting.value for name, setting in parse_settings(command, {}).items()}
    rooms = hardware.rooms
    devices = {"CPU": len(rooms), **{f"CUDA{n}": n for n in range(len(rooms))}}
    pairs = [part.rpartition("=") for part in told["override"].split(",")] if "override" in told else []
    placed = told.get("gpu_layers", "")
    micro = int(told.get("ubatch", 512))
    settings = Settings(
        context=int(told["context"]),
        batch=int(told.get("batch", 2048)),
        micro_batch=micro,
        slots=int(told.get("slots", 4)),  # llama-server: four that share one cache, unless their number is said
        unified="slots" not in told or "kv_unified" in told,
        key_type=told.get("kv_type_k", "f16").upper(),
        value_type=told.get("kv_type_v", "f16").upper(),
        flash_attention={"on": True, "off": False}.get(told.get("flash_attention", "auto")),
        outputs=int(told.get("slots", 4)),
        gpu_layers=int(placed) if placed.isdecimal() else -1,
        cache_on_gpu="kv_offload" not in told,
        offload_ops="op_offload" not in told,
        full_windows="swa_full" in told,
        experts_on_cpu=int(told.get("n_cpu_moe", 0)),
        overrides=tuple((pattern, str(devices[device])) for pattern, _, device in pairs),
        fuses=fuses,
        split=tuple(float(share) for share in told.get("tensor_split", "").split(",") if share),
    )
    setup = Setup(blueprint, hardware, settings, 0).settle_attention()
    needs = setup.memory().needs
    fits_by_itself = "fit" not in told and not placed and not pairs and not settings.experts_on_cpu
    if fits_by_itself and rooms:  # then its own fit must have nothing to move
        assert Setup(blueprint, hardware, settings, MARGIN).settle_attention().left() >= 0, command
    return [(need.weights, need.cache, need.compute) for need in needs]


def promised(devices: Any) -> list[tuple[int, int, int]]:
    return [(one.weights_bytes, one.kv_bytes, one.compute_bytes) for one in devices]


def line(commands: tuple[str, ...]) -> list[str]:
    return next(words for text in commands if (words := shlex.split(parse_line(text).text))[0] == "llama-server")


@pytest.mark.parametrize(("model", "card", "context"), CASES)
def test_plan_commands_take_the_predicted_memory(model: str, card: str, context: int) -> None:
    system = LiveSystem()
    request = PlanRequest.from_flags({"model": model, "devices": [card], "context": context, "ram_bytes": "64GB"})
    report = make_plan(system, request)
    blueprint = find_gguf_model(system, model, None).blueprint
    hardware = planned_hardware(system, request, blueprint)
    checked = 0
    now = report.current  # what its own fit moves to the host is not on its line
    for option in (*report.options, *([now] if now and "on the CPU" not in now.name else [])):
        own = not any(change.knob == "model_file" for change in option.settings)
        if option.commands and own:
            assert isinstance(hardware, Hardware)
            builds = [laid_out(line(option.commands), blueprint, hardware, fuses=fuses)[:-1] for fuses in (False, True)]
            assert promised(option.devices) in builds, option.commands  # of an unknown build the larger is counted
            checked += 1
    assert checked


@pytest.mark.parametrize(("model", "card", "context"), [*CASES, ("llama-3.1-8b", "RTX 4060", None)])
def test_fit_commands_take_the_predicted_memory(model: str, card: str, context: int | None) -> None:
    system = LiveSystem()
    more = {} if context is None else {"context": context}
    for flags in ({}, {"kv_type": "q8_0"}, {"parallel": 2}, {"parallel": 2, "kv_unified": True}, {"ubatch": 1024}):
        request = FitRequest.from_flags({"model": model, "devices": [card], "ram_bytes": "64GB", **more, **flags})
        report = fit_model(system, request)
        if report.verdict not in ("fits", "tight"):
            continue
        found = find_gguf_model(system, model, None)
        hardware = planned_hardware(
            system, PlanRequest(model=model, devices=(card,), ram_bytes=64 * GIB), found.blueprint
        )
        assert isinstance(hardware, Hardware)
        seen = laid_out(line(report.commands), found.blueprint, hardware)
        assert seen == promised((*report.devices, report.host)), report.command


@pytest.mark.parametrize(("model", "card", "context"), CASES)
def test_ollama_plan_sets_everything_that_memory_depends_on(model: str, card: str, context: int) -> None:
    flags = {"model": model, "devices": [card], "context": context, "ram_bytes": "64GB", "runtime": "ollama"}
    report = make_plan(LiveSystem(), PlanRequest.from_flags(flags))
    for option in report.options:
        lines = [parse_line(text) for text in option.commands]
        text = "\n".join(part.text for part in lines if part.place in (Place.WHOLE_MODELFILE, Place.MODELFILE))
        given = {change.knob: change.value for change in option.settings}
        if not option.commands:
            continue
        assert f"num_ctx {given['context_length']}" in text
        assert f"num_batch {given['batch']}" in text
        kinds = {"f16"} if "kv_cache_type" not in given else {given["kv_cache_type"]}
        assert ("OLLAMA_KV_CACHE_TYPE" in "".join(option.commands)) == (kinds != {"f16"})


@pytest.mark.parametrize(("context", "size"), [(4096, 512), (4097, 1024), (32768, 1024), (32769, 2048)])
def test_ollama_micro_batch_grows_with_context(context: int, size: int) -> None:
    assert ollama_micro_batch(context) == size


VLLM_PLANS = (
    ("llama-3.1-8b", ["RTX 4090"], {"context": 8192}),
    ("llama-3.1-8b", ["RTX 4090"], {"context": 131072, "users": 4, "margin_bytes": "2GB"}),
    ("gpt-oss-20b", ["RTX 3090"], {"context": 32768, "users": 16}),
    ("qwen3-30b-a3b", ["2x RTX 4090"], {"context": 16384, "quant": "AWQ"}),
    ("llama-3.3-70b", ["4x H100"], {"users": 8}),
    ("gemma-3-27b", ["A100 80GB"], {"context": 65536, "aim": "context", "least_tokens_per_s": 10}),
)


def served(words: list[str], model: str, quant: str | None, card: str, cards: int, total_bytes: int) -> VllmMemory:
    """The memory of vLLM by the words of a line alone: of all else it takes what vLLM does by itself."""
    told = {name: setting.value for name, setting in VLLM_FLAGS.settings(words, {}).items()}
    device = find_device(card, 0)
    assert device
    found = find_shape(LiveSystem(), model, quant)
    plain, *at_load = checkpoints_of(found, device.family)  # float32 as 16 bits, as vLLM loads it
    weights = at_load[0] if told.get("quantization") == "fp8" else plain
    wide = told.get("dtype") == "float32"
    share = told.get("memory_fraction")
    settings = vllm.VllmSettings(
        max_model_len=int(told["context"]),
        tensor_parallel=int(told.get("tensor_parallel", 1)),
        pipeline_parallel=int(told.get("pipeline_parallel", 1)),
        gpu_memory_utilization=float(share) if share else None,
        max_num_seqs=int(told.get("sequences", 0)),
        max_num_batched_tokens=int(told.get("batched_tokens", 0)),
        kv_cache_dtype=told.get("kv_type", "auto"),
        enforce_eager="eager" in told,
        packing=weights.packing,
        dtype_bytes=4 if wide else 2,
        small_batches="A100" in card,
        linked=has_links(device),
    )
    assert settings.tensor_parallel * settings.pipeline_parallel <= cards
    return vllm_memory(found.shape, found.parts if wide else weights.parts, settings, total_bytes)


def vllm_line(commands: tuple[str, ...]) -> list[str]:
    return next(words for text in commands if (words := shlex.split(parse_line(text).text))[:2] == ["vllm", "serve"])


@pytest.mark.parametrize(("model", "devices", "flags"), VLLM_PLANS)
def test_vllm_plan_commands_take_the_predicted_memory(model: str, devices: list[str], flags: dict[str, Any]) -> None:
    request = PlanRequest.from_flags({"model": model, "devices": devices, "runtime": "vllm", **flags})
    report = make_plan(LiveSystem(), request)
    rooms = find_memory(LiveSystem(), request.devices, None).rooms
    assert report.options
    for option in report.options:
        smallest = min(room.capacity_bytes - room.reserve_bytes for room in rooms)
        seen = served(vllm_line(option.commands), model, flags.get("quant"), rooms[0].name, len(rooms), smallest)
        held = [(one.weights_bytes, one.kv_bytes, one.compute_bytes) for one in seen.devices]
        assert held == promised(option.devices), option.commands


VLLM_FITS = (
    {},
    {"context": 4096},
    {"gpu_memory_utilization": 0.95, "parallel": 4},
    {"kv_type": "fp8", "batch": 1024},
    {"quant": "FP8"},
    {"quant": "F32"},
    {"quant": "AWQ", "kv_type": "fp8_e5m2", "parallel": 8, "batch": 4096, "gpu_memory_utilization": 0.8},
)


@pytest.mark.parametrize("flags", VLLM_FITS, ids=str)
@pytest.mark.parametrize(("model", "device"), [("llama-3.1-8b", "RTX 4090"), ("qwen3-30b-a3b", "2x H100")])
def test_vllm_fit_commands_take_the_predicted_memory(model: str, device: str, flags: dict[str, Any]) -> None:
    request = FitRequest.from_flags({"model": model, "devices": [device], "runtime": "vllm", **flags})
    report = fit_model(LiveSystem(), request)
    rooms = find_memory(LiveSystem(), request.devices, None).rooms
    smallest = min(room.capacity_bytes - room.reserve_bytes for room in rooms)
    if report.fits:
        words = shlex.split(report.command)
        seen = served(words, model, _quant_of(words, flags.get("quant")), rooms[0].name, len(rooms), smallest)
        need = [(one.weights_bytes, seen.needed_bytes, one.compute_bytes) for one in seen.devices]
        assert need == promised(report.devices), report.command
        assert seen.fits
    for way in report.ways:
        words = shlex.split(way.command)
        assert served(words, model, _quant_of(words, flags.get("quant")), rooms[0].name, 8, smallest).fits, way
    assert report.fits or report.ways


def _quant_of(words: list[str], asked: str | None) -> str | None:
    """The format that the line names the model in; plain weights are of any type that `--dtype` tells."""
    _, _, quant = words[2].partition("-")
    assert quant or asked in (None, "F32"), words
    return quant or asked


def test_float32_weights_load_as_16_bit_unless_requested(tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
        "tie_word_embeddings": False,
    }  # fmt: skip
    flags = {"model": str(tmp_path), "devices": ["H100"], "runtime": "vllm"}
    needs = {}
    for kind, quant in (("float32", None), ("bfloat16", None), ("float32", "F32"), ("bfloat16", "FP8")):
        (tmp_path / "config.json").write_text(json.dumps({**config, "torch_dtype": kind}))
        report = fit_model(LiveSystem(), FitRequest.from_flags({**flags, "quant": quant}))
        needs[kind, quant] = promised(report.devices), report.command
    line_ = f"vllm serve {tmp_path} --max-model-len 8192"
    assert needs["float32", None] == needs["bfloat16", None]
    assert needs["float32", None][1] == line_
    assert needs["float32", "F32"][1] == f"{line_} --dtype float32"
    assert needs["float32", "F32"][0][0][0] == 2 * needs["float32", None][0][0][0]
    assert needs["bfloat16", "FP8"][1] == "vllm serve MODEL-FP8 --max-model-len 8192"  # the folder is not in FP8


def program_arguments(commands: tuple[str, ...]) -> dict[str, str]:
    """What the printed program tells `from_pretrained` and `generate`, by the names of the arguments."""
    (text,) = (line.text for command in commands if (line := parse_line(command)).place is Place.PYTHON)
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return {word.arg: ast.unparse(word.value).strip("'") for call in calls for word in call.keywords if word.arg}


@pytest.mark.parametrize(
    ("model", "devices", "flags"),
    [
        ("llama-3.1-8b", ["RTX 4090"], {"context": 8192}),
        ("llama-3.1-8b", ["RTX 3090"], {"context": 8192, "quant": "F32"}),
        ("qwen3-8b", ["2x RTX 3090"], {"context": 16384, "users": 4}),
        ("gemma-3-12b", ["H100"], {"context": 32768}),
    ],
)
def test_transformers_plan_code_takes_the_predicted_memory(
    model: str, devices: list[str], flags: dict[str, Any]
) -> None:
    system = LiveSystem()
    request = PlanRequest.from_flags({"model": model, "devices": devices, "runtime": "transformers", **flags})
    report = make_plan(system, request)
    question = safetensors.transformers_question(
        request, asked_for(system, request, None), named_cards(system, request), None
    )
    assert report.options
    for option in report.options:
        told = program_arguments(option.commands)
        choice = transformers.Choice(
            dtype=told.get("dtype", question.stored).removeprefix("torch."),
            attention=told.get("attn_implementation", "sdpa"),
            cache=told.get("cache_implementation", "dynamic"),
            device_map=told["device_map"],  # without one, all of it is on the CPU
        )
        laid = transformers.laid_out(question, choice, min(question.goal.context, question.trained_context))
        devices_seen = tuple(map(shown_held, laid.devices, question.hardware.rooms))
        assert promised(devices_seen) == promised(option.devices), option.commands
