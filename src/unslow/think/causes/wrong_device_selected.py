"""The runtime computes on the slower of the machine's GPUs, while a faster one is idle.

## Why it is slow
An integrated GPU reads the host's memory, five to twenty times slower than a card reads its own VRAM. Runtimes that
see both, often through Vulkan, sometimes take the first in the list. A software renderer (llvmpipe) is the CPU posing
as a GPU.

## How to confirm
The log names the device that was chosen (`using device Vulkan0 (Intel(R) UHD Graphics ...)`), and lists a faster one.

## What it is not
The only GPU in the machine, however slow; two GPUs that share one model; or a faster GPU without room for the model.

## How to fix
Name the device, or hide the slower one:
- llama.cpp: `--device CUDA0` (`--list-devices` shows the names), `-sm none -mg 1`, `GGML_VK_VISIBLE_DEVICES=1`
- Ollama: `CUDA_VISIBLE_DEVICES=1`, `GGML_VK_VISIBLE_DEVICES=1`, `main_gpu`; it ignores integrated GPUs unless
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
from unslow.facts.values import Known, Origin
from unslow.think.case.device import is_integrated_name, is_much_faster, names_same_device, rank_by_bandwidth
from unslow.think.case.narrative import is_clear
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, Suspected, all_of, finding

FASTER = "select the faster GPU"
_SURELY = re.compile(r"\bwrong (?:gpu|card|device|one)\b|\binstead of\b|while .{1,40}\bidle", re.IGNORECASE)
_SOFTWARE = re.compile(r"llvmpipe|lavapipe|swiftshader|device type is cpu|microsoft basic render", re.IGNORECASE)


def single_gpu(case: CaseView) -> Absent | None:
    """Whether the driver lists more than one GPU; people name only the one that they think of."""
    gpus = case.machine.gpus
    listed = isinstance(gpus, Known) and gpus.origin is not Origin.TOLD and len(gpus.value) == 1
    return Absent("there is only one GPU") if listed and len(case.gpus.seen_by_runtime) <= 1 else None


def device_in_use(case: CaseView) -> Found | Absent | None:
    """The device that the log says is used, against the other GPUs of the machine."""
    # At best it is known which devices the runtime sees
    used, fact = [_title(d) for d in case.gpus.seen_by_runtime], "runtime.placement.devices"
    if isinstance(case.runtime.placement.device_used, Known):
        used, fact = [_listed_title(case, case.runtime.placement.device_used.value)], "runtime.placement.device_used"
    elif held := {b.device for b in case.vram.buffers("model", on_gpu=True)}:
        used, fact = [_listed_title(case, name) for name in sorted(held)], "runtime.memory.buffers"
    idle = [name for name in _gpu_names(case) if not any(names_same_device(name, one) for one in used)]
    # `Vulkan0` alone does not say which device it is
    if not used or not all(find_device(name) is not None or is_integrated_name(name) for name in used):
        return None
    best = max(idle, key=rank_by_bandwidth, default="")
    if not best or not all(is_much_faster(best, one) for one in used):
        known = fact != "runtime.placement.devices"
        return Absent(f"{used[0]} is in use, and no other GPU is much faster") if known else None
    slow = [d.memory_bytes_per_s for d in map(find_device, used) if d and d.memory_bytes_per_s]
    fast = find_device(best)
    return finding(
        case,
        f"{', '.join(used)} is in use, while {best} is idle",
        case.cite(fact, f"{best} is idle", used[0]),
        fixes=[Knob.DEVICE.to(_own_name(case, best), FASTER)],
        speedup=fast.memory_bytes_per_s / min(slow) if fast and len(slow) == len(used) else None,
    )


def software_renderer(case: CaseView) -> Found | None:
    """A driver or log line that names a software renderer: the CPU posing as a GPU."""
    said = [r for r in case.narrative.remarks_on(Topic.WRONG_GPU) if _SOFTWARE.search(r.text)]
    warned = [line for line in case.engine.warnings if _SOFTWARE.search(line)]
    devices = case.runtime.placement.devices.get() or []
    listed = [title for title in map(_title, devices) if _SOFTWARE.search(title)]
    if not said and not warned and not listed:
        return None
    fact = "runtime.history.warnings" if warned else "runtime.placement.devices"
    named = (*warned, *listed, *(remark.text for remark in said))[0]
    return finding(
        case,
        f"a software renderer stands in for the GPU: {named}",
        said[0] if said else case.cite(fact, "a real GPU is idle", named),
        fixes=[Knob.DEVICE.to(None, "install the GPU's own Vulkan driver, or select another device")],
    )


def trial_on_other_device(case: CaseView) -> Found | None:
    """Two speeds on two devices, on a machine where one GPU is much faster than another."""
    trial = case.narrative.experiment_on(Topic.DEVICE)
    if trial is None or not is_clear(trial) or not _differ_much(_gpu_names(case)):
        return None
    return finding(
        case,
        f"on the other device it is {trial.fast / trial.slow:.1f} times as fast: {trial.text}",
        fixes=[Knob.DEVICE.to(None, FASTER)],
        trial=trial,
        speedup=trial.fast / trial.slow,
    )


def said_by_person(case: CaseView) -> Found | Suspected | None:
    """A person who says that the wrong GPU is at work; it counts where several GPUs are known."""
    said, names = case.narrative.remarks_on(Topic.WRONG_GPU), _gpu_names(case)
    if not said:
        return None
    several = len(names) > 1 or len({r.text for r in said}) > 1
    if not _differ_much(names) and not (several and any(_SURELY.search(r.text) for r in said)):
        return Suspected(said[0].text, "runtime.placement.device_used", CAUSE.ask)
    return finding(
        case,
        f"the wrong one of {', '.join(names) or 'several GPUs'} is in use: {said[0].text}",
        case.narrative.cite_remarks(said),
        fixes=[Knob.DEVICE.to(_own_name(case, max(names, key=rank_by_bandwidth, default="")), FASTER)],
    )


def _title(device: SeenDevice) -> str:
    return f"{device.name} {device.description}".strip()


def _listed_title(case: CaseView, name: str) -> str:
    """A device's name with its description, where the runtime lists it."""
    listed = next((d for d in case.gpus.seen_by_runtime if d.name in {name, name.partition(" ")[0]}), None)
    return _title(listed) if listed and listed.description else name


