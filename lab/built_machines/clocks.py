"""Clocks: heat, power limits, GPUs and processors that are held down, and what only looks like it."""

from lab.built_machines.amd import AmdCard, add_amd
from lab.built_machines.apple import Mac
from lab.built_machines.built import Built, Write, recording
from lab.built_machines.linux import Cpu, linux
from lab.built_machines.llama_server import PID, Device, Server, serve
from lab.built_machines.nvidia import HW_THERMAL, POWER_CAP, SW_THERMAL, Card
from lab.built_machines.parts import DESKTOP, RTX_4060_TI, RTX_4090, answers, on_card, on_mac, one_card
from lab.built_machines.shapes import LLAMA_8B, QWEN_32B
from lab.built_machines.sources import (
    CPUFREQ,
    HEAT,
    HELD_AMD,
    MAC_HEAT,
    MAC_SPEEDS,
    POWER_AS_EVER,
    REASONS,
    SLOW_CPU,
    STARVED,
    STATES,
)


def machines() -> tuple[Built, ...]:
    """All of them."""
    return (*_nvidia(), *_others(), *_processors())


def _nvidia() -> tuple[Built, ...]:
    hot = RTX_4090._replace(mhz=1200, celsius=89, watts=190, reasons=SW_THERMAL | HW_THERMAL)
    warm = RTX_4090._replace(celsius=88, watts=430)
    capped = RTX_4090._replace(mhz=900, limit_w=150, watts=149, celsius=48, reasons=POWER_CAP)
    normal = RTX_4090._replace(mhz=2750, watts=449, celsius=70, reasons=POWER_CAP)
    held = RTX_4090._replace(mhz=210, memory_mhz_now=405, state=8, busy=99, celsius=36, watts=32)
    starved = RTX_4060_TI._replace(mhz=405, state=5, busy=14, celsius=45, watts=38)
    spilled = on_card(RTX_4060_TI, QWEN_32B, 46, answered=answers(5.6, 512, 1.9), busy=True)
    return (
        Built(
            "rtx_4090_thermal_throttling", "gpu_thermal_throttling",
            "an RTX 4090 at 89 °C with both thermal bits set, 1200 of 3105 MHz while it generates", HEAT,
            _on_4090(hot, 58.0),
        ),
        Built(
            "rtx_4090_hot_at_full_speed", "",
            "an RTX 4090 at 88 °C without a reason bit, at full clocks and full speed", REASONS,
            _on_4090(warm, 131.0), "normal",
        ),
        Built(
            "rtx_4090_power_limited", "gpu_power_capped",
            "an RTX 4090 with its limit at 150 of 450 W: 900 of 3105 MHz, power at the limit", REASONS,
            _on_4090(capped, 64.0),
        ),
        Built(
            "rtx_4090_power_cap_at_full_speed", "",
            "an RTX 4090 at its default limit with the power bit set, as under any full load", POWER_AS_EVER,
            _on_4090(normal, 129.0), "normal",
        ),
        Built(
            "rtx_4090_held_at_p8", "gpu_held_at_low_clocks",
            "an RTX 4090 that stays in P8 at 210 MHz, busy, cold and at 32 W", STATES, _on_4090(held, 9.0),
        ),
        Built(
            "rtx_4060_ti_starved_at_low_clocks", "weights_spill_to_ram",
            "a 32B model with 46 of 64 layers on an RTX 4060 Ti: the GPU waits for the CPU, so its clocks are low",
            STARVED, recording(one_card(starved, spilled)),
        ),
    )  # fmt: skip


def _on_4090(card: Card, tokens_per_s: float) -> Write:
    return recording(one_card(card, on_card(card, answered=answers(tokens_per_s), busy=True)))


def _others() -> tuple[Built, ...]:
    held = AmdCard(
        "AMD Radeon RX 9070 XT", "7550", "c0", 120001, 16304, 5900, busy=99, mhz=500, max_mhz=3460, watts=48,
        limit_w=304, celsius=41,
    )  # fmt: skip
    card = Device("ROCm0", held.name, held.vram_mib, held.vram_mib - 300, 32, output=True)
    start = (
        "I ggml_cuda_init: found 1 ROCm devices (Total VRAM: 16304 MiB):",
        "I   Device 0: AMD Radeon RX 9070 XT, gfx1201 (0x1201), VMM: no, Wave Size: 32, VRAM: 16304 MiB",
    )
    server = Server(LLAMA_8B, (card,), answers(24.0), start=start, busy=True)
    hot = Mac("Apple M2 Max", "Mac14,6", 38, 8, 4, 64, free_gib=30, wired_gib=9, in_use_gib=6, thermal="Heavy")
    cool = hot._replace(thermal="Nominal")
    return (
        Built(
            "rx_9070_xt_held_at_500_mhz", "gpu_held_at_low_clocks",
            "an RX 9070 XT that computes at 500 of 3460 MHz, cool and at 48 of 304 W",
            HELD_AMD, recording(add_amd(serve(linux(memory=DESKTOP), server), PID, held)),
        ),
        Built(
            "m2_max_thermal_pressure", "gpu_thermal_throttling",
            "a MacBook Pro with an M2 Max under thermal pressure Heavy, at two fifths of its speed",
            MAC_HEAT, on_mac(hot, 22.0),
        ),
        Built(
            "m2_max_healthy", "", "the same MacBook Pro cool, with plenty of memory free",
            MAC_SPEEDS, on_mac(cool, 54.0), "normal",
        ),
    )  # fmt: skip


def _processors() -> tuple[Built, ...]:
    held = Cpu("12th Gen Intel(R) Core(TM) i5-1235U", 8, 0, mhz=800, max_mhz=4400, governor="powersave")
    healthy = held._replace(mhz=3300)
    on_gpu = on_card(RTX_4090, answered=answers(131.0), busy=True)
    return (
        Built(
            "laptop_cpu_at_800_mhz", "cpu_clock_limited",
            "a laptop without a GPU whose CPU stays at 800 of 4400 MHz while all cores compute",
            SLOW_CPU, _on_cpu(held, 2.2),
        ),
        Built(
            "laptop_cpu_healthy", "", "the same laptop at 3300 MHz", CPUFREQ, _on_cpu(healthy, 7.0), "normal",
        ),
        Built(
            "slow_cpu_beside_a_full_gpu", "",
            "a CPU at 800 of 4850 MHz beside an RTX 4090 that holds the whole model", CPUFREQ,
            recording(one_card(RTX_4090, on_gpu, Cpu(mhz=800, governor="powersave"))), "normal",
        ),
    )  # fmt: skip


def _on_cpu(cpu: Cpu, tokens_per_s: float) -> Write:
    server = Server(LLAMA_8B, (), answers(tokens_per_s, 128, 6.0), threads=8, cpus=8, cpu=(cpu.model, 31900), busy=True)
    return recording(serve(linux(cpu, DESKTOP._replace(total_gib=32, available_gib=20), busy_cpus=8.0), server))
