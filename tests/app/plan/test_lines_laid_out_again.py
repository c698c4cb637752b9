"""A printed line, read again by itself with the runtime's own defaults, takes the very bytes that were promised."""

import shlex
from itertools import product
from typing import Any

import pytest

from unslow.app.fit.answer import answer
from unslow.app.fit.models import find_gguf_model
from unslow.app.fit.request import Request
from unslow.app.plan.answer import planned
from unslow.app.plan.machines import find_hardware
from unslow.app.plan.request import PlanRequest
from unslow.facts.placed import Place, line_of
from unslow.facts.units import GIB
from unslow.look.llama_server.arguments import parse_settings
from unslow.look.system.live import LiveSystem
from unslow.think.fit.llama_cpp import Question
from unslow.think.memory.llama_cpp.settings import Settings, ollama_micro_batch

MODELS = ("gemma-3-12b", "llama-3.1-8b", "qwen3-30b-a3b", "gpt-oss-20b")
CARDS = ("RTX 4060", "RTX 4090")
CONTEXTS = (4096, 32768)
MARGIN = GIB  # what llama-server's own fit leaves free


def laid_out(
    command: list[str], blueprint: Any, rooms: Any, host: Any, *, fuses: bool = False
) -> list[tuple[int, int, int]]:
    """The memory of every device by the words of a line alone; `fuses` of a build that keeps more for its kernels."""
    told = {name: setting.value for name, setting in parse_settings(command, {}).items()}
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
    question = Question(blueprint, rooms, host, settings, 0).settled()
    needs = question.memory().needs
    fits_by_itself = "fit" not in told and not placed and not pairs and not settings.experts_on_cpu
    if fits_by_itself and rooms:  # then its own fit must have nothing to move
        assert Question(blueprint, rooms, host, settings, MARGIN).settled().left() >= 0, command
    return [(need.weights, need.cache, need.compute) for need in needs]


def promised(devices: Any) -> list[tuple[int, int, int]]:
    return [(one.weights_bytes, one.kv_bytes, one.compute_bytes) for one in devices]


def line(commands: tuple[str, ...]) -> list[str]:
    return next(words for text in commands if (words := shlex.split(line_of(text).text))[0] == "llama-server")


@pytest.mark.parametrize(("model", "card", "context"), list(product(MODELS, CARDS, CONTEXTS)))
def test_plan(model: str, card: str, context: int) -> None:
    system = LiveSystem()
    request = PlanRequest.from_flags({"model": model, "devices": [card], "context": context, "ram_bytes": "64GB"})
    report = planned(system, request)
    blueprint = find_gguf_model(system, model, None).blueprint
    hardware, _ = find_hardware(system, request, blueprint)
    checked = 0
    now = report.current  # what its own fit moves to the host is not on its line
    for option in (*report.options, *([now] if now and "with the host" not in now.name else [])):
        own = not any(change.knob == "model_file" for change in option.settings)
        if option.commands and own:
            where = blueprint, hardware.rooms, hardware.host_room
            builds = [laid_out(line(option.commands), *where, fuses=fuses)[:-1] for fuses in (False, True)]
            assert promised(option.devices) in builds, option.commands  # of an unknown build the larger is counted
            checked += 1
    assert checked


@pytest.mark.parametrize(("model", "card", "context"), list(product(MODELS, CARDS, (None, *CONTEXTS))))
def test_fit(model: str, card: str, context: int | None) -> None:
    system = LiveSystem()
    more = {} if context is None else {"context": context}
    for flags in ({}, {"kv_type": "q8_0"}, {"parallel": 2}, {"parallel": 2, "kv_unified": True}, {"ubatch": 1024}):
        request = Request.from_flags({"model": model, "devices": [card], "ram_bytes": "64GB", **more, **flags})
        report = answer(system, request)
        if report.verdict not in ("fits", "tight"):
            continue
        found = find_gguf_model(system, model, None)
        hardware, _ = find_hardware(system, PlanRequest(model, (card,), 64 * GIB), found.blueprint)
        seen = laid_out(line(report.commands), found.blueprint, hardware.rooms, hardware.host_room)
        assert seen == promised((*report.devices, report.host)), report.command


@pytest.mark.parametrize(("model", "card", "context"), list(product(MODELS, CARDS, CONTEXTS)))
def test_plan_for_ollama(model: str, card: str, context: int) -> None:
    """Whatever memory depends on stands in the Modelfile or in a variable, or is what Ollama does by itself."""
    flags = {"model": model, "devices": [card], "context": context, "ram_bytes": "64GB", "runtime": "ollama"}
    report = planned(LiveSystem(), PlanRequest.from_flags(flags))
    for option in report.options:
        lines = [line_of(text) for text in option.commands]
        text = "\n".join(part.text for part in lines if part.place in (Place.WHOLE_MODELFILE, Place.MODELFILE))
        given = {change.knob: change.value for change in option.settings}
        if not option.commands:
            continue
        assert f"num_ctx {given['context_length']}" in text
        assert f"num_batch {given['batch']}" in text
        kinds = {"f16"} if "kv_cache_type" not in given else {given["kv_cache_type"]}
        assert ("OLLAMA_KV_CACHE_TYPE" in "".join(option.commands)) == (kinds != {"f16"})


@pytest.mark.parametrize(("context", "size"), [(4096, 512), (4097, 1024), (32768, 1024), (32769, 2048)])
def test_the_micro_batch_of_ollama(context: int, size: int) -> None:
    assert ollama_micro_batch(context) == size
