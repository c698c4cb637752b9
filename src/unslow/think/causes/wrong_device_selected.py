"""The runtime computes on the slower of the machine's GPUs, while a faster one is idle.

## Why it is slow
An integrated GPU reads the host's memory, five to twenty times slower than a card reads its own VRAM. Runtimes that
see both, often through Vulkan, sometimes take the first in the list. A software renderer (llvmpipe, SwiftShader,
Microsoft Basic Render Driver) is the CPU posing as a GPU, up to a hundred times slower than the CPU itself. llama.cpp
skips it unless `GGML_VK_VISIBLE_DEVICES` names it; then it reads prompts on it even with `-ngl 0`.

## How to confirm
The log names the device that was chosen (`using device Vulkan0 (Intel(R) UHD Graphics ...)`), and lists a faster one.
A software renderer is named there too, by `llama-server --list-devices` and `vulkaninfo --summary`
(`PHYSICAL_DEVICE_TYPE_CPU`); a process that computes on llvmpipe has threads of that name.

## What it is not
The only GPU in the machine, however slow; two GPUs that share one model; or a faster GPU without room for the model.

## How to fix
Name the device, or hide the slower one. Against a software renderer, install the GPU's own driver; without a GPU,
`--device none`:
- llama.cpp: `--device CUDA0` (`--list-devices` shows the names), `-sm none -mg 1`, `GGML_VK_VISIBLE_DEVICES=1`
- Ollama: `CUDA_VISIBLE_DEVICES=1`, `GGML_VK_VISIBLE_DEVICES=1`, `main_gpu`; it ignores integrated GPUs unless
  `OLLAMA_IGPU_ENABLE=1`
- LM Studio: switch the slower GPU off in the hardware settings
- vLLM, Transformers: `CUDA_VISIBLE_DEVICES=1`; with `CUDA_DEVICE_ORDER=PCI_BUS_ID` numbers are those of `nvidia-smi`

## Safety
Answers do not change beyond rounding.
"""

import re
import statistics

from unslow.catalog.devices import find_device
from unslow.facts.account import Remark, Topic
from unslow.facts.knob import Knob
from unslow.facts.values import Known, Origin
from unslow.think.case.cure import Cure
from unslow.think.case.device import (
    SOFTWARE,
    is_integrated_name,
    is_much_faster,
    names_same_device,
    rank_by_bandwidth,
    title,
)
from unslow.think.case.narrative import is_clear
from unslow.think.case.software_renderer import find_renderer
from unslow.think.case.view import CaseView
from unslow.think.case.waits import NOTICED_S
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding
from unslow.think.report import Cost, Evidence

FASTER = "select the faster GPU"
_SURELY = re.compile(r"\bwrong (?:gpu|card|device|one)\b|\binstead of\b|while .{1,40}\bidle", re.IGNORECASE)


def single_gpu(case: CaseView) -> Absent | None:
    """Whether the driver lists more than one GPU; people name only the one that they think of."""
    gpus = case.machine.gpus
    if isinstance(gpus, Known) and not gpus.value:
        return Absent("no GPU in this machine")
    listed = isinstance(gpus, Known) and gpus.origin is not Origin.TOLD and len(gpus.value) == 1
    return Absent("there is only one GPU") if listed and len(case.gpus.seen_by_runtime) <= 1 else None


def device_in_use(case: CaseView) -> Found | Absent | None:
    """The device that the log says is used, against the other GPUs of the machine."""
    # At best it is known which devices the runtime sees
    used, fact = [title(d) for d in case.gpus.seen_by_runtime], "runtime.placement.devices"
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
    """A software renderer, the CPU posing as a GPU, in the runtime's process or device list, or in a log line."""
    renderer = find_renderer(case.facts.runtime)
    said = [r for r in case.narrative.remarks_on(Topic.WRONG_GPU) if SOFTWARE.search(r.text)]
    warned = [line for line in case.engine.warnings if SOFTWARE.search(line)]
    if renderer:
        named = renderer.name
        shown: Evidence | Remark = case.cite(renderer.fact, "a GPU, or the CPU itself", named)
    elif warned:
        named, shown = warned[0], case.cite("runtime.history.warnings", "a GPU, or the CPU itself", warned[0])
    elif said:
        named, shown = said[0].text, said[0]
    else:
        return None
    lost = _lost_reading(case)
    does = "reads the prompts" if lost else "computes the model"
    room = case.vram.free_bytes if case.gpus.usable else 0.0
    driver = Knob.GPU_BACKEND.to(None, "install the GPU's own Vulkan driver, or a build for it")
    cpu = Remedy(Knob.DEVICE.to("none", "the CPU computes the model itself, many times faster"), Cure())
    # How slow a renderer is physics does not know: what it costs, only a measurement tells
    is_timed = isinstance(case.run.decode_tokens_per_s, Known)
    return finding(
        case,
        f"a software renderer, the CPU posing as a GPU, {does}: {named}",
        shown,
        cure=None if not is_timed else Cure(vram_bytes=room) if room else Cure(),
        fixes=[driver, cpu] if case.gpus.usable else [cpu] if case.gpus.has_none else [cpu, driver],
        lost=lost,
        phase="prefill" if lost else None,
    )


def _lost_reading(case: CaseView) -> Cost | None:
    """What a request loses where its prompt is read on the renderer, and the answer mostly computed on the CPU.

    A CPU reads a token of a prompt at least as fast as it generates one.
    """
    rate, slower = case.run.decode_tokens_per_s, case.speed.times_slower(Cure())
    if not isinstance(rate, Known) or not rate.value or slower is None:
        return None
    told = [c for c in case.waits.completions if c.prompt_tokens]
    lost = [c.prefill_s - (c.prompt_tokens - c.cached_tokens) / rate.value for c in told]
    seconds = statistics.median(lost) if lost else 0.0
    of_answer = case.waits.answer_tokens / rate.value * max(0.0, 1 - 1 / slower)
    return Cost(seconds=seconds, per="request") if seconds > max(NOTICED_S, of_answer) else None


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


def _listed_title(case: CaseView, name: str) -> str:
    """A device's name with its description, where the runtime lists it."""
    listed = next((d for d in case.gpus.seen_by_runtime if d.name in {name, name.partition(" ")[0]}), None)
    return title(listed) if listed and listed.description else name


def _own_name(case: CaseView, named: str) -> str | None:
    """What the runtime itself calls a device, such as CUDA1; None if it does not list it."""
    return next((d.name for d in case.gpus.seen_by_runtime if named and title(d) == named), None)


def _gpu_names(case: CaseView) -> list[str]:
    """Every GPU once: as the runtime lists it, else as the machine does."""
    listed = [title(d) for d in case.gpus.seen_by_runtime]
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
        Route("log", software_renderer),
        Route("counted", single_gpu),
        Route("log", device_in_use),
        Route("told", trial_on_other_device),
        Route("told", said_by_person),
    ),
    fails_load=True,
    explains=("weights_spill_to_ram", "gpu_backend_not_loaded", "context_larger_than_needed"),
    ask="{sees_gpu}, and {gpu_list}",
)
