"""The runtime computes on the slower of the machine's GPUs, while a better one is idle.

## Why it is slow
An integrated GPU reads the host's memory, five to twenty times slower than a card reads its own. Runtimes that see
both, often through Vulkan, sometimes take the first in the list. A renderer in software (llvmpipe) is the CPU in the
guise of a GPU.

## How to confirm
The log names the device that was chosen (`using device Vulkan0 (Intel(R) UHD Graphics ...)`), and lists a faster one.

## What it is not
The only GPU there is, however slow; two GPUs that share one model; or a faster one that has no room for it.

## How to fix
Name the device, or hide the slower one:
- llama.cpp: `--device CUDA0` (`--list-devices` shows the names), `-sm none -mg 1`, `GGML_VK_VISIBLE_DEVICES=1`
- Ollama: `CUDA_VISIBLE_DEVICES=1`, `GGML_VK_VISIBLE_DEVICES=1`, `main_gpu`; it leaves integrated GPUs out unless
  `OLLAMA_IGPU_ENABLE=1`
- LM Studio: switch the slower GPU off in the hardware settings
- vLLM, Transformers: `CUDA_VISIBLE_DEVICES=1`; with `CUDA_DEVICE_ORDER=PCI_BUS_ID` numbers are those of `nvidia-smi`

## Safety
Answers do not change beyond rounding.
"""

import re

from unslow.catalog.devices import find_device
from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.runtime import SeenDevice
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Origin
from unslow.think.case.gpus import has_far_more_bandwidth, is_integrated_name
from unslow.think.case.narrative import experiment_on, is_clear, remarks_on
from unslow.think.case.vram import buffers_of, seen_gpus
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, check_by
from unslow.think.causes._facts import cite, cite_comparison, cite_remarks

_SURELY = re.compile(r"\bwrong (?:gpu|card|device|one)\b|\binstead of\b|while .{1,40}\bidle", re.IGNORECASE)
_SOFTWARE = re.compile(r"llvmpipe|lavapipe|swiftshader|device type is cpu|microsoft basic render", re.IGNORECASE)


def _by_choice(case: Case) -> Found | Absent | None:
    gpus = case.machine.gpus  # as a driver lists them: people name only the GPU that they think of
    listed = isinstance(gpus, Known) and gpus.origin is not Origin.TOLD and len(gpus.value) == 1
    if listed and len(seen_gpus(case)) <= 1:
        return Absent("there is one GPU")
    # The devices that compute, by what they are called, and which fact says so: at best all that it sees
    used, fact = [_title(d) for d in seen_gpus(case)], "runtime.devices"
    if isinstance(case.runtime.device_used, Known):
        used, fact = [_described(case, case.runtime.device_used.value)], "runtime.device_used"
    elif held := {b.device for b in buffers_of(case, "model", on_gpu=True)}:
        used, fact = [_described(case, name) for name in sorted(held)], "runtime.buffers"
    idle = [name for name in _all(case) if not any(_same(name, one) for one in used)]
    # `Vulkan0` alone does not tell which device it is
    if not used or not all(find_device(name) is not None or is_integrated_name(name) for name in used):
        return None
    best = max(idle, key=_rank, default="")
    if not best or not all(_is_much_better(best, one) for one in used):
        return None if fact == "runtime.devices" else Absent(f"{used[0]} is used, and no other is much faster")
    # How many times faster the idle one reads its memory; None where the catalogue lacks one of them
    slow = [d.memory_bytes_per_s for d in map(find_device, used) if d and d.memory_bytes_per_s]
    fast = find_device(best)
    faster = fast.memory_bytes_per_s / min(slow) if fast and len(slow) == len(used) else None
    return Found(
        because=f"{', '.join(used)} computes, while {best} is idle",
        evidence=(cite(case, fact, f"{best} is idle", used[0]),),
        remedies=(Remedy(Knob.DEVICE.to(_own_name(case, best), "name the faster one")),),
        speedup=faster,
    )


