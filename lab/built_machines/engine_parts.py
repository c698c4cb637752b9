"""Parts of machines with a serving engine: cards of servers, the log of a start, loads and requests."""

from typing import Any

from lab.built_machines.built import Write, snapshot
from lab.built_machines.checkpoints import Checkpoint
from lab.built_machines.engine import Engine, run_vllm
from lab.built_machines.linux import Cpu, Memory, linux
from lab.built_machines.nvidia import HW_THERMAL, Card

from unslow.facts.run import Completion, GpuUnderLoad, Run, Traffic
from unslow.facts.values import Known, measured_fact

RIG = Memory(64, 48)
SERVER = Memory(512, 460)
H100 = Card("NVIDIA H100 80GB HBM3", (9, 0), 81559, 5120, 1980, 2619, 700, 700, mhz=1980, watts=400, celsius=48,
            generation=5, generation_max=5, nvlinks=18)  # fmt: skip
A100_80 = Card("NVIDIA A100-SXM4-80GB", (8, 0), 81920, 5120, 1410, 1593, 400, 400, mhz=1410, watts=280, celsius=50,
               nvlinks=12)  # fmt: skip
A100_40 = Card("NVIDIA A100-SXM4-40GB", (8, 0), 40960, 5120, 1410, 1215, 400, 400, mhz=1410, watts=250, celsius=45,
               nvlinks=12)  # fmt: skip
A6000 = Card("NVIDIA RTX A6000", (8, 6), 49140, 384, 2100, 8001, 300, 300, mhz=1800, watts=270, celsius=68)
ADA_6000 = Card("NVIDIA RTX 6000 Ada Generation", (8, 9), 49140, 384, 3105, 10001, 300, 300, mhz=2500, watts=260)
METRICS = "/metrics"
NO_FAST_GATHER = (
    "Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs. To silence this warning, "
    "specify disable_custom_all_reduce=True explicitly."
)


def line(text: str, who: str = "EngineCore_0 pid=2101", level: str = "INFO", where: str = "core.py:77") -> str:
    """A line of vLLM's log."""
    return f"({who}) {level} 10-12 09:14:22 [{where}] {text}"


def started(engine: Engine, gpus: int, weights_gib: float, cache_gib: float, tokens: int, **config: Any) -> Engine:
    """The engine with the log of its start."""
    settings = {
        "model": repr(engine.model), "dtype": "torch.bfloat16", "max_seq_len": engine.context,
        "tensor_parallel_size": gpus, "pipeline_parallel_size": 1, "data_parallel_size": 1, "quantization": None,
        "enforce_eager": False, "kv_cache_dtype": "auto", "device_config": "cuda", "enable_prefix_caching": True,
        **config,
    }  # fmt: skip
    said = ", ".join(f"{name}={value}" for name, value in settings.items())
    ranks = [f"Worker_TP{n} pid={2110 + n}" for n in range(gpus)] if gpus > 1 else ["EngineCore_0 pid=2101"]
    rows = [
        line("Automatically detected platform cuda.", "APIServer pid=2100", where="__init__.py:216"),
        line(f"vLLM API server version {engine.version}", "APIServer pid=2100", where="api_server.py:1839"),
        line(f"Initializing a V1 LLM engine (v{engine.version}) with config: {said}"),
        *(line(f"Model loading took {weights_gib:.4f} GiB and 21.4 seconds", r, where="gpu_model_runner.py:2653")
          for r in ranks),
        *(line(f"Available KV cache memory: {cache_gib:.2f} GiB", r, where="gpu_worker.py:298") for r in ranks),
        line(f"GPU KV cache size: {tokens:,} tokens", where="kv_cache_utils.py:1087"),
        line(f"Maximum concurrency for {engine.context:,} tokens per request: {tokens / engine.context:.2f}x",
             where="kv_cache_utils.py:1091"),
    ]  # fmt: skip
    rows += [
        line("Cudagraph is disabled under eager mode", where="__init__.py:3036")
        if config.get("enforce_eager")
        else line("Graph capturing finished in 12 secs, took 0.55 GiB", ranks[0], where="gpu_model_runner.py:3480")
    ]
    return engine._replace(log=(*rows, *engine.log))


def loads(*cards: Card, busy: float = 0.95, **changed: Any) -> Known[tuple[GpuUnderLoad, ...]]:
    """The GPUs while tokens were generated."""
    return measured_fact(
        tuple(
            GpuUnderLoad(
                index=n, samples=40, busy=measured_fact(busy, "sampled"),
                clock_hz=measured_fact(card.mhz * 1e6, "sampled"),
                temperature_max_c=measured_fact(float(card.celsius), "sampled"),
                power_max_w=measured_fact(float(card.watts), "sampled"),
                event_reasons=measured_fact(["hw_thermal_slowdown"] if card.reasons & HW_THERMAL else [], "sampled"),
                pcie_generation_max_seen=measured_fact(card.generation, "sampled"),
                pcie_width_max_seen=measured_fact(card.width, "sampled"),
                **changed,
            )
            for n, card in enumerate(cards)
        ),
        "sampled",
    )  # fmt: skip


def asked(tokens_per_s: float, prompt_s: float = 0.08, prompt: int = 420, **more: Any) -> Run:
    """Three requests of this speed, one after the other."""
    one = Completion(
        prompt_tokens=prompt, generated_tokens=200, prefill_s=prompt_s, decode_s=199 / tokens_per_s,
        client_first_token_s=prompt_s + 0.003, client_total_s=prompt_s + 0.004 + 199 / tokens_per_s,
    )  # fmt: skip
    return Run(
        completions=measured_fact((one,) * 3, "three completions"),
        decode_tokens_per_s=measured_fact(tokens_per_s, "three completions"),
        depth_tokens=measured_fact(prompt + 100, "three completions"),
        time_to_first_token_s=measured_fact(prompt_s + 0.003, "three completions"), **more,
    )  # fmt: skip


def watched(running: float, waiting: float, all_tokens: float, preemptions: int = 0, cache: float = 0.5) -> Run:
    """A busy server that was only watched."""
    seen = Traffic(
        seconds=10.0, looks=20, running=running, waiting=waiting, tokens_per_s=measured_fact(all_tokens, METRICS),
        preemptions=measured_fact(preemptions, METRICS), cache_used=measured_fact(cache, METRICS),
        each_tokens_per_s=measured_fact(all_tokens / running, METRICS), each_among=running,
    )  # fmt: skip
    return Run(traffic=measured_fact(seen, "20 looks at /metrics"))


def on(engine: Engine, cards: tuple[Card, ...], checkpoint: Checkpoint, run: Run, memory: Memory = SERVER) -> Write:
    """The machine with the engine on all of these cards."""
    cpu = Cpu("AMD EPYC 7543 32-Core Processor", fast=32, mhz=3400, max_mhz=3700)
    return snapshot(run_vllm(linux(cpu, memory), engine, *cards), run, model=checkpoint.model())


def awq(checkpoint: Checkpoint, size: int, name: str = "") -> Checkpoint:
    """A checkpoint of the same model in 4 bits."""
    return checkpoint._replace(name=name or f"{checkpoint.name}-AWQ", quant="AWQ", weights_bytes=size)
