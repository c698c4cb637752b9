"""Linux desktops with Ollama: AMD cards without libraries, processors with a GPU of their own, containers, settings."""

import json

from lab.built_machines.amd import AmdCard, add_amd
from lab.built_machines.built import Built, Write, snapshot
from lab.built_machines.linux import Cpu, Memory, linux
from lab.built_machines.llama_server import Device, Server
from lab.built_machines.nvidia import nvml
from lab.built_machines.ollama import CHILD, LOG, PID, URL, Load, serve_ollama
from lab.built_machines.ollama_app import STAMP
from lab.built_machines.parts import DESKTOP, RTX_3060, RTX_3090, answers, held_mib, on_card
from lab.built_machines.shapes import GPT_OSS_120B, LLAMA_3B, LLAMA_8B, Shape
from lab.built_machines.sources import APU, CONTAINER, GTT_LIMIT, NO_GFX, PARTIAL, RELOADS
from lab.built_machines.world import World

from unslow.facts.run import Run
from unslow.facts.values import measured_fact

ONCE = (Load(4096, 3.1, 6.0),)
RX_6600 = AmdCard(
    "AMD Radeon RX 6600", "73ff", "c7", 100302, 8176, 0, busy=0, mhz=500, max_mhz=2491, watts=6, limit_w=100,
)  # fmt: skip
RADEON_780M = AmdCard(
    "AMD Radeon 780M", "1900", "c2", 110003, 512, 210, 15800, 40, busy=1, mhz=800, max_mhz=2700, watts=12, celsius=49,
    integrated=True,
)  # fmt: skip
STRIX_HALO = AmdCard(
    "Radeon 8060S Graphics", "1586", "c1", 110501, 512, 300, 63968, 62100, busy=96, mhz=2900, max_mhz=2900, watts=95,
    celsius=71, integrated=True,
)  # fmt: skip
HALF = STRIX_HALO._replace(gtt_mib=47_900, gtt_used_mib=46_800)
"""What the kernel lends by default: half of 96 GiB."""
MAX_395 = Cpu("AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", 16, mhz=4800, max_mhz=5187)
FRAMEWORK = Memory(124.9, 50, 1, 120.0, 45.0)
"""LPDDR5X-8000 on 256 bits: 256 GB/s by its data sheet, of which the processor's cores reach about half."""
RYZEN_8845 = Cpu("AMD Ryzen 7 8845HS w/ Radeon 780M Graphics", 8, mhz=4400, max_mhz=5137)
N100 = Cpu("Intel(R) N100", 4, mhz=2900, max_mhz=3400)
NO_DEVICE = 'id=cpu library=cpu compute="" name=cpu description=cpu libdirs=ollama driver="" type="" total="{gib} GiB"'


def machines() -> tuple[Built, ...]:
    """All of them."""
    return (*_amd(), *_apus(), *_nvidia())


def _amd() -> tuple[Built, ...]:
    dropped = (
        'WARN runner.go:512 msg="dropping ROCm device — no rocblas support for gfx target" gfx_target=gfx1032 '
        'hint="set HSA_OVERRIDE_GFX_VERSION to a supported target"'
    )
    integrated = (
        'INFO runner.go:405 msg="dropping integrated GPU; to enable, set OLLAMA_IGPU_ENABLE=1" id=0 library=ROCm '
        'compute=gfx1103 name=ROCm0 description="AMD Radeon 780M Graphics"'
    )
    small = Memory(30.6, 19, 1, 62.0, 26.0)
    return (
        Built(
            "ollama_rx_6600_without_rocblas", "gpu_architecture_unsupported",
            "an RX 6600 (gfx1032) that Ollama drops for want of libraries: an 8B model on the CPU", NO_GFX,
            _on_cpu(linux(memory=DESKTOP), LLAMA_8B, 7.2, dropped, RX_6600), also=("gpu_backend_not_loaded",),
        ),
        Built(
            "ollama_drops_the_radeon_780m", "gpu_backend_not_loaded",
            "a laptop whose only GPU is the processor's own, which Ollama leaves alone unless it is told", APU,
            _on_cpu(linux(RYZEN_8845, small), LLAMA_8B, 9.6, integrated, RADEON_780M),
        ),
        Built(
            "ollama_on_an_n100", "", "a 3B model on a mini PC that has no GPU to speak of", APU,
            _on_cpu(linux(N100, Memory(15.4, 9, 1, 22.0, 11.0)), LLAMA_3B, 6.4, "", None), "normal",
        ),
    )  # fmt: skip


