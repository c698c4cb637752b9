"""Small machines on which a cause fires; each test of a cause names its own as `fires`."""

from cases import cpu_case, gpu_case, r, with_facts

from unslow.facts.machine import GpuProcess
from unslow.facts.runtime import AllocationFailure, Buffer, SeenDevice
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MIB


def spilled() -> Case:
    return gpu_case(layers_on_gpu=21, free_gib=5.0, context=4096)


def stranger(held_gib: float = 18.0) -> Case:
    own = GpuProcess(pid=10, name=r("llama-server"), vram_bytes=r(3 * GIB))
    other = GpuProcess(pid=77, name=r("blender"), vram_bytes=r(int(held_gib * GIB)))
    return with_facts(spilled(), {"machine.gpus.0.processes": [own, other]})


def clamped(layers: int = 20) -> Case:
    return with_facts(gpu_case(layers_on_gpu=layers, free_gib=20.0), {"runtime.placement.gpu_layers_set": layers})


def long_context() -> Case:
    return gpu_case(layers_on_gpu=12, free_gib=8.0, context=65536)


def out_of_memory() -> Case:
    failure = AllocationFailure(
        device="CUDA0", what="kv_cache", asked_bytes=r(16 * GIB), message="cudaMalloc failed: out of memory"
    )
    case = gpu_case(layers_on_gpu=33, free_gib=5.0, context=131072)
    return with_facts(case, {"runtime.memory.allocation_failure": failure, "runtime.state": "failed"})


def no_backend() -> Case:
    case = gpu_case()
    return with_facts(
        case,
        {
            "machine.gpus.0.processes": [],
            "runtime.placement.devices": [SeenDevice(name="CPU")],
            "runtime.memory.buffers": [Buffer(device="CPU_Mapped", kind="model", bytes=4692 * MIB, on_gpu=False)],
            "runtime.placement.gpu_refused": "failed to initialize CUDA: no CUDA-capable device is detected",
            "runtime.placement.gpu_layers": _unknown(),
            "run.decode_tokens_per_s": 3.3,
        },
    )


def _unknown():
    from unslow.facts.values import not_found

    return not_found("no such line in the log")


def crowded() -> Case:
    return with_facts(cpu_case(), {"runtime.compute.threads": 16, "run.decode_tokens_per_s": 0.6})


def contended() -> Case:
    return with_facts(
        cpu_case(), {"run.others_cpus": 1.0, "run.waiting_for_cpu_s_per_token": 0.5, "run.decode_tokens_per_s": 1.0}
    )


def experts_away() -> Case:
    case = gpu_case(layers_on_gpu=33, free_gib=20.0)
    buffers = [Buffer(device="CUDA0", kind="model", bytes=900 * MIB, on_gpu=True)]
    return with_facts(
        case,
        {
            "runtime.placement.tensor_overrides": ["--cpu-moe"],
            "runtime.memory.buffers": buffers,
            "model.experts": 64,
            "model.experts_used": 8,
            "model.expert_bytes": 3500 * MIB,
            "run.decode_tokens_per_s": 20.0,
        },
    )
