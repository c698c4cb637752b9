"""The model takes long to load because of where it is stored.

## Why it is slow
Loading reads every byte of the weights once. A hard disk delivers 100 to 200 MB/s, a network share about as much, a
SATA SSD 500, NVMe several thousand. After that the disk plays no part: decode is as fast from any disk.

## How to confirm
Weights divided by the load time is about what such a disk delivers: `sudo dd if=MODEL of=/dev/null bs=16M count=256
iflag=direct`. A second load, from the page cache, is quick.

Guides say that a slow disk leaves gaps in the work of the GPU, but that is so only while it loads, or where the
weights do not fit into memory.

## What it is not
Slow decode: once the model is loaded, its disk plays no part. Nor a load that computes rather than reads, such as
compiling or capturing graphs.

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
from unslow.facts.values import GB, Known, not_found
from unslow.think.case.narrative import is_clear, times_as_fast
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, Suspected, all_of, finding
from unslow.think.report import Cost

LONG_S = 20.0  # A shorter load is what people expect of any model
FASTEST = {"hdd": 0.28 * GB, "network": 1.2 * GB, "ssd": 0.56 * GB}
"""What the quickest of each kind reads: an outer track, ten-gigabit Ethernet, SATA at 6 Gbit/s."""
NVME_RATE = 2 * GB  # What loading from an ordinary NVMe disk reaches: reading, and copying to the GPU
SLOW_RATE = 0.5 * GB  # Per second: SATA disks deliver half a gigabyte, and any NVMe disk several times that
HARD_DISK_RATE = 0.12 * GB  # What a plain hard disk reads sequentially: no SSD is slower, unless something throttles it
CRAWL_RATE = 0.25 * GB  # Below any disk that is worth keeping models on: whatever the disk, the load itself is slow
MOST_OF_IT = 0.5  # Of the weights: a load that read less than this from disk had the rest in the page cache
_ANY_SPEED = {"nvme", "virtual", "other"}
_KINDS = {"hdd": "a hard disk", "network": "a network share or volume", "ssd": "a SATA SSD"}
_LOCAL = "keep the model on a local NVMe disk"
_QUICKER = f"{_LOCAL}, or on a volume with more throughput"
_INTO_LINUX = "copy the model into WSL's own file system, such as ~/models, and load it from there"
_RATE = re.compile(r"(?i)\b\d{1,3} ?mb/s")
SHOW = "{disk}"


def trial_from_elsewhere(case: CaseView) -> Found | None:
    """Two load times: from another disk, or in another load mode."""
    trial = case.narrative.experiment_on(Topic.DISK, Topic.LOAD_MODE, metrics=("load",))
    if trial is None or not is_clear(trial) or trial.metric != "load":
        return None
    because = f"from another place, or in another load mode, the load is {times_as_fast(trial)}"
    return finding(case, because, fixes=[Knob.STORAGE.to(None, _LOCAL)], trial=trial)


def load_time(case: CaseView) -> Absent | None:
    """How long the load took."""
    seconds = case.ask_for("run.load_s", "the time from the start of the load to the first answer")
    return Absent(f"loaded in {seconds:.1f} s") if seconds < LONG_S else None


def load_time_and_medium_named(case: CaseView) -> Found | None:
    """A person who complains about a long load and names a slow share."""
    seconds, said = case.need("run.load_s"), case.narrative.remarks_on(Topic.SLOW_SHARE)
    if not said or not case.narrative.names_phase("load"):
        return None
    because = f"the load takes {seconds:.0f} s: {said[0].text}"
    return finding(case, because, "run.load_s", said[0], fixes=[Knob.STORAGE.to(None, _LOCAL)])


def read_from_page_cache(case: CaseView) -> Absent | None:
    """How many bytes the disk delivered, against the weights."""
    words = _load_rate(case)[1]
    from_disk, least = case.runtime.process.disk_read_bytes.get(), MOST_OF_IT * case.model.weights_bytes.need()
    if from_disk is None or not case.host.counts_model_reads or from_disk >= least:
        return None
    return Absent(f"{words}, and the file was in the page cache: the disk does not limit it")


def rate_for_kind_of_disk(case: CaseView) -> Found | Absent | Suspected | None:
    """The rate of the load, against the fastest disk of the kind that the model is on."""
    disk, (rate, words) = case.host.model_disk, _load_rate(case)
    if disk is None or not isinstance(disk.kind, Known):
        return None
    kind, is_counted = disk.kind.value, isinstance(case.runtime.process.disk_read_bytes, Known)
    if kind in _ANY_SPEED and rate < (CRAWL_RATE if is_counted else HARD_DISK_RATE):
        return _slower_than_disks(case, rate, words)
    if rate > FASTEST.get(kind, 0.0):
        return Absent(f"{words}: the disk ({kind}) does not limit it")
    medium, what = _KINDS[kind], _LOCAL
    if kind == "network" and case.machine.system.wsl.get():
        medium, what = "a Windows drive through WSL", _INTO_LINUX
    elif kind == "network" and case.host.counts_model_reads:
        what = _QUICKER
    return finding(
        case,
        f"{words}, which is what {medium} delivers",
        "run.load_s",
        case.host.cite_model_disk,
        fixes=[Knob.STORAGE.to(None, what)],
        speedup=NVME_RATE / rate,
        lost=_lost_seconds(case, rate),
    )


def rate_from_unknown_disk(case: CaseView) -> Found | Absent | Suspected | None:
    """The rate of the load, against any disk that is worth keeping models on."""
    disk, (rate, words) = case.host.model_disk, _load_rate(case)
    kind = disk.kind if disk else not_found("the disk of the model is not known")
    if isinstance(kind, Known):
        return None
    if rate >= SLOW_RATE:
        return Absent(f"{words}: it is a large model")
    if rate < CRAWL_RATE and isinstance(case.runtime.process.disk_read_bytes, Known):
        return _slower_than_disks(case, rate, words)
    if rate < CRAWL_RATE and case.narrative.names_phase("load"):
        return finding(case, words, "run.load_s", "model.weights_bytes", fixes=[Knob.STORAGE.to(None, _LOCAL)])
    return Suspected(words, "what kind of disk the model is on", kind.how_to_get or SHOW)


def said_by_person(case: CaseView) -> Found | None:
    """A complaint about the load that names a slow place, or its rate."""
    said, narrative = case.narrative.remarks_on(Topic.SLOW_SHARE), case.narrative
    has_rate = any(_RATE.search(remark.text) for remark in said)
    if not said or not (narrative.names_phase("load") or (has_rate and narrative.names_phase("first_token"))):
        return None
    because = f"the model is read from a slow place: {said[0].text}"
    return finding(case, because, said[0], fixes=[Knob.STORAGE.to(None, _LOCAL)])


def _load_rate(case: CaseView) -> tuple[float, str]:
    seconds = case.need("run.load_s")
    rate = case.ask_for("model.weights_bytes", "{model_size}") / seconds
    return rate, f"the load took {seconds:.0f} s, {rate / GB:.2f} GB/s"


def _slower_than_disks(case: CaseView, rate: float, words: str) -> Found | Suspected:
    """A load slower than from a hard disk: whatever the disk is, if the disk was read at all."""
    slower_than = "a hard disk" if rate < HARD_DISK_RATE else "any local SSD"
    words, from_disk = f"{words}, slower than from {slower_than}", case.runtime.process.disk_read_bytes
    if not isinstance(from_disk, Known):
        return Suspected(words, "runtime.process.disk_read_bytes", from_disk.how_to_get or SHOW)
    shown = (*case.cite_known("run.load_s", "runtime.process.disk_read_bytes"), *case.host.cite_model_disk)
    fixes = [Knob.STORAGE.to(None, _LOCAL)]
    return finding(case, words, shown, fixes=fixes, speedup=NVME_RATE / rate, lost=_lost_seconds(case, rate))


def _lost_seconds(case: CaseView, rate: float) -> Cost:
    """What an ordinary NVMe disk would save."""
    return Cost(seconds=case.need("run.load_s") * (1 - rate / NVME_RATE), per="request")


CAUSE = Cause(
    title="The model loads slowly",
    phase="load",
    needs=all_of("run.load_s or account.comparisons or account.remarks"),
    routes=(
        Route("told", trial_from_elsewhere),
        Route("measured", load_time),
        Route("told", load_time_and_medium_named),
        Route("measured", read_from_page_cache),
        Route("measured", rate_for_kind_of_disk),
        Route("measured", rate_from_unknown_disk),
        Route("told", said_by_person),
    ),
    ask=SHOW,
)
