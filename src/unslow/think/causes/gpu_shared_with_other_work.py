"""Another program computes on the same GPU.

## Why it is slow
Kernels of two programs take turns. A stranger's matrix product turned 259 tokens per second into 47 on an H200, with
memory to spare: it is the GPU's time that is shared, not its memory.

## How to confirm
`nvidia-smi pmon -c 5` while tokens are generated shows another process with a share of `sm`. The GPU is fully busy,
all layers are on it, no throttling, and yet tokens come far slower than its bandwidth allows.

## How to fix
Stop the other work, move it to another GPU, or run it at another time.

## Safety
Answers do not change. Ending a program loses its unsaved work. This tool names it and never ends it.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.account import ratio, remarks_on
from unslow.think.adapt.placement import layers_left_on_host
from unslow.think.adapt.shape import missing
from unslow.think.adapt.vram import own_is_known, strangers
from unslow.think.adapt.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, cite, need
from unslow.think.causes._routes import cite_comparison, cite_remarks, first_to_decide
from unslow.think.predict import DECODE
from unslow.think.report import Evidence
from unslow.think.slowness import shortfall

FULLY_BUSY = 0.9
FAR_BELOW = 1.5
"""Times slower than expected: less may be the prediction's own error."""
_ALONE = {Topic.GPU_COUNT, Topic.CONCURRENCY}
"""What words such as "alone" and "both" are taken for."""
_HOT = {"hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown"}


def check(case: Case) -> Found | Absent | Suspected:
    """A stranger on a busy GPU, and tokens far slower than all that is known explains."""
    return first_to_decide(case, _by_processes, _by_words)


def _by_words(case: Case) -> Found | Suspected | None:
    """Somebody who runs two things on one GPU and sees each slower than alone has tried it."""
    said = remarks_on(case, Topic.GPU_SHARED)
    if not said:
        return None
    slower = [c for c in case.account.comparisons.value_or(()) if set(c.differs) <= _ALONE and ratio(c) >= FAR_BELOW]
    if not slower:
        return Suspected(said[0].text, "machine.gpus.0.processes", CAUSE.ask)
    return Found(
        because=f"several programs compute on one GPU, and each is slower than alone: {said[0].text}",
        evidence=(*cite_remarks(case, said), *(cite_comparison(case, c) for c in slower[:1])),
        remedies=(Remedy(Knob.OTHER_PROCESS.to(None, "give each a GPU of its own, or run them in turn")),),
    )


def _by_processes(case: Case) -> Found | Absent:
    need(case, "machine.gpus.0.processes")
    if not own_is_known(case):
        need(case, "runtime.pid")
    others = strangers(case)
    if not others:
        return Absent("no other process is on the GPU")
    busy = max((g.busy.value_or(0.0) for g in need(case, "run.gpus")), default=0.0)
    need(case, "run.gpus.0.busy")
    if busy < FULLY_BUSY:
        return Absent(f"the GPU is {busy:.0%} busy: nobody else keeps it from the runtime")
    need(case, f"run.{DECODE}")
    if layers_left_on_host(case):
        return Absent("part of the model is on the CPU")
    lost = shortfall(case)
    if lost is None:
        raise missing("how fast it should be", CAUSE.ask)
    if lost < FAR_BELOW or _is_hot(case):
        return Absent("the speed is what this GPU gives" if lost < FAR_BELOW else "the GPU is slowed down by heat")
    named = f"{others[0].name.value_or('another process')} (pid {others[0].pid})"
    return Found(
        because=f"{named} is on the same GPU, which is {busy:.0%} busy, and tokens come {lost:.1f} times slower than "
        "this GPU gives for a model that is all on it",
        evidence=(_cited(case, others[0].pid, named), cite(case, "run.gpus.0.busy"), cite(case, f"run.{DECODE}")),
        cure=Cure(),
        remedies=(
            Remedy(Knob.OTHER_PROCESS.to(others[0].pid, "stop it, move it or run it later"), Cure(), "its work"),
        ),
    )


def _is_hot(case: Case) -> bool:
    return any(_HOT & set(g.event_reasons.value_or([])) for g in case.run.gpus.value_or(()))


def _cited(case: Case, pid: int, named: str) -> Evidence:
    listed = next(g.processes for g in case.machine.gpus.need() if any(p.pid == pid for p in g.processes.value_or([])))
    source = listed.source if isinstance(listed, Known) else ""
    return Evidence(
        fact=f"machine.gpus.processes.{pid}", value=named, reference="not the runtime", origin="reported", source=source
    )


CAUSE = Cause(
    title="Another program computes on the same GPU",
    phase="decode",
    needs=(
        ("machine.gpus.0.processes", "account.remarks"),
        ("run.gpus", "account.remarks"),
        ("run.decode_tokens_per_s", "account.remarks"),
    ),
    check=check,
    explains=("gpu_power_capped", "gpu_held_at_low_clocks", "gpu_thermal_throttling", "cpu_contended"),
    gpu_only=True,
    ask="`nvidia-smi pmon -c 5` while it generates",
)
