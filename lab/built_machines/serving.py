"""Servers and their users: queues, full caches, reloads, thinking, versions, kernels, estimates."""

import msgspec
from lab.built_machines.built import Built, Write, snapshot
from lab.built_machines.linux import Cpu, linux
from lab.built_machines.llama_server import Server
from lab.built_machines.nvidia import Card, nvml
from lab.built_machines.ollama import CHILD, Load, serve_ollama
from lab.built_machines.parts import DESKTOP, RTX_3060, RTX_4090, answers, held_mib, on_card, one_card
from lab.built_machines.shapes import QWEN_14B
from lab.built_machines.sources import AWQ, CAREFUL, COUNTERS, FRAGMENTED, PREEMPTED, REGRESSED, RELOADS, THINKING
from lab.built_machines.vllm import PID as VLLM
from lab.built_machines.vllm import Serving, llama_8b, serve_vllm

from unslow.facts.run import Earlier, Run, Traffic
from unslow.facts.runtime import AllocationFailure, Runtime, RuntimeMemory
from unslow.facts.values import measured_fact, reported_fact

OUT_OF_MEMORY = (
    "CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has a total capacity of 23.64 GiB of which {free} GiB is "
    "free. Of the allocated memory 15.02 GiB is allocated by PyTorch, and {spare} GiB is reserved by PyTorch but "
    "unallocated."
)
METRICS = "/metrics"
REPORTED = "speeds of the report, which names no GPU"
AWQ_BYTES, BF16_BYTES = 5_730_000_000, 16_060_000_000
SERVER = DESKTOP._replace(total_gib=128, available_gib=100)


def machines() -> tuple[Built, ...]:
    """All of them."""
    return (*_vllm(), *_kernels(), *_ollama(), *_fragmented(), *_users())


def _vllm() -> tuple[Built, ...]:
    model = "meta-llama/Llama-3.1-8B-Instruct"
    full = Serving(model, running=24, waiting=31, cache_used=0.998, preemptions=812, token_s=0.052, queue_s=9.4,
                   first_token_s=10.1, cache_tokens=31_000)  # fmt: skip
    busy = Serving(model, running=24, waiting=0, cache_used=0.61, token_s=0.024, queue_s=0.01, first_token_s=0.3)
    queue = Serving(model, ("--max-num-seqs", "8"), running=8, waiting=22, cache_used=0.24, token_s=0.0195,
                    queue_s=14.2, first_token_s=14.6)  # fmt: skip
    return (
        Built(
            "vllm_preemptions", "kv_cache_preemption",
            "vLLM on an RTX 4090 with a full KV cache: 17 requests thrown out in ten seconds while 31 wait", PREEMPTED,
            _serving(full, Traffic(
                seconds=10.0, looks=20, running=24.0, waiting=31.0, tokens_per_s=measured_fact(460.0, METRICS),
                preemptions=measured_fact(17, METRICS), cache_used=measured_fact(0.998, METRICS),
            )), also=("queueing",),
        ),
        Built(
            "vllm_busy_without_preemption", "",
            "the same with room in its cache: 24 requests at once, none waits, none is thrown out", PREEMPTED,
            _serving(busy, Traffic(
                seconds=10.0, looks=20, running=24.0, waiting=0.0, tokens_per_s=measured_fact(1000.0, METRICS),
                preemptions=measured_fact(0, METRICS), cache_used=measured_fact(0.61, METRICS),
            )), "normal",
        ),
        Built(
            "vllm_queue_of_eight", "queueing",
            "vLLM that was told to answer eight at a time, with 22 more waiting and a cache that is a quarter full",
            COUNTERS,
            _serving(queue, Traffic(
                seconds=10.0, looks=20, running=8.0, waiting=22.0, tokens_per_s=measured_fact(410.0, METRICS),
                preemptions=measured_fact(0, METRICS), cache_used=measured_fact(0.24, METRICS),
            )), also=("gpu_underused_by_one_stream",),
        ),
    )  # fmt: skip


def _serving(serving: Serving, traffic: Traffic) -> Write:
    card = RTX_4090._replace(used_mib=21900, busy=99)
    world = serve_vllm(linux(Cpu(fast=16), SERVER), serving).add(
        asks={"nvml": nvml(VLLM + 1, "VLLM::EngineCore", card)}
    )
    run = Run(traffic=measured_fact(traffic, "20 looks at /metrics"))
    return snapshot(world, run, model=llama_8b(BF16_BYTES, "bfloat16"))


def _kernels() -> tuple[Built, ...]:
    model = "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4"
    plain = Serving(model, ("--quantization", "awq"), token_s=1 / 23, first_token_s=0.1)
    marlin = Serving(model, ("--quantization", "awq_marlin"), token_s=1 / 123, first_token_s=0.1)
    return (
        Built(
            "vllm_plain_awq_kernel", "slow_kernel_for_architecture",
            "an AWQ model on an RTX 4090 with --quantization awq: 23 instead of 123 tokens per second", AWQ,
            _quantised(plain, 23.0), figures=REPORTED,
        ),
        Built(
            "vllm_awq_marlin_kernel", "", "the same with awq_marlin", AWQ, _quantised(marlin, 123.0), "normal",
            figures=REPORTED,
        ),
    )  # fmt: skip


def _quantised(serving: Serving, tokens_per_s: float) -> Write:
    card = RTX_4090._replace(used_mib=21900, busy=99)
    world = serve_vllm(linux(Cpu(fast=16), SERVER), serving).add(
        asks={"nvml": nvml(VLLM + 1, "VLLM::EngineCore", card)}
    )
    run = Run(decode_tokens_per_s=measured_fact(tokens_per_s, "three completions"))
    return snapshot(world, run, model=llama_8b(AWQ_BYTES, "AWQ"))


