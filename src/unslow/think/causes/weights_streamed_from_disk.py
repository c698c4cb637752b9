"""The weights are larger than the memory for them, so they are read from disk again for every token.

## Why it is slow
llama.cpp maps the model file (mmap). Pages that do not fit into RAM are dropped, and read again when the next token
needs them. A disk delivers a few GB/s at best, a hundredth of a GPU's memory bandwidth: at 300 GB and 7 GB/s a token
takes 45 seconds.

Guides blame slow disks for pauses between tokens, but a disk matters only here: a model that fits into memory is read
from disk once, when it is loaded.

## How to confirm
The weights on the host exceed the RAM, or the memory limit of the container; while tokens are generated the disk reads
at its full rate (`iostat -x 1`, `vmstat 1` under `bi`; macOS: `iostat -w 1`; Windows: the disk in Task Manager) and the
runtime shows major page faults.

## What it is not
The first load, which always reads the disk, or the first tokens after it, which fetch what was not read yet.

## How to fix
Fewer bytes, or more room for them:
- any: a smaller quant or model, more RAM, a higher memory limit (`docker run --memory`); a mixture of experts suffers
  less, since a token reads only part of it
- llama.cpp: more layers on the GPU (`-ngl`): they need no RAM
- Ollama: `num_gpu`, `use_mmap` false (the load then fails instead); LM Studio: "Keep model in memory", "Try mmap" off
- Transformers: a `device_map` without `disk`

## Safety
A smaller quant or model changes the answers.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import GIB, MIB, Known
from unslow.think.case.cure import Cure
from unslow.think.case.group import missing
from unslow.think.case.host import USABLE_RAM
from unslow.think.case.narrative import amount_bytes
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Route, Suspected, all_of, finding
from unslow.think.plan.free_memory import higher_memory_limit

LEAST_READ, LEAST_READ_BYTES = 0.01, 4 * MIB
"""Of the weights, and in bytes, for each token: what else a machine reads meanwhile is less."""
MOST_OF_A_FAULT = 128 * MIB
"""What one page fault reads at most, by reading ahead: usually 128 KiB, and 90 MiB on a recorded virtual disk."""
BEYOND_ANY_PC = 192 * GIB  # No board for desktop CPUs of these years takes more
PARTLY = 0.9  # Of the weights on the host: what a mapped model that has generated tokens has in memory, at least
WAITING = 0.3  # Share of the time in which something waits for the disk


def complaint_about_load(case: CaseView) -> Absent | None:
    """Whether a person complains about the load, which reads the disk once in any case."""
    is_load = case.narrative.names_phase("load")
    return Absent("the complaint is about the load: every model is read from disk once") if is_load else None


def disk_reads_at_work(case: CaseView) -> Found | Absent | Suspected | None:
    """What the disks delivered for each token, less what was read back from swap."""
    per_token = _read_per_token(case)
    if per_token is None:
        return None
    words = f"{per_token / MIB:.1f} MiB were read from disk for each token"
    if per_token < LEAST_READ_BYTES or per_token / max(1, case.model.weights_bytes.need()) < LEAST_READ:
        return Absent(f"{words}: the weights are in memory")
    if _is_copied(case):
        return None
    # What would show whether it was the model that was read
    seen, swap_used = case.telemetry.host_at_work, case.machine.memory.swap_used_bytes.get()
    if seen("own_major_faults_per_s") is None:
        words = f"{words}, perhaps by another process"
        return Suspected(words, "the runtime's own page faults while it generates", CAUSE.ask)
    if seen("swap_in_bytes_per_s") is None and swap_used != 0:
        return Suspected(f"{words}, perhaps from swap", "what is read back from swap while it generates", CAUSE.ask)
    because = f"{words}, {per_token / max(1, case.memory.weights_bytes):.0%} of the weights: they do not stay in memory"
    watched = case.telemetry.cite("disk_read_bytes_per_s", words, "none once it is loaded")
    return _streams(case, because, (watched, *case.host.cite_memory_limit), is_limited=True)


def disk_watched_by_person(case: CaseView) -> Found | None:
    """A person who watched the disk while tokens were generated."""
    seen = case.narrative.remarks_on(Topic.DISK_BUSY_WHILE_GENERATING)
    if not seen:
        return None
    because = f"the weights are read from disk as tokens need them: {seen[0].text}"
    return _streams(case, because, case.narrative.cite_remarks(seen))


def weights_against_memory(case: CaseView) -> Found | Absent | None:
    """The weights that are not on GPUs, against the RAM and the memory limit."""
    weights, ram = case.model.weights_bytes.get(), case.host.ram_bytes
    if weights is None or ram is None or (held := case.placement.gpu_weights_bytes) is None:
        return None
    host, copied = max(0.0, weights - held), _is_copied(case)
    size = f"{host / GIB:.0f} GiB" if host >= GIB else f"{host / MIB:.0f} MiB"
    sizes = f"{size} of weights on the host, {ram / GIB:.0f} GiB of RAM"
    if host <= USABLE_RAM * ram:
        # Fewer bytes in memory than weights: a limit that is not known may keep the rest out
        others = sum(b.bytes for b in case.vram.all_buffers if b.kind != "model" and not b.on_gpu)
        resident = case.runtime.process.resident_bytes.get()
        is_partial = not copied and resident is not None and resident - others < PARTLY * host
        if is_partial or (_read_per_token(case) or 0.0) >= LEAST_READ_BYTES:
            raise missing("disk reads while it generates", CAUSE.ask)
        return Absent(f"they fit: {sizes}")
    if copied:
        return Absent(f"the weights were copied into memory: what does not fit is swapped, not read again: {sizes}")
    because = f"the weights do not fit into memory, and are read from disk for every token: {sizes}"
    shown = (case.cite("model.weights_bytes", sizes), case.cite("machine.memory.total_bytes"))
    return _streams(case, because, (*shown, *case.host.cite_memory_limit), is_limited=True)


def waits_for_disk(case: CaseView) -> Found | None:
    """How long something waits for the disk while less than half of a mapped model is in memory."""
    pressure, resident = case.machine.load.io_pressure.get(), case.runtime.process.resident_bytes.get()
    if pressure is None or pressure < WAITING or resident is None:
        return None
    host = max(0.0, case.model.weights_bytes.need() - (case.placement.gpu_weights_bytes or 0.0))
    if _is_copied(case) or resident > host / 2:
        return None
    because = f"{resident / GIB:.1f} of {host / GIB:.1f} GiB are in memory, and {pressure:.0%} of the time "
    shown = case.cite_known("machine.load.io_pressure", "runtime.process.resident_bytes")
    return _streams(case, f"{because}something waits for the disk", shown)


def said_by_person(case: CaseView) -> Found | Suspected | None:
    """A person who speaks of a busy disk or a mapped file; it counts where the file exceeds the memory of any PC."""
    said = case.narrative.remarks_on(Topic.DISK_BUSY)
    if not said:
        return None
    size = max(case.memory.weights_bytes, *(amount_bytes(r.text) for r in said))
    ram, shown = case.machine.memory.total_bytes.get(), case.narrative.cite_remarks(said)
    if ram and size > ram and not case.gpus.usable:
        because = (
            f"{size / GIB:.0f} GiB of weights are mapped, and there are {ram / GIB:.0f} GiB of RAM: {said[0].text}"
        )
        return _streams(case, because, (case.cite("machine.memory.total_bytes"), *shown))
    if size < BEYOND_ANY_PC or (ram is not None and 0.5 * size < ram):
        return Suspected(said[0].text, "machine.memory.total_bytes", CAUSE.ask)
    because = f"{size / GIB:.0f} GiB of weights are read from disk as tokens need them: {said[0].text}"
    return _streams(case, because, shown)


def _read_per_token(case: CaseView) -> float | None:
    """Bytes from disk that the runtime may have waited for: of all that was read, at most what page faults fetch."""
    seen, rate = case.telemetry.host_at_work, case.speed.measured_rate
    read, swapped = seen("disk_read_bytes_per_s"), seen("swap_in_bytes_per_s")
    if read is None or not isinstance(rate, Known):
        return None
    faults = seen("own_major_faults_per_s") or seen("major_faults_per_s")
    its = max(0.0, read.mean - (swapped.mean if swapped else 0.0))
    return min(its, faults.mean * MOST_OF_A_FAULT if faults else its) / rate.value


def _is_copied(case: CaseView) -> bool:
    """Whether the weights were copied into memory: then they never come back from the model's file."""
    return case.runtime.placement.load_mode.get() in {"none", "mlock", "mmap+mlock"}


