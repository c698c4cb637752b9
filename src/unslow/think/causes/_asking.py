"""How a cause asks for the fact that would decide it: with a command that is ready to copy."""

from typing import Any

import msgspec

from unslow.facts.snapshot import Case
from unslow.facts.values import Known, MissingFactError, Unknown
from unslow.think.adapt.gpu_load import LoadedGpu, loaded_gpus
from unslow.think.causes._cause import fact_at, need
from unslow.think.predict import measured_rate, predict
from unslow.think.slowness import generates_slowly


def ask_for(case: Case, path: str, how_to_get: str) -> Any:
    """The value at a path; where it is missing, what its looker advises, else this command."""
    fact = fact_at(case, path)
    if isinstance(fact, Unknown) and not fact.how_to_get:
        raise MissingFactError(msgspec.structs.replace(fact, how_to_get=how_to_get), path)
    return need(case, path)


def at_work(case: Case) -> list[LoadedGpu]:
    """The runtime's GPUs while they compute; none where they were watched and idle."""
    ask_for(case, "machine.gpus", gpu_state(case))
    loaded = loaded_gpus(case)
    if not loaded:
        ask_for(case, "run.gpus", gpu_state(case))
    return loaded


def must_be_slow(case: Case) -> bool:
    """Whether tokens come slower than they should; MissingFactError names what it lacks to tell."""
    slow = generates_slowly(case)
    if slow is not None:
        return slow
    expected = predict(case)
    if isinstance(measured_rate(case), Known) and isinstance(expected, Unknown):
        raise MissingFactError(expected)
    ask_for(case, "run.decode_tokens_per_s", own_speed(case))
    return False


def gpu_state(case: Case) -> str:
    """The command that shows clocks, power, temperature and link of the GPU at hand, while it generates."""
    vendor = next((g.vendor.value_or("") for g in case.machine.gpus.value_or(())), "")
    command = {
        "AMD": "rocm-smi --showclocks --showpower --showtemp --showuse",
        "Intel": "xpu-smi dump -d 0 -m 0,1,2,3 -n 5",
        "Apple": "sudo powermetrics --samplers gpu_power,thermal -n 3",
    }.get(vendor, "nvidia-smi -q -d PERFORMANCE,CLOCK,POWER,TEMPERATURE,UTILIZATION")
    return f"while it generates: `{command}`"


def own_speed(case: Case) -> str:
    """The command that makes the runtime tell its own speed."""
    name = case.runtime.name.value_or("").lower()
    if "ollama" in name:
        return 'the eval rate of `ollama run MODEL --verbose "Write a story"`'
    if "vllm" in name:
        return "the line `Avg generation throughput` of vLLM's log, with one request running"
    if "lm studio" in name:
        return "the output of `lms log stream --stats` while it generates"
    return "the lines `prompt eval time` and `eval time` of the server's log, or `llama-bench -m MODEL`"
