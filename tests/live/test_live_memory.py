"""Memory bars of the live screen: the parts add up to the capacity."""

import msgspec
import pytest
from cases import cpu_case, gpu_case, with_facts

from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.runtime import Buffer
from unslow.facts.values import GIB, not_found, reported_fact
from unslow.live.tick import MOST_OTHERS, NOT_TOLD, OTHERS, REST, UNNAMED, HostNow, bars_of
from unslow.page.view import MemoryBar, MemoryPart
from unslow.think.case.view import CaseView


def buffers(*sizes: tuple[str, str, int]):
    return [Buffer(device=device, kind=kind, bytes=size, on_gpu="CUDA" in device) for device, kind, size in sizes]


def card(index: int = 0, *processes: GpuProcess) -> Gpu:
    return Gpu(
        index=index,
        name=reported_fact("RTX 4090", "nvml"),
        vram_total_bytes=reported_fact(24 * GIB, "nvml"),
        vram_used_bytes=reported_fact(10 * GIB, "nvml"),
        processes=reported_fact(list(processes), "nvml"),
    )


def with_cards(*cards: Gpu, **runtime):
    case = gpu_case()
    machine = msgspec.structs.replace(case.machine, gpus=reported_fact(cards, "nvml"))
    facts = {name: reported_fact(value, "log") for name, value in runtime.items()}
    return msgspec.structs.replace(case, machine=machine, runtime=case.runtime.with_facts(**facts))


def ram(total: float, available: float, own: float) -> HostNow:
    return HostNow(ram_total_bytes=total, ram_available_bytes=available, own_ram_bytes=own)


def sizes(bar) -> dict[str, int]:
    return {part.name: part.bytes for part in bar.parts}


def test_gpu_bar_has_server_other_process_and_free_parts():
    game = GpuProcess(pid=99, name=reported_fact("/usr/bin/game", "nvml"), vram_bytes=reported_fact(2 * GIB, "nvml"))
    own = GpuProcess(pid=7, name=reported_fact("llama-server", "nvml"), vram_bytes=reported_fact(9 * GIB, "nvml"))
    case = with_cards(
        card(0, game, own),
        pid=7,
        buffers=buffers(
            ("CUDA0", "model", 6 * GIB), ("CUDA0", "kv", GIB), ("CUDA0", "compute", GIB), ("CPU", "model", 5)
        ),
    )
    (bar,) = bars_of(CaseView(case), {0: 11.0 * GIB}, HostNow())
    own = {"weights": 6 * GIB, "KV cache": GIB, "buffers": GIB, REST: GIB}
    assert sizes(bar) == {**own, "game": 2 * GIB, "free": 13 * GIB}
    assert sum(part.bytes for part in bar.parts) == bar.capacity_bytes


def test_each_gpu_has_its_own_buffers():
    case = with_cards(
        card(0),
        card(1),
        buffers=buffers(("CUDA0", "model", 6 * GIB), ("CUDA1", "model", 4 * GIB), ("CUDA", "state", 7)),
    )
    first, second = bars_of(CaseView(case), {}, HostNow())
    assert (sizes(first)["weights"], sizes(second)["weights"]) == (6 * GIB, 4 * GIB)
    assert sizes(first)[UNNAMED] == 4 * GIB - 7, "as the probe saw it, where nobody samples"


def laid_out(gpu: dict[str, int], host: dict[str, int], **changes):
    def bar(parts, *, is_host):
        found = tuple(MemoryPart(kind=kind, name=f"the {kind}", bytes=size) for kind, size in parts.items())
        return MemoryBar(name="", is_host=is_host, capacity_bytes=1, parts=found, **{"fits": True, **changes})

    return bar(gpu, is_host=False), bar(host, is_host=True)


LAID = {"weights": 6 * GIB, "kv": 2 * GIB, "compute": GIB, "stranger": 3, "free": 5}


