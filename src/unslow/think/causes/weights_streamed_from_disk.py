"""The weights are larger than the memory that holds them, so they are read from disk again for every token.

## Why it is slow
llama.cpp maps the model file; pages that do not fit into RAM are dropped and read again when the next token needs
them. A disk gives a few GB/s at best, a hundredth of what a GPU's memory gives: at 300 GB and 7 GB/s a token takes 45
seconds.

## How to confirm
Weights on the host are more than the RAM; while tokens are generated the disk reads at its full rate (`iostat -x 1`,
`vmstat 1` under `bi`) and the runtime shows major page faults.

## How to fix
A smaller quant or model, or more RAM. A mixture of experts suffers less: it reads only a part for each token.

## Safety
A smaller quant or model changes the answers.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.units import GIB
from unslow.facts.values import Known
from unslow.think.adapt.account import amount_bytes, remarks_on
from unslow.think.adapt.experiments import names_phase
from unslow.think.adapt.hardware import has_no_gpu, vram_total_bytes
from unslow.think.adapt.vram import gpus_of, runtime_sees_gpu
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, cite
from unslow.think.causes._routes import cite_remarks, first_to_decide
from unslow.think.report import Evidence

USABLE = 0.95
"""Of the RAM: the system itself needs the rest."""
BEYOND_ANY_PC = 192 * GIB
"""More than this no board for desktop processors of these years holds."""
WAITING = 0.3
"""Share of the time in which something waits for the disk."""
_HELD_IN_RAM = {"none", "mlock", "mmap+mlock"}


def check(case: Case) -> Found | Absent | Suspected:
    """Hold the weights that are not on a GPU against the RAM."""
    if names_phase(case, "load"):
        return Absent("the complaint is about the load: every model is read from disk once")
    return first_to_decide(case, _by_watching, _by_size, _by_waiting, _by_words)


def _by_size(case: Case) -> Found | Absent | None:
    """More weights than RAM and GPUs can hold together."""
    if not isinstance(case.model.weights_bytes, Known) or not isinstance(case.machine.memory.total_bytes, Known):
        return None
    held = _on_gpus(case)
    if held is None:
        return None
    ram, host = _ram(case), max(0.0, case.model.weights_bytes.value - held)
    sizes = f"{host / GIB:.0f} GiB of weights on the host, {ram / GIB:.0f} GiB of RAM"
    if host <= USABLE * ram:
        return Absent(f"they fit: {sizes}")
    return _found(
        f"the weights do not fit into memory, and are read from disk for every token: {sizes}",
        (cite(case, "model.weights_bytes", sizes), cite(case, "machine.memory.total_bytes")),
    )


def _ram(case: Case) -> float:
    memory = case.machine.memory
    return float(min(memory.total_bytes.need(), memory.limit_bytes.value_or(memory.total_bytes.need())))


def _on_gpus(case: Case) -> float | None:
    """Weights that GPUs hold: by the layers there, else as much as they could; None where nobody knows."""
    layers, on_gpu = case.runtime.layers.value_or(0), case.runtime.gpu_layers.value_or(0)
    if layers:
        return case.model.weights_bytes.need() * on_gpu / layers
    if has_no_gpu(case) or runtime_sees_gpu(case) is False:
        return 0.0
    return vram_total_bytes(case)


def _by_waiting(case: Case) -> Found | None:
    """Waiting for the disk while a mapped model is only partly in memory."""
    pressure, resident = case.machine.load.io_pressure, case.runtime.resident_bytes
    if not isinstance(pressure, Known) or pressure.value < WAITING or not isinstance(resident, Known):
        return None
    host = max(0.0, case.model.weights_bytes.need() - (_on_gpus(case) or 0.0))
    if case.runtime.load_mode.value_or("") in _HELD_IN_RAM or resident.value > host / 2:
        return None
    because = f"{resident.value / GIB:.1f} of {host / GIB:.1f} GiB are in memory, and {pressure.value:.0%} of the time "
    return _found(
        f"{because}something waits for the disk",
        (cite(case, "machine.load.io_pressure"), cite(case, "runtime.resident_bytes")),
    )


def _by_watching(case: Case) -> Found | None:
    """A disk that was watched while tokens came: what is seen beats any sum."""
    seen = remarks_on(case, Topic.DISK_BUSY_WHILE_GENERATING)
    if not seen:
        return None
    return _found(f"the weights are read from disk as tokens need them: {seen[0].text}", cite_remarks(case, seen))


def _by_words(case: Case) -> Found | Suspected | None:
    """A mapped file larger than any PC's memory; else a sign, no more."""
    said = remarks_on(case, Topic.DISK_BUSY)
    if not said:
        return None
    size = max(case.model.weights_bytes.value_or(0), *(amount_bytes(r.text) for r in said))
    ram = case.machine.memory.total_bytes.value_or(0)
    if ram and size > ram and not gpus_of(case):  # no machine of which no GPU is told keeps all of it
        because = f"{size / GIB:.0f} GiB of weights are mapped, and the memory has {ram / GIB:.0f} GiB: {said[0].text}"
        return _found(because, (cite(case, "machine.memory.total_bytes"), *cite_remarks(case, said)))
    held = 0.5 * size < case.machine.memory.total_bytes.value_or(0)
    if size < BEYOND_ANY_PC or held:
        return Suspected(said[0].text, "machine.memory.total_bytes", CAUSE.ask)
    return _found(
        f"{size / GIB:.0f} GiB of weights are read from disk as tokens need them: {said[0].text}",
        cite_remarks(case, said),
    )


def _found(because: str, evidence: tuple[Evidence, ...]) -> Found:
    change = Knob.QUANT.to(None, "a quant or model that fits into RAM and GPU memory together, or more RAM")
    return Found(because, evidence, None, (Remedy(change, None, "another model gives other answers"),))


CAUSE = Cause(
    title="The weights are read from disk for every token",
    phase="decode",
    needs=(("model.weights_bytes", "account.remarks"), ("machine.memory.total_bytes", "account.remarks")),
    check=check,
    explains=("weights_spill_to_ram", "model_outside_envelope", "swapping", "experts_on_cpu"),
    ask="`free -g; ls -lh MODEL`, and `vmstat 1 5` while it generates",
)
