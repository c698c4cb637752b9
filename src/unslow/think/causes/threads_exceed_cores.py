"""The runtime computes with more threads than there are CPUs to run them.

## Why it is slow
The threads meet at a barrier after every operation. Where two must share a CPU, all the others wait for the second
one, hundreds of times for each token.

## How to confirm
llama.cpp prints `n_threads = T ... / L`: T above the CPUs that the process may use. Sixteen threads on two cores were
5.5 times slower than two.

## How to fix
Leave the number of threads to the runtime, or set it to the number of physical cores that it may use.

## Safety
Answers do not change.
"""

from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.think.adapt.bandwidth import cores_of, cpus_of
from unslow.think.adapt.placement import read_placement
from unslow.think.adapt.shape import read_shape
from unslow.think.adapt.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, cite


def check(case: Case) -> Found | Absent:
    """Hold the threads against the CPUs that can run them at once."""
    threads, cores = case.runtime.threads.need(), cores_of(case)
    cpus = cpus_of(case)
    if threads <= cores:
        return Absent(f"{threads} threads, {cores:g} cores")
    if threads <= cpus:
        return Absent(f"{threads} threads on {cores:g} cores that run {cpus:g} at once")
    shape = read_shape(case)
    if read_placement(case, shape).gpu_layers >= shape.layers:
        return Absent("all layers are on the GPU: the threads have next to nothing to do")
    best = max(1, int(cores))
    cure = Cure(threads=best)
    return Found(
        because=f"{threads} threads share {cores:g} cores and wait for each other after every operation",
        evidence=(cite(case, "runtime.threads", f"{cores:g} cores"), cite(case, "machine.cpu.physical_cores")),
        cure=cure,
        remedies=(Remedy(Knob.THREADS.to(best, "one thread for each core"), cure),),
    )


CAUSE = Cause(
    title="More threads than cores",
    phase="decode",
    needs=("runtime.threads", "machine.cpu.physical_cores"),
    check=check,
)
