"""Serving engines on one to eight GPUs: links, kernels, graphs, caches and queues as their users set them up."""

import json

from lab.built_machines.built import Built, Write, snapshot
from lab.built_machines.checkpoints import (
    LLAMA_1B,
    LLAMA_8B,
    LLAMA_70B,
    QWEN3_8B,
    QWEN_7B,
    QWEN_14B,
    QWEN_32B,
    QWEN_72B,
)
from lab.built_machines.engine import Engine
from lab.built_machines.engine_parts import (
    A100_40,
    A6000,
    H100,
    NO_FAST_GATHER,
    RIG,
    asked,
    awq,
    line,
    loads,
    on,
    started,
)
from lab.built_machines.engine_sources import (
    BITSANDBYTES,
    EAGER,
    FP8_BY_MARLIN,
    GATHERING,
    GGUF,
    HEAT_OF_ONE,
    OFFLOADED,
    TABBY,
)
from lab.built_machines.linux import Cpu, linux
from lab.built_machines.nvidia import HW_THERMAL, nvml
from lab.built_machines.parts import RTX_3060, RTX_3090, RTX_4090

from unslow.facts.values import measured_fact

UNTUNED = "{0} quantization is not fully optimized yet. The speed can be slower than non-quantized models."
NO_FP8 = (
    "Your GPU does not have native support for FP8 computation but FP8 quantization is being used. Weight-only FP8 "
    "compression will be used leveraging the Marlin kernel. This may degrade performance for compute-heavy workloads."
)
GATHERED = line(NO_FAST_GATHER, "Worker_TP0 pid=2110", "WARNING", "custom_all_reduce.py:147")


def machines() -> tuple[Built, ...]:
    """All of them."""
    return (*_several(), *_formats(), *_settings(), *_elsewhere())


def _several() -> tuple[Built, ...]:
    """Every layer cut over several GPUs."""
    return _over_risers(), _on_four_lanes(), *_eight_h100(), _without_a_bridge()


def _over_risers() -> Built:
    risers = (RTX_3060._replace(busy=60, generation=3, width=1, used_mib=10600),) * 4
    small = Engine(QWEN_7B.name, ("--tensor-parallel-size", "4"), log=(GATHERED,))
    engine = started(small, 4, 1.42, 7.1, 532000, quantization="awq_marlin")
    return Built(
        "vllm_small_model_over_four_risers",
        "fits_on_one_gpu",
        "a 7B model in 4 bits cut over four RTX 3060 behind risers of one lane, each of which could hold it",
        GATHERING,
        on(engine, risers, QWEN_7B, asked(30.0, 0.9, gpus=loads(*risers, busy=0.6)), RIG),
        also=("pcie_link_degraded", "multi_gpu_link_bound"),
    )


def _on_four_lanes() -> Built:
    narrow = (RTX_4090._replace(busy=98, width=4, used_mib=21900, watts=180),) * 8
    fp8 = LLAMA_70B._replace(
        name="RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", quant="FP8", weights_bytes=72_700_000_000
    )
    eight = Engine(fp8.name, ("-tp=8", "--max-model-len=32k"), "0.10.2", log=(GATHERED,), context=32000)
    engine = started(eight, 8, 8.52, 10.9, 286000, quantization="compressed-tensors")
    return Built(
        "vllm_eight_rtx_4090_on_four_lanes",
        "pcie_link_degraded",
        "a 70B model cut over eight RTX 4090, each with four lanes of sixteen",
        GATHERING,
        on(engine, narrow, fp8, asked(14.0, 1.6, gpus=loads(*narrow))),
        also=("multi_gpu_link_bound",),
    )


def _eight_h100() -> tuple[Built, Built]:
    """As they should be, and with one that the others wait for."""
    fine = H100._replace(used_mib=72000, busy=100, watts=200)
    hot = fine._replace(mhz=345, celsius=91, reasons=HW_THERMAL, watts=180)
    one_hot = tuple(hot if number == 5 else fine for number in range(8))
    large = started(Engine(LLAMA_70B.name, ("-tp", "8"), "0.13.0", context=131072), 8, 16.46, 52.0, 1360000)
    return (
        Built(
            "vllm_eight_h100",
            "",
            "a 70B model in 16 bits cut over eight H100 with NVLink",
            GATHERING,
            on(large, (fine,) * 8, LLAMA_70B, asked(98.0, 0.06, gpus=loads(*(fine,) * 8))),
            "normal",
        ),
        Built(
            "vllm_eight_h100_one_of_them_hot",
            "gpu_thermal_throttling",
            "the same, and one of the eight is at 345 MHz and 91 degrees, so that seven wait for it",
            HEAT_OF_ONE,
            on(large, one_hot, LLAMA_70B, asked(27.0, 0.3, gpus=loads(*one_hot))),
        ),
    )


def _without_a_bridge() -> Built:
    apart = (A6000._replace(used_mib=43000, busy=99, nvlinks=0),) * 2
    packed = awq(QWEN_72B, 41_600_000_000)
    two = Engine(packed.name, ("-tp", "2"), context=32768)
    engine = started(two, 2, 19.5, 20.9, 136000, quantization="awq_marlin")
    return Built(
        "vllm_two_a6000_without_a_bridge",
        "",
        "a 72B model in 4 bits cut over two RTX A6000 without NVLink",
        GATHERING,
        on(engine, apart, packed, asked(28.0, 0.35, gpus=loads(*apart))),
        "normal",
    )


