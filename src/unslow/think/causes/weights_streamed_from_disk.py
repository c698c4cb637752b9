"""The weights are larger than the memory that holds them, so they are read from disk again for every token.

## Why it is slow
llama.cpp maps the model file; pages that do not fit into RAM are dropped and read again when the next token needs
them. A disk gives a few GB/s at best, a hundredth of what a GPU's memory gives: at 300 GB and 7 GB/s a token takes 45
seconds.

Guides blame slow disks for pauses between tokens, but a disk matters only here: a model that fits into memory is read
from disk once, when it is loaded.

## How to confirm
Weights on the host are more than the RAM, or than the memory limit of the container; while tokens are generated the
disk reads at its full rate (`iostat -x 1`, `vmstat 1` under `bi`; macOS: `iostat -w 1`; Windows: the disk in Task
Manager) and the runtime shows major page faults.

## What it is not
The first load, which always reads the disk, or the first tokens after it, which fetch what was not read yet.

## How to fix
Fewer bytes, or more room for them:
- any: a smaller quant or model, more RAM, a higher memory limit (`docker run --memory`); a mixture of experts suffers
  less, for a token reads only a part of it
- llama.cpp: more layers on the GPU (`-ngl`), for what lies there needs no RAM
- Ollama: `num_gpu`, `use_mmap` false (the load then fails instead); LM Studio: "Keep model in memory", "Try mmap" off
- Transformers: a `device_map` without `disk`

## Safety
A smaller quant or model changes the answers.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MIB, Known
from unslow.think.case.demand import missing
from unslow.think.case.gpus import has_no_gpu, vram_total_bytes
from unslow.think.case.narrative import amount_bytes, names_phase, remarks_on
from unslow.think.case.prediction import measured_rate
from unslow.think.case.vram import gpus_of, runtime_sees_gpu
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._evidence import cite_watched, host_at_work
from unslow.think.causes._facts import cite, cite_known, cite_remarks

LEAST_READ, LEAST_READ_BYTES = 0.01, 4 * MIB
"""Of the weights, and in bytes, for each token: what else a machine reads meanwhile is less."""
MOST_OF_A_FAULT = 128 * MIB
"""What one page fault reads at most, by reading ahead: usually 128 KiB, and 90 MiB on a recorded virtual disk."""
USABLE = 0.95  # Of the RAM: the system itself needs the rest
BEYOND_ANY_PC = 192 * GIB  # More than this no board for desktop processors of these years holds
MORE_THAN_WEIGHTS = 1.25  # Times the weights: room for the KV cache, the compute buffer and the program itself
PARTLY = 0.9  # Of the weights on the host: what a mapped model that has answered has in memory, at least
WAITING = 0.3  # Share of the time in which something waits for the disk
_HELD_IN_RAM = {"none", "mlock", "mmap+mlock"}


def check(case: Case) -> Found | Absent | Suspected:
    """Hold the weights that are not on a GPU against the RAM."""
    if names_phase(case, "load"):
        return Absent("the complaint is about the load: every model is read from disk once")
    return first_to_decide(case, _by_counters, _by_watching, _by_size, _by_waiting, _by_words)


def _by_counters(case: Case) -> Found | Absent | Suspected | None:
    """What the disks gave while tokens were generated, less what came back from swap: what is seen beats any sum."""
    of_a_token = _read_for_a_token(case)
    if of_a_token is None:
        return None
    words = f"{of_a_token / MIB:.1f} MiB were read from disk for each token"
    weights = case.model.weights_bytes.need() if of_a_token >= LEAST_READ_BYTES else 1
    share = of_a_token / max(1, weights)
    if of_a_token < LEAST_READ_BYTES or share < LEAST_READ:
        return Absent(f"{words}: they are in memory")
    if case.runtime.load_mode.value_or("") in _HELD_IN_RAM:
        return None  # what was copied into memory never comes back from the model's file
    # What would tell whether it was the model that was read
    unseen = host_at_work(case, "swap_in_bytes_per_s") is None and case.machine.memory.swap_used_bytes.value_or(1)
    doubt = "what comes back from swap while it generates" if unseen else ""
    if host_at_work(case, "own_major_faults_per_s") is None:
        doubt = "the runtime's own page faults while it generates"
    if doubt:
        return Suspected(f"{words}, by whomever", doubt, CAUSE.ask)
    watched = cite_watched(case, "disk_read_bytes_per_s", words, "none once it is loaded")
    because = f"{words}, {share:.0%} of the weights: they do not stay in memory"
    return _within_limit(case, _found(because, (watched, *_cited_limit(case))))


def _read_for_a_token(case: Case) -> float | None:
    """Bytes from disk that the runtime may have waited for: of what all read, no more than page faults can fetch."""
    read, rate = host_at_work(case, "disk_read_bytes_per_s"), measured_rate(case)
    if read is None or not isinstance(rate, Known):
        return None
    swapped = host_at_work(case, "swap_in_bytes_per_s")
    faults = host_at_work(case, "own_major_faults_per_s") or host_at_work(case, "major_faults_per_s")
    its = max(0.0, read.mean - (swapped.mean if swapped else 0.0))
    return min(its, faults.mean * MOST_OF_A_FAULT if faults else its) / rate.value


def _within_limit(case: Case, found: Found) -> Found:
    """Where the machine has room and only the limit of its control group has not: that is raised first."""
    memory, weights = case.machine.memory, case.model.weights_bytes.value_or(0)
    limits = [f.value for f in (case.runtime.memory_limit_bytes, memory.limit_bytes) if isinstance(f, Known)]
    wanted = int(MORE_THAN_WEIGHTS * weights)
    has_room = isinstance(memory.total_bytes, Known) and wanted <= USABLE * memory.total_bytes.value
    if not limits or min(limits) >= wanted or not weights or not has_room:
        return found
    because = f"{found.because}; its control group may use {min(limits) / GIB:.1f} GiB, the page cache among it"
    higher = Remedy(Knob.MEMORY_LIMIT.to(wanted, "a memory limit with room for the weights and the cache"), Cure())
    return found._replace(because=because, remedies=(higher, *found.remedies))


def _cited_limit(case: Case) -> Citations:
    """What its control group may use, the page cache of the model among it; nothing where there is no limit."""
    paths = ("runtime.memory_limit_bytes", "machine.memory.limit_bytes")
    return cite_known(case, *paths, reference="its control group may use so much")[:1]


def _by_size(case: Case) -> Found | Absent | None:
    """More weights than RAM and GPUs can hold together."""
    if not isinstance(case.model.weights_bytes, Known) or not isinstance(case.machine.memory.total_bytes, Known):
        return None
    held = _on_gpus(case)
    if held is None:
        return None
    memory, host = case.machine.memory, max(0.0, case.model.weights_bytes.value - held)
    limits = (memory.total_bytes, memory.limit_bytes, case.runtime.memory_limit_bytes)
    ram = float(min(limit.value for limit in limits if isinstance(limit, Known)))
    weights = f"{host / GIB:.0f} GiB" if host >= GIB else f"{host / MIB:.0f} MiB"
    sizes = f"{weights} of weights on the host, {ram / GIB:.0f} GiB of RAM"
    if host <= USABLE * ram:
        # The process has fewer bytes in memory than weights: a limit of its own may keep the rest out
        resident, load_mode = case.runtime.resident_bytes, case.runtime.load_mode.value_or("")
        others = sum(b.bytes for b in case.runtime.buffers.value_or([]) if b.kind != "model" and not b.on_gpu)
        there = resident.value_or(others + host) - others
        partly = load_mode not in _HELD_IN_RAM and there < PARTLY * host
        if partly or (_read_for_a_token(case) or 0.0) >= LEAST_READ_BYTES:
            raise missing("what the disks give while it generates", CAUSE.ask)
        return Absent(f"they fit: {sizes}")
    if case.runtime.load_mode.value_or("") in _HELD_IN_RAM:
        return Absent(f"they were copied into memory, so what lacks room there is swapped out, not read again: {sizes}")
    found = _found(
        f"the weights do not fit into memory, and are read from disk for every token: {sizes}",
        (cite(case, "model.weights_bytes", sizes), cite(case, "machine.memory.total_bytes"), *_cited_limit(case)),
    )
    return _within_limit(case, found)


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
    shown = (cite(case, "machine.load.io_pressure"), cite(case, "runtime.resident_bytes"))
    return _found(f"{because}something waits for the disk", shown)


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
    if size < BEYOND_ANY_PC or 0.5 * size < ram:
        return Suspected(said[0].text, "machine.memory.total_bytes", CAUSE.ask)
    because = f"{size / GIB:.0f} GiB of weights are read from disk as tokens need them: {said[0].text}"
    return _found(because, cite_remarks(case, said))


def _found(because: str, evidence: Citations) -> Found:
    change = Knob.QUANT.to(None, "a quant or model that fits into RAM and GPU memory together, or more RAM")
    # physics reckons with weights in memory, so the case as configured is the cured one
    return Found(because, evidence, Cure(), (Remedy(change, Cure(), "another model gives other answers"),))


CAUSE = Cause(
    title="The weights are read from disk for every token",
    phase="decode",
    needs=(
        ("model.weights_bytes", "account.remarks"),
        ("run.telemetry", "machine.memory.total_bytes", "account.remarks"),
    ),
    check=check,
    explains=("weights_spill_to_ram", "model_outside_envelope", "swapping", "experts_on_cpu"),
    ask="{memory}; {model_size}; and while it generates: {disk_reads}",
)
