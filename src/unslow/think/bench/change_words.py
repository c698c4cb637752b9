"""Settings and conditions in plain words, and when a condition is really another one."""

import re
from typing import NamedTuple

_NAMES = {
    "runtime.version": "runtime's version",
    "driver": "GPU driver",
    "machine.system.kernel": "kernel",
    "machine.system.version": "operating system",
    "cpu": "processor",
    "gpus": "GPU",
    "model_bytes": "size of the model file",
    "runtime.threads": "number of threads",
    "runtime.threads_batch": "number of threads for prompts",
    "runtime.context_length": "context",
    "runtime.gpu_layers": "number of layers on the GPU",
    "runtime.gpu_layers_set": "number of layers asked for on the GPU",
    "runtime.kv_type_k": "type of the KV cache (keys)",
    "runtime.kv_type_v": "type of the KV cache (values)",
    "runtime.ubatch": "micro-batch",
    "runtime.build_features": "instruction sets of the build",
    "machine.cpu.quota_cpus": "CPU quota",
    "machine.cpu.governor": "governor of the CPU's clock",
    "test.decode": "test of decoding",
    "test.prefill": "test of the prompt",
}
_WHY = {
    "threads": "one thread for each physical core is best; more wait for each other",
    "context_length": "a larger context takes memory that layers could have",
    "gpu_layers": "every layer in main memory is read at its speed",
    "gpu_layers_set": "every layer in main memory is read at its speed",
    "threads_batch": "prompts are read by so many threads",
    "kv_type_k": "a quantised cache is smaller and must be unpacked",
    "kv_type_v": "a quantised cache is smaller and must be unpacked",
    "flash_attention": "attention over a long context takes longer without it",
    "ubatch": "prompts are read in pieces of this size",
    "batch": "prompts are read in pieces of this size",
    "quant": "every token reads the weights: fewer bits are fewer bytes",
    "slots": "slots share the context, and requests in them share the speed",
    "governor": "a saving governor keeps the CPU's clock low",
    "power_limit_w": "a lower limit of power means lower clocks",
    "pcie_width": "fewer lanes carry less",
    "split_mode": "GPUs take turns, or work on every layer together",
    "backends": "another backend has other kernels",
    "quota_cpus": "a container may not use more processors than this",
    "load_mode": "how the file is read decides where its pages lie",
    "speculative": "drafted tokens are checked together",
    "eager": "without graphs every kernel is launched by itself",
}
_UNIT = re.compile(r"_(bytes_per_s|bytes|hz|w|c|cpus|per_s|share|fraction)$")
_SCALES = {
    "bytes_per_s": (1e-9, " GB/s"),
    "bytes": (1 / 1024**3, " GiB"),
    "hz": (1e-6, " MHz"),
    "w": (1.0, " W"),
    "c": (1.0, " °C"),
    "cpus": (1.0, " processors"),
    "per_s": (1.0, " per second"),
}


class Telling(NamedTuple):
    """When a condition is another one: by a share of it and by an amount, and which way is the worse."""

    share: float
    amount: float
    why: str
    more_is_worse: bool | None = None
    """None where neither way is: it shows something and causes nothing."""


_CONDITIONS = {
    "memory_clock_hz": Telling(0.03, 1e7, "every token reads the weights at the memory's clock", more_is_worse=False),
    "clock_hz": Telling(0.05, 5e7, "a lower clock computes and reads slower", more_is_worse=False),
    "others_cpus": Telling(0.2, 0.3, "other programs take processors and memory bandwidth", more_is_worse=True),
    "ram_read_bytes_per_s": Telling(0.2, 1e9, "weights in main memory are read at this speed", more_is_worse=False),
    "vram_free_bytes": Telling(0.1, 2**28, "less may have fitted on the GPU", more_is_worse=False),
    "swap_used_bytes": Telling(0.2, 2**28, "pages of the model may lie on disk", more_is_worse=True),
    "swap_in_bytes_per_s": Telling(0.2, 1e6, "pages come back from disk", more_is_worse=True),
    "disk_read_bytes_per_s": Telling(0.3, 2e7, "weights may be read from disk", more_is_worse=True),
    "major_faults_per_s": Telling(0.3, 20.0, "pages of the model are read from disk", more_is_worse=True),
    "throttled_share": Telling(0.2, 0.02, "a quota holds its threads back", more_is_worse=True),
    "throttled_fraction": Telling(0.2, 0.02, "a quota holds its threads back", more_is_worse=True),
    "temperature_c": Telling(0.1, 8.0, "a hot chip lowers its clock", more_is_worse=True),
    "power_w": Telling(0.1, 10.0, "less power is drawn where less is computed", None),
}


class Words(NamedTuple):
    """A condition that is another one."""

    name: str
    before: str
    after: str
    why: str
    worse: bool | None


def plain_name(fact: str) -> str:
    """A setting as a person calls it."""
    return _NAMES.get(fact) or _UNIT.sub("", fact.rpartition(".")[2]).replace("_", " ")


def plain_value(fact: str, value: str) -> str:
    """Its value with its unit."""
    unit = _UNIT.search(fact)
    try:
        return _amount(unit[1], float(value)) if unit else value
    except ValueError:
        return value


def setting_why(fact: str) -> str:
    """Why a setting may matter; empty where nothing in particular is known."""
    return _WHY.get(fact.rpartition(".")[2], "")


def condition_words(name: str, before: float, after: float) -> Words | None:
    """The condition in words where it differs by more than it does from minute to minute, else None."""
    kind = next((kind for kind in _CONDITIONS if name.endswith(kind)), None)
    if kind is None:
        return None
    telling, apart = _CONDITIONS[kind], abs(after - before)
    if apart < telling.amount or apart < telling.share * max(before, after):
        return None
    unit = _UNIT.search(name)
    a, b = (_amount(unit[1] if unit else "", value) for value in (before, after))
    worse = None if telling.more_is_worse is None else telling.more_is_worse == (after > before)
    return Words(_condition_name(name), a, b, telling.why, worse)


def _condition_name(name: str) -> str:
    if name.endswith("others_cpus"):
        return "other programs"
    plain = _UNIT.sub("", name).replace("_", " ").replace("gpu", "GPU").replace("vram", "memory")
    return plain.replace("cpu", "CPU").replace("ram read", "speed of main memory")


def _amount(unit: str, value: float) -> str:
    if unit in ("share", "fraction"):
        return f"{value:.0%}"
    scale, word = _SCALES.get(unit, (1.0, ""))
    return f"{value * scale:,.4g}{word}"