def _formats() -> tuple[Built, ...]:
    """Weights in formats for which an engine has no fast kernel, or has one against its own warning."""
    return _gguf_file(), _bitsandbytes(), _fp8_on_a100()


def _gguf_file() -> Built:
    card = RTX_4090._replace(used_mib=22900)
    gguf = QWEN_32B._replace(name="Qwen2.5-32B-Instruct-Q4_K_M.gguf", quant="Q4_K_M", weights_bytes=19_850_000_000)
    file = Engine(
        f"/models/{gguf.name}",
        ("--tokenizer", "Qwen/Qwen2.5-32B-Instruct"),
        "0.10.1",
        context=4096,
        log=(line(UNTUNED.format("gguf"), "APIServer pid=2100", "WARNING", "config.py:960"),),
    )
    engine = started(file, 1, 18.6, 1.4, 5900, quantization="gguf")
    return Built(
        "vllm_gguf_file",
        "slow_kernel_for_architecture",
        "vLLM with a GGUF file of a 32B model on an RTX 4090",
        GGUF,
        on(engine, (card,), gguf, asked(17.0, 0.4, gpus=loads(card)), RIG),
    )


def _bitsandbytes() -> Built:
    card = RTX_3090._replace(used_mib=21500)
    bits = LLAMA_8B._replace(quant="bitsandbytes", weights_bytes=5_700_000_000)
    flag = Engine(
        bits.name,
        ("--quantization", "bitsandbytes", "--load-format", "bitsandbytes"),
        "0.9.2",
        log=(line(UNTUNED.format("bitsandbytes"), "APIServer pid=2100", "WARNING", "config.py:945"),),
    )
    engine = started(flag, 1, 5.34, 13.9, 113000, quantization="bitsandbytes")
    return Built(
        "vllm_bitsandbytes",
        "slow_kernel_for_architecture",
        "vLLM that packs an 8B model with bitsandbytes while it loads it, on an RTX 3090",
        BITSANDBYTES,
        on(engine, (card,), bits, asked(38.0, 0.15, gpus=loads(card)), RIG),
    )


def _fp8_on_a100() -> Built:
    card = A100_40._replace(used_mib=36200)
    marlin = Engine(QWEN3_8B.name, log=(line(NO_FP8, level="WARNING", where="marlin_utils_fp8.py:80"),))
    engine = started(marlin, 1, 8.8, 24.0, 174000, quantization="fp8")
    return Built(
        "vllm_fp8_on_a100",
        "",
        "an FP8 checkpoint on an A100, which has no such arithmetic, at the speed of its memory",
        FP8_BY_MARLIN,
        on(engine, (card,), QWEN3_8B, asked(118.0, 0.07, gpus=loads(card))),
        "normal",
    )


def _settings() -> tuple[Built, ...]:
    """Settings that cost a token its speed."""
    alone, lent = H100._replace(used_mib=73000, busy=30), RTX_4090._replace(used_mib=22600, busy=35)
    words = ("/usr/bin/python3", "/usr/local/bin/vllm", "serve", "--config", "/etc/vllm.yaml")
    eager = started(Engine(LLAMA_1B.name, version="0.12.0", words=words), 1, 2.32, 66.1, 2160000, enforce_eager=True)
    offload = Engine(QWEN_14B.name, ("--cpu-offload-gb", "12", "--max-model-len", "4096"), context=4096)
    return (
        Built(
            "vllm_eager_by_its_log_alone",
            "eager_mode",
            "a 1B model on an H100 without graphs, by a file of settings that nobody can read; the log says so",
            EAGER,
            on(
                eager,
                (alone,),
                LLAMA_1B,
                asked(95.0, 0.03, gpus=loads(alone, busy=0.3), own_cpus=measured_fact(1.2, "sampled")),
            ),
        ),
        Built(
            "vllm_fetches_weights_for_want_of_room",
            "weights_spill_to_ram",
            "a 14B model in 16 bits on an RTX 4090 with 12 GiB of it left in the host's memory",
            OFFLOADED,
            on(
                started(offload, 1, 15.6, 4.1, 22000, cpu_offload_gb=12),
                (lent,),
                QWEN_14B,
                asked(1.8, 1.2, gpus=loads(lent, busy=0.35)),
                RIG,
            ),
        ),
    )


def _elsewhere() -> tuple[Built, ...]:
    """A server that only lists its models."""
    return (
        Built(
            "tabby_70b_over_two_rtx_3090",
            "",
            "TabbyAPI with a 70B model in 4.5 bits, half of its layers on each GPU",
            TABBY,
            _tabby(),
            "normal",
        ),
    )


def _tabby() -> Write:
    card, url = RTX_3090._replace(used_mib=22500, busy=52), "http://127.0.0.1:5000"
    checkpoint = LLAMA_70B._replace(
        name="Llama-3.3-70B-Instruct-exl2-4.5bpw", quant="exl2 4.5bpw", weights_bytes=40_500_000_000
    )
    listed = {"object": "list", "data": [{"id": checkpoint.name, "object": "model", "owned_by": "tabbyAPI"}]}
    world = linux(Cpu("AMD Ryzen 9 5950X 16-Core Processor", fast=16), RIG).add(
        http={f"GET {url}/v1/models": json.dumps(listed)},
        asks={"nvml": nvml(5100, "/opt/tabby/venv/bin/python", card, card)},
    )
    run = asked(17.5, 0.6, gpus=loads(card, card, busy=0.52), own_cpus=measured_fact(1.0, "sampled"))
    return snapshot(world, run, model=checkpoint.model(), url=url)