def _by_software(case: Case) -> Found | None:
    """The CPU in the guise of a GPU, as the driver or the runtime itself calls it."""
    said = [r for r in remarks_on(case, Topic.WRONG_GPU) if _SOFTWARE.search(r.text)]
    warned = [line for line in case.runtime.warnings.value_or([]) if _SOFTWARE.search(line)]
    listed = [_title(d) for d in case.runtime.devices.value_or([]) if _SOFTWARE.search(_title(d))]
    if not said and not warned and not listed:
        return None
    fact = "runtime.warnings" if warned else "runtime.devices"
    named = (*warned, *listed, *(remark.text for remark in said))[0]
    return Found(
        because=f"a renderer in software stands in for the GPU: {named}",
        evidence=cite_remarks(case, said[:1]) or (cite(case, fact, "a real GPU is idle", named),),
        remedies=(Remedy(Knob.DEVICE.to(None, "install the GPU's own Vulkan driver, or name another device")),),
    )


def _described(case: Case, name: str) -> str:
    """A device's own name with its description, where the runtime lists it."""
    found = next((d for d in seen_gpus(case) if d.name in {name, name.partition(" ")[0]}), None)
    return _title(found) if found and found.description else name


def _own_name(case: Case, title: str) -> str | None:
    """What the runtime itself calls a device, such as CUDA1; None for one that it does not list."""
    return next((d.name for d in seen_gpus(case) if title and _title(d) == title), None)


def _title(device: SeenDevice) -> str:
    return f"{device.name} {device.description}".strip()


def _all(case: Case) -> list[str]:
    listed = [_title(d) for d in seen_gpus(case)]
    named = [g.name.value for g in case.machine.gpus.value_or(()) if isinstance(g.name, Known)]
    return listed + [name for name in named if not any(_same(name, one) for one in listed)]


def _same(one: str, other: str) -> bool:
    """Whether two names mean one device: by their words, or as one entry of the catalogue."""
    a, b = one.lower(), other.lower()
    device = find_device(one)
    return a in b or b in a or (device is not None and device == find_device(other))


def _rank(name: str) -> float:
    device = find_device(name)
    bandwidth = device.memory_bytes_per_s if device else 0.0
    return bandwidth or (0.0 if is_integrated_name(name) else 1.0)


def _is_much_better(idle: str, used: str) -> bool:
    """A card against an integrated GPU, or a card with far more bandwidth."""
    if is_integrated_name(used) != is_integrated_name(idle):
        return is_integrated_name(used)
    return has_far_more_bandwidth(find_device(idle), find_device(used))


def _is_mixed(names: list[str]) -> bool:
    """Whether one of the GPUs is much faster than another."""
    return any(_is_much_better(one, other) for one in names for other in names)


def _by_trial(case: Case) -> Found | None:
    """Two speeds on two devices, where it is known that one of the GPUs is much faster than another."""
    trial, names = experiment_on(case, Topic.DEVICE), _all(case)
    if trial is None or not is_clear(trial) or not _is_mixed(names):
        return None
    return Found(
        because=f"on the other device it is {trial.fast / trial.slow:.1f} times faster: {trial.text}",
        evidence=(cite_comparison(case, trial),),
        remedies=(Remedy(Knob.DEVICE.to(None, "name the faster one")),),
        speedup=trial.fast / trial.slow,
    )


def _by_words(case: Case) -> Found | Suspected | None:
    """Somebody who sees the wrong one of several GPUs at work has seen it; with one GPU known it is a guess."""
    said = remarks_on(case, Topic.WRONG_GPU)
    if not said:
        return None
    names = _all(case)
    several = len(names) > 1 or len({r.text for r in said}) > 1
    if not _is_mixed(names) and not (several and any(_SURELY.search(r.text) for r in said)):
        return Suspected(said[0].text, "runtime.device_used", CAUSE.ask)
    return Found(
        because=f"of {', '.join(names) or 'several GPUs'} the wrong one is used: {said[0].text}",
        evidence=cite_remarks(case, said),
        remedies=(Remedy(Knob.DEVICE.to(_own_name(case, max(names, key=_rank, default="")), "name the faster one")),),
    )


CAUSE = Cause(
    title="The wrong GPU is used",
    phase="decode",
    needs=(
        (
            "runtime.device_used",
            "runtime.buffers",
            "runtime.devices",
            "runtime.warnings",
            "machine.gpus",
            "account.remarks",
            "account.comparisons",
        ),
    ),
    check=check_by(_by_choice, _by_software, _by_trial, _by_words),
    fails_load=True,
    explains=("weights_spill_to_ram", "gpu_backend_not_loaded", "context_larger_than_needed"),
    gpu_only=True,
    ask="{sees_gpu}, and {gpu_list}",
)
