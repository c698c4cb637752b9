"""Faults of memory and disks: weights that never stay in memory, swapping, a slow disk."""

from lab.faults.control_groups import Limit, disk, limited, memory
from lab.faults.cpu_threads import HERE
from lab.faults.fault import Fault, Playing, Stage
from lab.faults.storage import cold_copy, swap_file

MIB = 1024**2
SLOW_DISK = 25_000_000
"""Bytes per second: an old hard disk, or a share over Wi-Fi."""
CONTEXT = ("-c", "2048", "-ub", "64", "--no-repack")
"""Little memory beside the weights, which stay mapped: rearranged copies of them would be no part of the file."""


def slow_disk(playing: Playing) -> Limit:
    """The disk that the model is on, throttled."""
    return disk(SLOW_DISK, playing.model)


FAULTS = (
    Fault(
        "weights_from_disk",
        "a mapped model of 803 MB in a control group of 500 MiB, without swap: each token reads the file again",
        HERE,
        "llama_1b",
        Stage(CONTEXT, around=(cold_copy, limited(memory(500 * MIB)))),
        "weights_streamed_from_disk",
        cure=Stage(CONTEXT, around=(cold_copy,)),
    ),
    Fault(
        "swapping",
        "a model of 803 MB that is not mapped, in a control group of 500 MiB with swap",
        HERE,
        "llama_1b",
        Stage((*CONTEXT, "-lm", "none"), around=(swap_file(2048 * MIB), cold_copy, limited(memory(500 * MIB)))),
        "swapping",
        cure=Stage((*CONTEXT, "-lm", "none"), around=(cold_copy,)),
    ),
    Fault(
        "slow_disk",
        "a disk that gives 25 MB/s, and a model of 803 MB that nobody has read before",
        HERE,
        "llama_1b",
        Stage(CONTEXT, around=(cold_copy, limited(slow_disk))),
        "slow_model_load",
        cure=Stage(CONTEXT, around=(cold_copy,)),
        metric="load",
    ),
)