def test_server_without_buffers_uses_the_calculated_layout():
    case = with_cards(card(0), pid=7)
    case = with_facts(case, {"runtime.memory.buffers": not_found("no log")})
    bars = bars_of(CaseView(case), {}, ram(16.0 * GIB, 12.0 * GIB, 3.0 * GIB), laid_out(LAID, {"weights": GIB}))
    own = {"weights": 6 * GIB, "KV cache": 2 * GIB, "buffers": GIB}
    assert sizes(bars[0]) == {**own, UNNAMED: GIB, "free": 14 * GIB}
    assert sizes(bars[1])["weights"] == GIB
    for bar in bars:
        assert sum(part.bytes for part in bar.parts) == bar.capacity_bytes


@pytest.mark.parametrize(
    "laid", [(), laid_out(LAID, {}, fits=False), laid_out({**LAID, "weights": 9 * GIB}, {}), laid_out(LAID, {})[1:]]
)
def test_layout_that_does_not_fit_the_used_vram_is_ignored(laid):
    case = with_facts(with_cards(card(0), pid=7), {"runtime.memory.buffers": not_found("no log")})
    (bar,) = bars_of(CaseView(case), {}, HostNow(), laid)
    assert sizes(bar) == {NOT_TOLD: 10 * GIB, "free": 14 * GIB}


def test_vram_of_the_server_process_is_its_own():
    own = GpuProcess(pid=7, name=reported_fact("llama-server", "nvml"), vram_bytes=reported_fact(9 * GIB, "nvml"))
    case = with_facts(with_cards(card(0, own), pid=7), {"runtime.memory.buffers": not_found("no log")})
    (bar,) = bars_of(CaseView(case), {}, HostNow())
    assert sizes(bar) == {REST: 9 * GIB, UNNAMED: GIB, "free": 14 * GIB}


def test_buffers_over_capacity_show_the_excess():
    (bar,) = bars_of(CaseView(with_cards(card(), buffers=buffers(("CUDA0", "model", 30 * GIB)))), {}, HostNow())
    assert bar.parts[-1].kind == "lacking"
    assert bar.parts[-1].bytes == 6 * GIB


def test_many_other_processes_are_grouped():
    crowd = [GpuProcess(pid=n, vram_bytes=reported_fact(n * GIB // 10, "nvml")) for n in range(1, 8)]
    (bar,) = bars_of(CaseView(with_cards(card(0, *crowd))), {}, HostNow())
    strangers = [part for part in bar.parts if part.kind == "stranger"]
    assert len(strangers) == MOST_OTHERS + 1
    assert strangers[0].name == "process 7"
    assert strangers[-1].bytes == pytest.approx(0.6 * GIB, abs=9)


def host(case, own=3 * GIB):
    (bar,) = bars_of(CaseView(case), {}, ram(16.0 * GIB, 12.0 * GIB, own))
    return bar


def test_mmapped_weights_count_as_the_servers_memory():
    case = with_facts(
        cpu_case(), {"runtime.memory.buffers": buffers(("CPU_Mapped", "model", 2 * GIB), ("CPU", "kv", GIB // 2))}
    )
    bar = host(case)
    assert sizes(bar)["weights"] == 2 * GIB
    assert sizes(bar)[REST] == GIB // 2
    assert sizes(bar)[OTHERS] == 3 * GIB, "of four in use one is the server's"
    assert sum(part.bytes for part in bar.parts) == 16 * GIB


def test_host_memory_without_buffers_uses_model_and_context_size():
    case = with_facts(cpu_case(), {"runtime.memory.buffers": not_found("no"), "runtime.cache.bytes": 1000})
    assert sizes(host(case, 90 * GIB))["KV cache"] == 1000
    laid_out = with_facts(case, {"runtime.cache.bytes": not_found("no")})
    assert sizes(host(laid_out, 90 * GIB))["KV cache"] > 1000
    nothing = with_facts(laid_out, {"model.layers": not_found("no"), "runtime.context.length": not_found("no")})
    assert "KV cache" not in sizes(host(nothing, 90 * GIB))


def test_with_a_gpu_and_no_buffers_host_parts_are_unknown():
    case = with_facts(
        gpu_case(), {"runtime.memory.buffers": not_found("no"), "machine.gpus.0.vram_total_bytes": not_found("no")}
    )
    assert {part.name for part in host(case).parts} == {REST, OTHERS, "free"}


def test_host_without_samples_has_no_bar():
    assert bars_of(CaseView(cpu_case()), {}, HostNow()) == ()
