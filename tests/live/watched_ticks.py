"""Sample ticks for the tests of the live screen."""

from unslow.facts.values import GIB
from unslow.live.tick import (
    DeviceNow,
    HostNow,
    PhasesNow,
    RequestNow,
    RequestsNow,
    ServerNow,
    SpeedNow,
    Suspicion,
    Tick,
    Wall,
    WallPart,
)
from unslow.page.view import MemoryBar, MemoryPart
from unslow.think.report import Cost, Range

SERVER = ServerNow(
    runtime="llama.cpp b6500", model="Qwen3 8B Q4_K_M", url="http://127.0.0.1:8080", pid=7, state="answers"
)
GPU = DeviceNow(
    number=0, name="RTX 4090", busy=0.97, clock_hz=2.52e9, power_w=412.0, power_limit_w=450.0, temperature_c=71.0,
    vram_used_bytes=8.0 * GIB, vram_total_bytes=24.0 * GIB, reasons=("sw_power_cap",),
)  # fmt: skip
BAR = MemoryBar(
    name="RTX 4090",
    capacity_bytes=24 * GIB,
    parts=(
        MemoryPart(kind="weights", name="weights", bytes=5 * GIB),
        MemoryPart(kind="kv", name="KV cache", bytes=2 * GIB),
        MemoryPart(kind="stranger", name="game", bytes=GIB),
        MemoryPart(kind="free", name="free", bytes=16 * GIB),
    ),
)
FOUND = Suspicion(
    kind="found", title="The GPU is held back by its power limit", because="sw_power_cap in 80% of the samples",
    cause="power_capped", cost=Cost(seconds=0.002, per="token"), speedup=1.31, fix="sudo nvidia-smi -pl 450",
)  # fmt: skip


def decoding(rate: float = 96.4, **changes: object) -> Tick:
    """A server with two requests."""
    facts = {
        "at": "2026-01-01T10:20:30+00:00",
        "seconds": 83.0,
        "servers": ("llama.cpp Qwen3 8B http://127.0.0.1:8080",),
        "server": SERVER,
        "speed": SpeedNow(
            tokens_per_s=rate, each_tokens_per_s=rate / 2, expected=Range(low=60.0, mid=80.0, high=100.0),
            ceiling=120.0,
        ),
        "requests": RequestsNow(
            running=2,
            waiting=1,
            each=(
                RequestNow(slot=0, phase="decode", tokens=311, tokens_per_s=rate / 2, prompt_tokens=1020),
                RequestNow(slot=1, phase="prefill", prompt_tokens=4000, prompt_read=0.25),
            ),
        ),
        "phases": PhasesNow(now="decode", minute={"decode": 0.62, "idle": 0.33, "prefill": 0.05}, queued=0.1),
        "wall": Wall(
            phase="decode",
            per="token",
            parts=(
                WallPart(part="device memory reads", seconds=0.0061, share=0.61),
                WallPart(part="launches", seconds=0.0039, share=0.39),
            ),
            measured=True,
        ),
        "devices": (GPU,),
        "memory": (BAR,),
        "host": HostNow(
            cpus=16, busy_cpus=2.1, own_cpus=1.0, others_cpus=1.1, ram_total_bytes=64.0 * GIB,
            ram_available_bytes=40.0 * GIB, swap_in_bytes_per_s=0.0, disk_read_bytes_per_s=3e6,
        ),
        "suspicion": FOUND,
    }  # fmt: skip
    return Tick(**{**facts, **changes})
