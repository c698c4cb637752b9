"""Facts in plain words: what each is called, and its value as people write it."""

import re

from unslow.show._units import count, fact_value

_LABELS = {
    "runtime.name": "runtime",
    "runtime.version": "version",
    "runtime.gpu_layers": "layers on the GPU",
    "runtime.gpu_layers_set": "layers asked for on the GPU",
    "runtime.layers": "layers of the model",
    "runtime.vram_share": "share of the model in GPU memory",
    "runtime.context_length": "context, in tokens",
    "runtime.context_set": "context asked for, in tokens",
    "runtime.kv_type_k": "type of the KV cache",
    "runtime.kv_type_v": "type of the values in the KV cache",
    "runtime.kv_usage": "share of the KV cache in use",
    "runtime.kv_bytes": "size of the KV cache",
    "runtime.slots": "slots",
    "runtime.ubatch": "tokens of a prompt computed at once",
    "runtime.longest_sequence": "longest sequence so far, in tokens",
    "runtime.prompts_reprocessed": "prompts read again",
    "runtime.output_on_gpu": "output layer on the GPU",
    "runtime.eager": "graphs switched off",
    "runtime.gpu_refused": "why the GPU is not used",
    "runtime.available_bytes": "free GPU memory",
    "runtime.asked_bytes": "memory asked for on the GPU",
    "runtime.deferred_requests": "requests that wait",
    "runtime.running_requests": "requests that run",
    "runtime.preemptions": "requests thrown out of the cache",
    "runtime.tensor_overrides": "tensors placed by a setting",
    "runtime.draft_acceptance": "share of drafted tokens accepted",
    "runtime.buffers": "memory that it allocated",
    "runtime.devices": "devices that the runtime sees",
    "runtime.warnings": "its own warnings",
    "runtime.tensor_parallel": "GPUs that share every layer",
    "runtime.quantization": "how the weights are read",
    "machine.gpus": "GPU",
    "machine.system.name": "operating system",
    "machine.system.container": "container",
    "machine.cpu.model": "CPU",
    "machine.cpu.physical_cores": "cores",
    "machine.cpu.logical_cpus": "hardware threads",
    "machine.cpu.quota_cpus": "CPUs that the container may use",
    "machine.cpu.frequency_hz": "clock of the CPU",
    "machine.disks.kind": "kind of disk",
    "machine.memory.total_bytes": "RAM",
    "machine.memory.kind": "kind of RAM",
    "machine.memory.swap_used_bytes": "swap in use",
    "machine.memory.pressure": "memory pressure",
    "model.name": "model",
    "model.quant": "quant",
    "model.parameters": "parameters",
    "model.weights_bytes": "size of the weights",
    "run.decode_tokens_per_s": "speed of the answer",
    "run.prefill_tokens_per_s": "speed of the prompt",
    "run.time_to_first_token_s": "time to the first token",
    "run.load_s": "time to load",
    "run.queue_s": "time in the queue",
    "run.client_decode_tokens_per_s": "speed that the client sees",
    "run.own_cpus": "CPUs that the runtime used",
    "run.others_cpus": "CPUs that other programs used",
    "run.waiting_for_cpu_s_per_token": "time that its threads waited for a CPU",
    "run.cpu_throttled_fraction": "share of the time that a quota held it back",
    "run.completions": "measured requests",
    "run.long_prompt": "a long prompt",
    "run.depths": "speed by depth of the context",
    "run.at_once": "several requests at once",
    "run.plain_sampling": "without any sampler",
    "run.turns": "turns of a conversation",
    "run.routes": "ways to the server",
    "run.traffic": "what it does for others",
    "run.earlier": "the last benchmark",
    "account.remarks": "they say",
    "account.comparisons": "they compare",
    "account.version_before": "last good version",
    "account.version_since": "slow since version",
    "account.slowdown": "times slower",
}
_OF_A_DEVICE = re.compile(r"(?:machine|runtime|run)\.(?:gpus|devices)\.(\d+)\.(\w+)")
_PROCESS = re.compile(r"machine\.gpus\.processes\.\d+")
_WORDS = {"free_bytes": "free memory", "busy": "share of the time busy"}
"""Names of a device's facts that say too little by themselves."""
_UNITS = re.compile(r"_(?:bytes|bytes_per_s|s|tokens_per_s|hz|w|c)$")
_SHARES = ("_share", "_usage", "_fraction", "_acceptance", "_hit_rate", ".busy", "_pressure", "_busy")
_SWITCHES = {True: "yes", False: "no"}
_LIST = re.compile(r"""\[(['"])(.*)\1\]""", re.DOTALL)
_VARIABLES = re.compile(r"\{'.*'\}")
_VARIABLE = re.compile(r"'(\w+)': '([^']*)'")
_BETWEEN = re.compile(r"""(['"]), \1|['"], ['"]""")


def label(fact: str) -> str:
    """A fact as a person calls it; one that has no name of its own, by the words of its path."""
    if fact in _LABELS:
        return _LABELS[fact]
    device = _OF_A_DEVICE.fullmatch(fact)
    if device:
        return f"{_WORDS.get(device[2]) or _words(device[2])} of GPU {device[1]}"
    if _PROCESS.fullmatch(fact):
        return "process on the GPU"
    return _words(fact.rpartition(".")[2])


def _words(name: str) -> str:
    return _UNITS.sub("", name).replace("vram", "GPU memory").replace("_", " ").replace("kv ", "KV ")


def worded_value(fact: str, value: str | float) -> str:
    """A value as a person writes it."""
    if isinstance(value, bool):
        return ("on" if value else "off") if fact.endswith("flash_attention") else _SWITCHES[value]
    if isinstance(value, str):
        return _plain(value)
    if fact.endswith(_SHARES) and 0 <= value <= 1:
        return f"{value:.0%}"
    if fact.endswith("parameters"):
        return count(value)
    if fact.endswith("_hz"):
        return f"{value / 1e6:,.0f} MHz"
    return fact_value(fact, value)


def _plain(value: str) -> str:
    """Lists and tables of names as their items."""
    if _VARIABLES.fullmatch(value):
        return "; ".join(f"{name}={said}" for name, said in _VARIABLE.findall(value)) or value
    listed = _LIST.fullmatch(value)
    return _BETWEEN.sub("; ", listed[2]) if listed else value