def _apus() -> tuple[Built, ...]:
    full = STRIX_HALO._replace(gtt_mib=110_000, gtt_used_mib=66_900)
    return (
        Built(
            "strix_halo_gtt_limit", "unified_memory_pressure",
            "gpt-oss 120B at 131,072 tokens on 96 GiB of which the kernel lets the GPU have half: 24 of 37 layers fit",
            GTT_LIMIT, _on_apu(HALF, "ROCm0", 23, 24.0, 131072, FRAMEWORK._replace(total_gib=93.6)),
            also=("weights_spill_to_ram",),
        ),
        Built(
            "strix_halo_all_in_gtt", "",
            "the same with the limit raised to 107 GiB: all of it lies in GTT, where such a GPU keeps everything",
            GTT_LIMIT, _on_apu(full, "Vulkan0", 36, 44.0, 32768), "normal",
        ),
    )  # fmt: skip


def _on_apu(
    card: AmdCard, name: str, layers: int, tokens_per_s: float, context: int, memory: Memory = FRAMEWORK
) -> Write:
    total = card.vram_mib + card.gtt_mib
    device = Device(name, card.name, total, total - 700, layers, output=True)
    server = Server(
        GPT_OSS_120B, (device,), answers(tokens_per_s, 512, 2.1), context=context, threads=16, cpus=16,
        cpu=(MAX_395.model, 127_900), system="Linux x86_64", start=(
            f"I ggml_cuda_init: found 1 ROCm devices (Total VRAM: {total} MiB):",
            f"I   Device 0: {card.name}, gfx1151 (0x1151), VMM: no, Wave Size: 32, VRAM: {total} MiB",
        ) if name == "ROCm0" else (f"I ggml_vulkan: 0 = {card.name} (RADV GFX1151) (radv) | uma: 1 | fp16: 1",),
    )  # fmt: skip
    world = serve_ollama(
        linux(MAX_395, memory), server, (Load(context, 38.0, 52.0),), name="gpt-oss:120b", family="gptoss",
        parameter_size="116.8B", quantization_level="MXFP4",
    )  # fmt: skip
    return _measured(add_amd(world, CHILD, card), tokens_per_s)


def _nvidia() -> tuple[Built, ...]:
    whole = on_card(RTX_3060, answered=answers(49.0), context=4096)
    half = on_card(RTX_3060, LLAMA_8B, 19, answered=answers(11.0, 512, 0.5), context=4096)
    turns = tuple(Load(4096, 5.8, 9.0) for _ in range(6))
    return (
        Built(
            "ollama_container_without_gpus", "gpu_backend_not_loaded",
            "Ollama in a container that was started without --gpus on a machine with an RTX 3090", CONTAINER,
            _boxed(),
        ),
        Built(
            "ollama_two_models_take_turns", "model_reloads_between_requests",
            "OLLAMA_MAX_LOADED_MODELS=1 and two models of 8B that are asked in turn: six loads", RELOADS,
            _on_nvidia(whole, turns, "OLLAMA_MAX_LOADED_MODELS:1", other=True),
        ),
        Built(
            "ollama_num_gpu_20_and_keep_alive_0", "gpu_layers_set_too_low",
            "a Modelfile with num_gpu 20 beside 12 GB, and OLLAMA_KEEP_ALIVE=0: each of six requests loads it", PARTIAL,
            _on_nvidia(half._replace(args=("-ngl", "20")), turns, "OLLAMA_KEEP_ALIVE:0s"),
            also=("model_reloads_between_requests",),
        ),
    )  # fmt: skip


