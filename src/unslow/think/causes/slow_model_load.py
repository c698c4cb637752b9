"""The model takes long to load because of where it is stored.

## Why it is slow
Loading reads every byte of the weights once. A hard disk gives 100 to 200 MB/s, a network share about as much, a SATA
SSD 500, NVMe several thousand. After that the disk plays no part: tokens are as fast from any disk.

## How to confirm
Weights divided by the load time is about what such a disk gives: `sudo dd if=MODEL of=/dev/null bs=16M count=256
iflag=direct`. A second load, from the page cache, is quick.

Guides say that a slow disk leaves gaps in the work of the GPU, but that is so only while it loads, or where the
weights do not fit into memory.

## What it is not
Tokens that come slowly: once the model is loaded its disk plays no part. Nor a load that computes rather than reads,
such as compiling or capturing graphs.

## How to fix
Keep models on a local NVMe disk (llama.cpp `-m`, Ollama `OLLAMA_MODELS`, LM Studio its models folder, vLLM and
Transformers `HF_HOME`); copy them there from network shares. Where the share or a virtual machine handles mapped files
badly: llama.cpp `--load-mode none` (`--no-mmap` before b10105), Ollama `use_mmap false`; vLLM on a share:
`--safetensors-load-strategy eager`. Keep the model loaded.

## Safety
Answers do not change.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.machine import Disk
from unslow.facts.snapshot import Case
from unslow.facts.values import GB, Known, not_found
from unslow.think.case.narrative import experiment_on, is_clear, names_phase, remarks_on
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, check_by
from unslow.think.causes._facts import ask_for, cite, cite_remarks, found_by_trial
from unslow.think.report import Cost, Evidence

LONG_S = 20.0  # A load that takes less is what people expect of any model
FASTEST = {"hdd": 0.28 * GB, "network": 1.2 * GB, "ssd": 0.56 * GB}
"""What the quickest of each kind reads: an outer track, ten-gigabit Ethernet, SATA at 6 Gbit/s."""
NVME_RATE = 2 * GB  # What loading from an ordinary NVMe disk reaches: reading, and copying to the GPU
SLOW_RATE = 0.5 * GB  # In a second: SATA disks give half a gigabyte, and any NVMe disk several times that
HARD_DISK_RATE = 0.12 * GB
"""What a plain hard disk reads in a row: no disk without moving parts is slower, unless something holds it back."""
_ANY_SPEED = {"nvme", "virtual", "other"}
_KINDS = {"hdd": "a hard disk", "network": "a share or volume on the network", "ssd": "a SATA SSD"}
_LOCAL = "keep the model on a local NVMe disk"
_QUICKER = f"{_LOCAL}, or on a volume with more throughput"
_INTO_LINUX = "copy the model into the file system of WSL itself, such as ~/models, and load it from there"
MOST_OF_IT = 0.5  # Of the weights: a load that read less than this from disk found the rest in memory
CRAWL_RATE = 0.25 * GB
"""Less than any disk gives that is worth keeping models on: whatever the disk, the load itself is what is slow."""
_RATE = re.compile(r"(?i)\b\d{1,3} ?mb/s")
SHOW = "{disk}"


def _by_trial(case: Case) -> Found | None:
    tried = experiment_on(case, Topic.DISK, Topic.LOAD_MODE, metrics=("load",))
    if tried is None or not is_clear(tried) or tried.metric != "load":
        return None
    local = Remedy(Knob.STORAGE.to(None, _LOCAL))
    return found_by_trial(case, tried, "from elsewhere, or loaded otherwise, the load", local)


def _by_rate(case: Case) -> Found | Absent | Suspected:
    seconds = ask_for(case, "run.load_s", "the time from the start of the load to the first answer")
    if seconds < LONG_S:
        return Absent(f"loaded in {seconds:.1f} s")
    if names_phase(case, "load") and remarks_on(case, Topic.SLOW_SHARE):
        # Somebody waits for minutes for the load itself, and names the medium
        said = remarks_on(case, Topic.SLOW_SHARE)[:1]
        words = f"the load takes {seconds:.0f} s: {said[0].text}"
        return _found(words, (cite(case, "run.load_s"), *cite_remarks(case, said)))
    rate = ask_for(case, "model.weights_bytes", "{model_size}") / seconds
    words = f"the load took {seconds:.0f} s, {rate / GB:.2f} GB/s"
    from_disk, disk = case.runtime.disk_read_bytes, _disk(case)
    kind = disk.kind if disk else not_found("nobody looked at the disk of the model")
    seen = isinstance(from_disk, Known) and _is_counted(case)
    if seen and from_disk.value_or(0) < MOST_OF_IT * case.model.weights_bytes.need():
        return Absent(f"{words}, and the file lay in memory already: the disk is not what limits it")
    if isinstance(kind, Known):
        return _from_kind(case, rate, words, Known(str(kind.value), kind.origin, kind.source))
    if rate >= SLOW_RATE:
        return Absent(f"{words}: it is a large model")
    if rate < CRAWL_RATE and isinstance(from_disk, Known):
        return _from_any(case, rate, words)
    if rate < CRAWL_RATE and names_phase(case, "load"):
        return _found(words, (cite(case, "run.load_s"), cite(case, "model.weights_bytes")))
    return Suspected(words, "what kind of disk the model lies on", kind.how_to_get or SHOW)


def _from_kind(case: Case, rate: float, words: str, kind: Known[str]) -> Found | Absent | Suspected:
    """The verdict on a rate by what the quickest disk of the kind gives."""
    crawl = CRAWL_RATE if isinstance(case.runtime.disk_read_bytes, Known) else HARD_DISK_RATE
    if kind.value in _ANY_SPEED and rate < crawl:
        return _from_any(case, rate, words, kind)
    if rate > FASTEST.get(kind.value, 0.0):
        return Absent(f"{words}: the disk ({kind.value}) is not what limits it")
    medium, what = _KINDS[kind.value], _LOCAL
    if kind.value == "network" and case.machine.system.wsl.value_or(default=False):
        medium, what = "a Windows drive through WSL", _INTO_LINUX
    elif kind.value == "network" and _is_counted(case):
        what = _QUICKER
    evidence = (cite(case, "run.load_s"), _cited(kind))
    return _priced(case, rate, _found(f"{words}, which is what {medium} gives", evidence, what))


def _priced(case: Case, rate: float, found: Found) -> Found:
    """With what an ordinary NVMe disk would save of the load."""
    lost = Cost(seconds=case.run.load_s.need() * (1 - rate / NVME_RATE), per="request")
    return found._replace(speedup=NVME_RATE / rate, lost=lost)


def _from_any(case: Case, rate: float, words: str, kind: Known[str] | None = None) -> Found | Suspected:
    """The verdict on a load that was slower than from a hard disk: whatever the disk is, if it was the disk."""
    slower_than = "a hard disk" if rate < HARD_DISK_RATE else "any local disk without moving parts"
    words, from_disk = f"{words}, slower than from {slower_than}", case.runtime.disk_read_bytes
    if not isinstance(from_disk, Known):
        return Suspected(words, "runtime.disk_read_bytes", from_disk.how_to_get or SHOW)
    evidence = (cite(case, "run.load_s"), cite(case, "runtime.disk_read_bytes"), *((_cited(kind),) if kind else ()))
    return _priced(case, rate, _found(words, evidence))


def _by_words(case: Case) -> Found | None:
    """A complaint about the load, with the medium that it comes from."""
    said = remarks_on(case, Topic.SLOW_SHARE)
    measured = any(_RATE.search(remark.text) for remark in said)
    if not said or not (names_phase(case, "load") or (measured and names_phase(case, "first_token"))):
        return None
    return _found(f"the model comes from a slow place: {said[0].text}", cite_remarks(case, said[:1]))


def _is_counted(case: Case) -> bool:
    """Whether the kernel counts what the disk gave: of block devices always, of shares only in some file systems."""
    disk = _disk(case)
    if disk is None:  # it may be a drive of Windows, of which Linux inside it counts nothing
        return not case.machine.system.wsl.value_or(default=True)
    if isinstance(disk.device, Known):
        return disk.device.value.startswith("/dev/")
    return disk.kind.value_or("") != "network"


def _disk(case: Case) -> Disk | None:
    """The disk under the model file: that of the longest path that contains it."""
    path, disks = case.model.path.value_or(""), case.machine.disks
    under = [d for d in disks if path and path.startswith(d.path)] if path or len(disks) > 1 else list(disks)
    return max(under, key=lambda disk: len(disk.path), default=None)


def _cited(kind: Known[str]) -> Evidence:
    return Evidence(
        fact="machine.disks.kind", value=kind.value, reference=None, origin=str(kind.origin), source=kind.source
    )


def _found(because: str, evidence: Citations, what: str = _LOCAL) -> Found:
    return Found(because, evidence, remedies=(Remedy(Knob.STORAGE.to(None, what)),))


CAUSE = Cause(
    title="The model loads slowly",
    phase="load",
    needs=(("run.load_s", "account.comparisons", "account.remarks"),),
    check=check_by(_by_trial, _by_rate, _by_words),
    ask=SHOW,
)
