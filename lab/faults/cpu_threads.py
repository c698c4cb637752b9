"""Faults of the CPU's time: threads, quotas, other processes, and a build that leaves instructions unused.

The generic build is made from llama.cpp's source with

    cmake -S llama.cpp -B generic -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=OFF \
          -DGGML_SSE42=OFF -DGGML_AVX=OFF -DGGML_AVX2=OFF -DGGML_BMI2=OFF -DGGML_FMA=OFF -DGGML_F16C=OFF
    cmake --build generic --target llama-server

and its llama-server is kept as `llama-server-generic` in the folder of the servers.
"""

import os

from lab.faults.control_groups import cpu_quota, cpuset, limited
from lab.faults.fault import Fault, Stage
from lab.faults.neighbours import busy_loops

HERE = ("cpu",)
CPUS = os.cpu_count() or 1
AS_IT_COMES = Stage()
ONE_CPU, ONE_CPU_OF_TIME = limited(cpuset("0")), limited(cpu_quota(1.0))
ALL, MANY = ("-t", str(CPUS)), ("-t", str(4 * CPUS))

FAULTS = (
    Fault(
        "threads_too_many",
        f"-t {4 * CPUS} on {CPUS} cores",
        HERE,
        "small",
        Stage(MANY),
        "threads_exceed_cores",
        cure=AS_IT_COMES,
    ),
    Fault(
        "threads_twice_as_many_1b",
        f"-t {2 * CPUS} on {CPUS} cores, a model of 1B",
        HERE,
        "llama_1b",
        Stage(("-t", str(2 * CPUS))),
        "threads_exceed_cores",
        cure=AS_IT_COMES,
    ),
    Fault(
        "threads_too_few",
        f"-t 1 on {CPUS} cores",
        HERE,
        "small",
        Stage(("-t", "1")),
        "threads_too_few",
        cure=AS_IT_COMES,
    ),
    Fault(
        "threads_too_few_1b",
        f"-t 1 on {CPUS} cores, a model of 1B",
        HERE,
        "llama_1b",
        Stage(("-t", "1")),
        "threads_too_few",
        cure=AS_IT_COMES,
    ),
    Fault(
        "cpu_quota",
        f"a control group with one CPU's worth of time, -t {4 * CPUS} as for the whole of a larger host",
        HERE,
        "small",
        Stage(MANY, around=(ONE_CPU_OF_TIME,)),
        "threads_exceed_cpu_quota",
        cure=Stage(("-t", "1"), around=(ONE_CPU_OF_TIME,)),
    ),
    Fault(
        "cpuset_of_one",
        f"a control group with one CPU, -t {4 * CPUS}",
        HERE,
        "small",
        Stage(MANY, around=(ONE_CPU,)),
        "threads_exceed_cpu_quota",
        ("threads_exceed_cores",),
        cure=Stage(("-t", "1"), around=(ONE_CPU,)),
    ),
    Fault(
        "taskset_to_one",
        f"pinned to one CPU with taskset, -t {4 * CPUS}",
        HERE,
        "small",
        Stage(MANY, wrap=("taskset", "-c", "0")),
        "threads_exceed_cpu_quota",
        ("threads_exceed_cores",),
        cure=Stage(("-t", "1"), wrap=("taskset", "-c", "0")),
    ),
    Fault(
        "cpu_contended",
        "a busy loop on every core",
        HERE,
        "small",
        Stage(beside=(busy_loops(CPUS),)),
        "cpu_contended",
        cure=AS_IT_COMES,
    ),
    Fault(
        "cpu_contended_by_one",
        "one busy loop",
        HERE,
        "small",
        Stage(beside=(busy_loops(1),)),
        "cpu_contended",
        cure=AS_IT_COMES,
    ),
    Fault(
        "cpu_contended_1b",
        "a busy loop on every core, a model of 1B",
        HERE,
        "llama_1b",
        Stage(beside=(busy_loops(CPUS),)),
        "cpu_contended",
        cure=AS_IT_COMES,
    ),
    Fault(
        "generic_build",
        "a build without AVX, AVX2, FMA and F16C on a CPU that has them; the log tells",
        HERE,
        "small",
        Stage(("-lv", "4"), server="llama-server-generic"),
        "generic_cpu_build",
        cure=AS_IT_COMES,
    ),
    Fault(
        "generic_build_1b",
        "a build without AVX, AVX2, FMA and F16C on a CPU that has them; the log does not tell",
        HERE,
        "llama_1b",
        Stage(server="llama-server-generic"),
        "generic_cpu_build",
        cure=AS_IT_COMES,
    ),
    Fault(
        "generic_build_of_experts",
        "a build without AVX, AVX2, FMA and F16C; the log does not tell; a mixture of experts",
        HERE,
        "experts",
        Stage(server="llama-server-generic"),
        "generic_cpu_build",
        cure=AS_IT_COMES,
    ),
)
