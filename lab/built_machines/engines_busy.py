"""Serving engines with many users at once, now or in the past."""

from lab.built_machines.built import Built
from lab.built_machines.checkpoints import LLAMA_8B, LLAMA_70B, MISTRAL_24B
from lab.built_machines.engine import Engine, counters
from lab.built_machines.engine_parts import A100_40, A100_80, asked, awq, loads, on, started, watched
from lab.built_machines.engine_sources import COUNTED


def machines() -> tuple[Built, ...]:
    """All of them."""
    return _beside_free_memory(), _eight_copies(), _at_rest()


def _beside_free_memory() -> Built:
    cards = (A100_80._replace(used_mib=33400, busy=99),) * 2
    packed = awq(LLAMA_70B, 39_800_000_000, "casperhansen/llama-3.3-70b-instruct-awq")
    short = Engine(
        packed.name,
        ("--tensor-parallel-size", "2", "--gpu-memory-utilization", "0.4", "--max-model-len", "16384"),
        "0.13.0",
        counted=counters(
            running=31, waiting=52, cache=0.997, preemptions=2213, token_s=0.071, queue_s=21.0, first_token_s=22.1
        ),
        cache={"block_size": "16", "num_gpu_blocks": "1500", "gpu_memory_utilization": "0.4"},
        context=16384,
    )
    engine = started(short, 2, 18.6, 3.66, 24000, quantization="awq_marlin")
    return Built(
        "vllm_preempts_beside_free_memory",
        "kv_cache_preemption",
        "a 70B model on two A100 that was told to take four tenths of their memory: requests are thrown out",
        COUNTED,
        on(engine, cards, packed, watched(31, 52, 430, 9, 0.997)),
        also=("queueing",),
    )


def _eight_copies() -> Built:
    cards = (A100_40._replace(used_mib=36200, busy=97),) * 8
    copies = Engine(
        LLAMA_8B.name,
        ("--data-parallel-size", "8", "--max-num-seqs", "16"),
        "0.12.0",
        engines=8,
        counted=counters(running=128, waiting=210, cache=0.18, token_s=0.0155, queue_s=6.3, first_token_s=6.5),
        cache={"block_size": "16", "num_gpu_blocks": "9000", "gpu_memory_utilization": "0.9"},
    )
    return Built(
        "vllm_eight_copies_of_sixteen_places",
        "queueing",
        "eight copies of an 8B model on eight A100, each for sixteen requests, and 210 that wait",
        COUNTED,
        on(copies, cards, LLAMA_8B, watched(128, 210, 8200, 0, 0.18)),
    )


def _at_rest() -> Built:
    card = A100_80._replace(used_mib=73000)
    rested = Engine(
        MISTRAL_24B.name,
        version="0.12.0",
        context=32768,
        counted=counters(token_s=0.045, queue_s=4.2, first_token_s=5.1, requests=91000),
        cache={"block_size": "16", "num_gpu_blocks": "9400", "gpu_memory_utilization": "0.9"},
    )
    return Built(
        "vllm_at_rest_after_a_busy_day",
        "",
        "an idle server on which requests have waited four seconds on average since it started",
        COUNTED,
        on(started(rested, 1, 43.9, 23.0, 150400), (card,), MISTRAL_24B, asked(31.0, 0.09, gpus=loads(card))),
        "normal",
    )