def _own_name(case: CaseView, title: str) -> str | None:
    """What the runtime itself calls a device, such as CUDA1; None if it does not list it."""
    return next((d.name for d in case.gpus.seen_by_runtime if title and _title(d) == title), None)


def _gpu_names(case: CaseView) -> list[str]:
    """Every GPU once: as the runtime lists it, else as the machine does."""
    listed = [_title(d) for d in case.gpus.seen_by_runtime]
    named = [gpu.name.value for gpu in case.machine.gpus.get() or () if isinstance(gpu.name, Known)]
    return listed + [name for name in named if not any(names_same_device(name, one) for one in listed)]


def _differ_much(names: list[str]) -> bool:
    return any(is_much_faster(one, other) for one in names for other in names)


CAUSE = Cause(
    title="The wrong GPU is used",
    phase="decode",
    needs=all_of(
        "runtime.placement.device_used or runtime.memory.buffers or runtime.placement.devices or "
        "runtime.history.warnings or machine.gpus or account.remarks or account.comparisons"
    ),
    routes=(
        Route("counted", single_gpu),
        Route("log", device_in_use),
        Route("log", software_renderer),
        Route("told", trial_on_other_device),
        Route("told", said_by_person),
    ),
    fails_load=True,
    explains=("weights_spill_to_ram", "gpu_backend_not_loaded", "context_larger_than_needed"),
    gpu_only=True,
    ask="{sees_gpu}, and {gpu_list}",
)
