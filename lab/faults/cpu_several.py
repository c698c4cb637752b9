"""Several faults at once."""

from lab.faults.cpu_threads import ALL, AS_IT_COMES, CPUS, HERE, MANY, ONE_CPU, ONE_CPU_OF_TIME
from lab.faults.fault import Fault, Stage
from lab.faults.neighbours import busy_loops

FAULTS = (
    Fault(
        "threads_and_contention",
        f"-t {4 * CPUS} on {CPUS} cores, and a busy loop on every core",
        HERE,
        "small",
        Stage(MANY, beside=(busy_loops(CPUS),)),
        "threads_exceed_cores",
        ("cpu_contended",),
        cure=AS_IT_COMES,
    ),
    Fault(
        "quota_and_top_k_0",
        f"one CPU's worth of time for {4 * CPUS} threads, and --top-k 0",
        HERE,
        "small",
        Stage((*MANY, "--top-k", "0"), around=(ONE_CPU_OF_TIME,)),
        "threads_exceed_cpu_quota",
        ("sampling_on_cpu",),
        cure=Stage(("-t", "1"), around=(ONE_CPU_OF_TIME,)),
    ),
    Fault(
        "one_thread_and_small_ubatch",
        "-t 1 and -ub 8",
        HERE,
        "small",
        Stage(("-t", "1", "-ub", "8")),
        "threads_too_few",
        ("prefill_batch_too_small",),
        cure=AS_IT_COMES,
    ),
    Fault(
        "generic_build_and_contention",
        "a build without AVX, and a busy loop on every core",
        HERE,
        "small",
        Stage(server="llama-server-generic", beside=(busy_loops(CPUS),)),
        "generic_cpu_build",
        ("cpu_contended",),
        either=True,
        cure=AS_IT_COMES,
    ),
    Fault(
        "one_thread_more_and_a_neighbour",
        f"-t {CPUS + 1} on {CPUS} cores, and one busy loop",
        HERE,
        "small",
        Stage(("-t", str(CPUS + 1)), beside=(busy_loops(1),)),
        "threads_exceed_cores",
        ("cpu_contended",),
        either=True,
        cure=AS_IT_COMES,
    ),
    Fault(
        "cpuset_and_small_ubatch",
        f"a control group with one CPU, -t {CPUS} and -ub 8",
        HERE,
        "small",
        Stage((*ALL, "-ub", "8"), around=(ONE_CPU,)),
        "threads_exceed_cpu_quota",
        ("threads_exceed_cores", "prefill_batch_too_small"),
        cure=Stage(("-t", "1"), around=(ONE_CPU,)),
    ),
)