def _streams(case: CaseView, because: str, shown: Citations, *, is_limited: bool = False) -> Found:
    """With the cure of the case as configured: physics assumes weights in memory."""
    smaller = Knob.QUANT.to(None, "a quant or model that fits into RAM and VRAM together, or more RAM")
    fixes = [Remedy(smaller, Cure(), "another model gives other answers")]
    if is_limited and (higher := higher_memory_limit(case)) and (limit := case.host.memory_limit_bytes):
        because = f"{because}; its memory limit is {limit / GIB:.1f} GiB, page cache included"
        fixes = [higher, *fixes]
    return finding(case, because, shown, cure=Cure(), fixes=fixes)


CAUSE = Cause(
    title="The weights are read from disk for every token",
    phase="decode",
    needs=all_of(
        "model.weights_bytes or account.remarks", "run.telemetry or machine.memory.total_bytes or account.remarks"
    ),
    routes=(
        Route("told", complaint_about_load),
        Route("measured", disk_reads_at_work),
        Route("told", disk_watched_by_person),
        Route("counted", weights_against_memory),
        Route("measured", waits_for_disk),
        Route("told", said_by_person),
    ),
    explains=("weights_spill_to_ram", "model_outside_envelope", "swapping", "experts_on_cpu"),
    ask="{memory}; {model_size}; and while it generates: {disk_reads}",
)