def _ollama() -> tuple[Built, ...]:
    server = on_card(RTX_3060, answered=answers(49.0, 512, 0.35))
    turns = tuple(Load(context, 6.1, 9.0) for context in (4096, 16384, 4096, 16384, 4096, 16384))
    some = on_card(RTX_3060, QWEN_14B, 24, answered=answers(6.4, 512, 1.6), context=4096)
    return (
        Built(
            "ollama_reloads_for_other_contexts", "model_reloads_between_requests",
            "two clients that ask Ollama for 4096 and 16,384 tokens of context in turn: six loads of six seconds",
            RELOADS, _on_ollama(RTX_3060, server, turns),
        ),
        Built(
            "ollama_first_request_loads", "", "the same after the first request, which had to wait for the one load",
            RELOADS, _on_ollama(RTX_3060, server, turns[:1]), "normal",
        ),
        Built(
            "ollama_leaves_layers_out", "memory_estimate_too_careful",
            "Ollama puts 25 of 49 layers of a 14B model on an RTX 3060 and leaves 6 GiB of it free", CAREFUL,
            _on_ollama(RTX_3060, some, (Load(4096, 7.0, 9.0),)), also=("weights_spill_to_ram",),
        ),
    )  # fmt: skip


def _on_ollama(card: Card, server: Server, loads: tuple[Load, ...]) -> Write:
    used = card._replace(used_mib=held_mib(server), busy=60)
    world = serve_ollama(linux(memory=DESKTOP), server._replace(context=loads[-1].context), loads)
    world.add(asks={"nvml": nvml(CHILD, "/usr/lib/ollama/llama-server", used)})
    speed = server.answered[0].tokens_per_s
    return snapshot(world, Run(decode_tokens_per_s=measured_fact(speed, "three completions")))


def _fragmented() -> tuple[Built, ...]:
    pieces, full = (
        OUT_OF_MEMORY.format(free=free, spare=spare) for free, spare in (("0.71", "6.41"), ("0.12", "0.21"))
    )
    return (
        Built(
            "pytorch_memory_in_pieces", "vram_fragmented",
            "PyTorch on an RTX 4090 finds no 1.96 GiB in one piece while 6.41 GiB lie unused in its pool", FRAGMENTED,
            _failing(pieces), "failed", ("memory_allocation_failed",), "sizes chosen",
        ),
        Built(
            "pytorch_out_of_memory", "memory_allocation_failed",
            "the same with only 0.21 GiB unused: there is no room at all", FRAGMENTED, _failing(full), "failed",
            figures="sizes chosen",
        ),
    )  # fmt: skip


def _failing(message: str) -> Write:
    """A vLLM that ended with PyTorch's words, and answers nobody."""
    card = RTX_4090._replace(used_mib=0, busy=0, mhz=210, state=8, watts=15, celsius=36, reasons=1)
    serving = Serving("meta-llama/Llama-3.1-8B-Instruct")
    world = serve_vllm(linux(Cpu(fast=16), SERVER), serving).add(
        asks={"nvml": nvml(VLLM + 1, "VLLM::EngineCore", card)}
    )
    failure = AllocationFailure(
        device="CUDA0", what="unknown", asked_bytes=reported_fact(2104533975, "log"), message=message
    )
    world.http.clear()
    runtime = Runtime(
        state=reported_fact("failed", "log"), memory=RuntimeMemory(allocation_failure=reported_fact(failure, "log"))
    )
    return snapshot(world, model=llama_8b(BF16_BYTES, "bfloat16"), runtime=runtime)


def _users() -> tuple[Built, ...]:
    server = on_card(RTX_4090, answered=answers(131.0))
    slower = on_card(RTX_4090, answered=answers(72.0), busy=True)
    earlier = Earlier(
        bench="7f3a", taken_at="2025-12-01T10:00:00+00:00", decode_tokens_per_s=131.0, now_tokens_per_s=72.0,
        slower=True, version="b9800-1111111", version_now="b9999-0c1e570",
    )  # fmt: skip
    also = msgspec.structs.replace(earlier, also_changed=("the context",))
    return (
        Built(
            "thinking_before_a_short_answer", "answer_is_mostly_thinking",
            "1900 tokens of thinking before 60 of the answer, at the speed that the card gives", THINKING,
            snapshot(one_card(RTX_4090, server), Run(
                thinking_tokens=reported_fact(1900, "usage"), answer_tokens=reported_fact(60, "usage"),
            )), "slow",
        ),
        Built(
            "little_thinking", "", "40 tokens of thinking before 300 of the answer", THINKING,
            snapshot(one_card(RTX_4090, server), Run(
                thinking_tokens=reported_fact(40, "usage"), answer_tokens=reported_fact(300, "usage"),
            )), "normal",
        ),
        Built(
            "slower_since_another_build", "runtime_version_regressed",
            "131 tokens per second with build 9800, 72 with 9999, and nothing else changed", REGRESSED,
            snapshot(one_card(RTX_4090, slower), Run(earlier=reported_fact(earlier, "history"))),
        ),
        Built(
            "slower_since_several_changes", "",
            "the same speeds, and the context was changed as well: nothing can be proven", REGRESSED,
            snapshot(one_card(RTX_4090, slower), Run(earlier=reported_fact(also, "history"))),
        ),
    )  # fmt: skip