def _on_nvidia(server: Server, loads: tuple[Load, ...], variables: str, *, other: bool = False) -> Write:
    world = serve_ollama(linux(memory=DESKTOP), server, loads)
    log = str(world.files[f"/proc/{PID}/root{LOG}"]).replace("OLLAMA_KEEP_ALIVE:5m0s", variables)
    if other:
        parts = log.split('msg="starting llama-server"')
        parts = [p.replace("ab" * 32, "cd" * 32) if n % 2 else p for n, p in enumerate(parts)]
        log = 'msg="starting llama-server"'.join(parts)
    if server.args:
        log = log.replace("--flash-attn auto", f"--flash-attn auto {' '.join(server.args)}")
        words = str(world.files[f"/proc/{CHILD}/cmdline"])
        world.files[f"/proc/{CHILD}/cmdline"] = words + "".join(f"{word}\0" for word in server.args)
        shown = json.loads(world.http[f"POST {URL}/api/show"])
        world.http[f"POST {URL}/api/show"] = json.dumps(shown | {"parameters": "num_gpu    20"})
    world.files[f"/proc/{PID}/root{LOG}"] = log
    name, _, value = variables.partition(":")
    world.files[f"/proc/{PID}/environ"] = f"OLLAMA_HOST=127.0.0.1:11434\0{name}={value}\0"
    used = RTX_3060._replace(used_mib=held_mib(server), busy=60)
    world.add(asks={"nvml": nvml(CHILD, "/usr/lib/ollama/llama-server", used)})
    return _measured(world, server.answered[0].tokens_per_s)


def _boxed() -> Write:
    container = "3f1c0de" + "9" * 57
    group = f"0::/system.slice/docker-{container}.scope\n"
    looking = 'INFO runner.go:67 msg="discovering available GPUs..."'
    world = _host_only(linux(memory=DESKTOP), LLAMA_8B, 7.4, looking, "62.7")
    for pid in (PID, CHILD):
        world.files[f"/proc/{pid}/cgroup"] = group
        world.links[f"/proc/{pid}/fd/1"] = world.links[f"/proc/{pid}/fd/2"] = "pipe:[90210]"
    log = str(world.files.pop(f"/proc/{PID}/root{LOG}"))
    world.commands[f"docker logs --tail 20000 {container[:12]}"] = log
    world.files[f"/sys/fs/cgroup/system.slice/docker-{container}.scope/cpu.max"] = "max 100000\n"
    idle = RTX_3090._replace(busy=0, mhz=210, state=8, watts=22, celsius=34, reasons=1)
    return _measured(world.add(asks={"nvml": nvml(CHILD, "llama-server", idle)}), 7.4)


def _on_cpu(world: World, shape: Shape, tokens_per_s: float, remark: str, card: AmdCard | None) -> Write:
    _host_only(world, shape, tokens_per_s, remark, "62.7")
    if card:
        add_amd(world, CHILD, card)
        world.asks["drm clients"] = []
    return _measured(world, tokens_per_s)


def _host_only(world: World, shape: Shape, tokens_per_s: float, remark: str, gib: str) -> World:
    """The world with an Ollama that found nothing but the CPU."""
    cores = int(str(world.files["/sys/devices/system/cpu/online"]).strip().partition("-")[2]) + 1
    server = Server(
        shape, (), answers(tokens_per_s, 512, 76 / tokens_per_s), context=4096, threads=cores, cpus=cores
    )  # fmt: skip
    serve_ollama(world, server, ONCE)
    place = f"/proc/{PID}/root{LOG}"
    before, _, rest = str(world.files[place]).partition('msg="starting llama-server"')
    first, _, stamp = before.rstrip("\n").rpartition("\n")
    level, _, text = remark.partition(" ")
    said = [f"{STAMP.format(hour='10', minute=0, second=1, level=level)}{text}"] if remark else []
    head = STAMP.format(hour="10", minute=0, second=2, level="INFO")
    listed = f'{head}types.go:60 msg="inference compute" {NO_DEVICE.format(gib=gib)}'
    world.files[place] = "\n".join([first, *said, listed, f'{stamp}msg="starting llama-server"{rest}'])
    return world


def _measured(world: World, tokens_per_s: float) -> Write:
    return snapshot(world, Run(decode_tokens_per_s=measured_fact(tokens_per_s, "three completions")))
