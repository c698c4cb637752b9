"""The build does not use instructions that this CPU has.

## Why it is slow
AVX2, FMA or NEON multiply many numbers at once. A generic or debug build, a wheel for the oldest CPUs, or a backend
that could not be loaded leaves them unused: two to ten times slower wherever the CPU computes. AVX-512 and AMX, where
AVX2 is used, gain prompts by a third and single tokens next to nothing: memory is what those wait for.

## How to confirm
The line `system_info` lists what the build uses (`AVX2 = 1 | FMA = 1 | ...`); `lscpu` lists what the CPU has. Where no
line tells, `unslow` on the server's machine looks for such instructions in the code of the program that runs.

A virtual machine may hide them: its processor is then called `QEMU Virtual CPU` or `Common KVM processor`, and `lscpu`
lists no `avx2` though the host has it.

## What it is not
A build without AVX-512 or AMX, where tokens wait for memory; nor any build, where all layers are on the GPU.

## How to fix
A release build for this CPU:
- llama.cpp: `cmake -B build -DGGML_NATIVE=ON -DCMAKE_BUILD_TYPE=Release`, then `cmake --build build`; packages: all
  `libggml-cpu-*.so` beside the program
- Ollama: its own package, whose `lib/ollama` has a library for each kind of CPU
- llama-cpp-python: `CMAKE_ARGS="-DGGML_NATIVE=ON" pip install --force-reinstall --no-cache-dir --no-binary
  llama-cpp-python llama-cpp-python`
- LM Studio: `lms runtime survey`, then the engine with AVX2; on a Mac no build for Intel under Rosetta
- a virtual machine: the CPU type `host` (Proxmox `qm set VMID --cpu host`, libvirt `host-passthrough`), then start it
  anew
- vLLM and Transformers choose by themselves: `python -c 'import torch;
  print(torch.backends.cpu.get_cpu_capability())'`

## Safety
Answers change only by rounding. A native build runs only on CPUs like this one.
"""

import re

from unslow.catalog.hardware_families import find_cpu_family
from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.gpus import has_no_gpu, is_apple
from unslow.think.case.narrative import experiment_on, is_clear, remarks_on
from unslow.think.case.placement import cpu_computes
from unslow.think.case.prediction import Prediction, measured_rate, predict, predict_prefill
from unslow.think.case.slowness import generates_slowly
from unslow.think.case.waits import other_processes, stalled_share, threads_exceed_cpus
from unslow.think.case.work import Cure, prompt_speed
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._facts import cite, cite_comparison, cite_remarks, need

_NEON, _DOT_PRODUCTS = "NEON", "DOTPROD"
_DECISIVE = {
    "avx": "AVX",
    "avx2": "AVX2",
    "fma": "FMA",
    "f16c": "F16C",
    "asimd": _NEON,
    "neon": _NEON,
    "dotprod": _DOT_PRODUCTS,
}
"""Instruction sets as the kernel calls them and as llama.cpp prints them; the newer ones gain far less."""
_SINCE_ARMV8_2 = {_DOT_PRODUCTS, "FP16_VA", "MATMUL_INT8", "SVE"}
"""A build that uses any of them is for CPUs with products of 8-bit numbers; before 2025 logs did not name those."""
_MADE_UP = re.compile(
    r"(?i)\bQEMU\b|\bKVM\b|\bkvm\d\d|\bVirtual CPU\b|\b(?:E5\d|E312|Opteron \d{1,2})xx"
    r"|\((?:Nehalem|Sandy ?Bridge|Ivy ?Bridge)"
)
"""Names of processors that a hypervisor makes up, so that a virtual machine can move between hosts."""
_SINCE_2013 = ("AVX", "AVX2")  # What Intel's processors have since Haswell and AMD's since Excavator

_NATIVE = Remedy(Knob.NATIVE_BUILD.to(None, "a release build for this CPU, with the instructions that it has"), Cure())
"""Physics reckons with a build for this CPU, so the case as configured is the cured one."""
OTHERS_BUSY = 0.3  # Processors that others use: then a slow prompt proves nothing of the build
FAR_BELOW = 3.0  # Times slower than expected: plain code multiplies a quarter to an eighth as many numbers at once
STALLED = 0.1  # Of the time: less waiting than this is what any desktop does to any program
LEAST_GAIN, MOST_GAIN = 2.0, 10.0
"""Of instructions that multiply four to sixteen times as many numbers at once: what was counted of the waiting beside
it is too little or too much for anything else."""
_OF_THE_BUILD = re.compile(
    r"buil[dt]|compil|wheel|binar|package|release|debug|-o0|image|\bdll\b|rosetta|librar|[=:]\s?(?:0|off|false|no)\b",
    re.IGNORECASE,
)


def check(case: Case) -> Found | Absent | Suspected:
    """Hold what the build uses against what the CPU has, where the CPU computes."""
    if cpu_computes(case) is False:
        return Absent("all layers are on the GPU")
    return first_to_decide(case, _by_type, _by_virtual_machine, _by_features, _by_words, _by_prompt)


def _by_type(case: Case) -> Found | None:
    kind = case.runtime.build_type
    if not isinstance(kind, Known) or kind.value.lower() != "debug":
        return None
    return Found("the runtime is a debug build", (cite(case, "runtime.build_type"),), Cure(), (_NATIVE,))


def _by_virtual_machine(case: Case) -> Found | None:
    """A virtual machine whose processor has a made-up name and no AVX: the one under it has been hidden."""
    listed, model, below = case.machine.cpu.instruction_sets, case.machine.cpu.model, case.machine.system.hypervisor
    if not isinstance(listed, Known) or not isinstance(below, Known) or not _MADE_UP.search(model.value_or("")):
        return None
    lacks = [name for name in _SINCE_2013 if name.lower() not in listed.value]
    is_x86 = any(name.startswith(("sse", "ssse")) for name in listed.value)
    if not lacks or not is_x86 or generates_slowly(case) is False:
        return None
    because = (
        f"the virtual machine shows a processor without {' and '.join(lacks)} ({model.value_or('')}), which the one "
        "under it has if it is of 2014 or later"
    )
    change = Knob.VIRTUAL_CPU.to("host", "show the virtual machine the processor of its host")
    evidence = (cite(case, "machine.cpu.instruction_sets", f"no {', '.join(lacks)}"), cite(case, "machine.cpu.model"))
    return Found(
        because, (*evidence, cite(case, "machine.system.hypervisor")), Cure(), (Remedy(change, Cure()),),
        speedup=_gain(case),
    )  # fmt: skip


def _by_features(case: Case) -> Found | Absent | None:
    if not isinstance(case.runtime.build_features, Known):
        return None
    used = {feature.upper() for feature in case.runtime.build_features.value}
    used |= {_DOT_PRODUCTS} if used & _SINCE_ARMV8_2 else set()
    # The decisive instruction sets of the CPU, as listed, else by its name
    cpu, fact = case.machine.cpu, "machine.cpu.model"
    family = find_cpu_family(cpu.model.value_or(""))
    if not isinstance(cpu.instruction_sets, Known) and family:
        has = set(family.instruction_sets)
    elif not isinstance(cpu.instruction_sets, Known) and is_apple(case):
        has, fact = {_NEON}, fact if isinstance(cpu.model, Known) else "machine.system.name"
    else:
        names = (name.lower() for name in need(case, "machine.cpu.instruction_sets"))
        has, fact = {_DECISIVE[name] for name in names if name in _DECISIVE}, "machine.cpu.instruction_sets"
    unused = sorted(has - used)
    if not unused and has <= {_NEON} and not used & _SINCE_ARMV8_2:
        need(case, "machine.cpu.instruction_sets")  # the name of an ARM core does not tell the younger ones
    if not unused:
        return Absent("the build uses what the CPU has")
    because = f"the CPU has {', '.join(unused)}, and the build does not use it"
    evidence = (cite(case, "runtime.build_features", f"without {', '.join(unused)}"), cite(case, fact))
    return Found(because, evidence, Cure(), (_NATIVE,), speedup=_gain(case))


def _by_prompt(case: Case) -> Absent | Suspected | None:
    """How fast prompts are read where the CPU does it alone: arithmetic is what those instructions are for."""
    measured, expected = prompt_speed(case), predict_prefill(case)
    others = other_processes(case)
    contended = others is not None and others.cpus > OTHERS_BUSY
    if not has_no_gpu(case) or contended or not isinstance(measured, Known) or not isinstance(expected, Prediction):
        return None
    rate = expected.tokens_per_s
    words = f"{measured.value:.0f} prompt tokens per second, where such a CPU gives about {rate.mid:.0f}"
    if measured.value >= rate.low:
        return Absent(f"the CPU's arithmetic is in use: {words}")
    if measured.value > rate.mid / FAR_BELOW:
        return None
    return Suspected(f"prompts are read far too slowly: {words}", "runtime.build_features", CAUSE.ask)


def _by_words(case: Case) -> Found | Suspected | None:
    """Who names the instructions that a build lacks has looked; two builds with two speeds only hint at it."""
    lacking = remarks_on(case, Topic.MISSING_INSTRUCTIONS)
    said = [remark for remark in lacking if _OF_THE_BUILD.search(remark.text)]  # a CPU may lack them as well
    trial = experiment_on(case, Topic.BUILD)
    tried = (cite_comparison(case, trial),) if trial and is_clear(trial) else ()
    if said:
        speedup = trial.fast / trial.slow if trial and tried else None
        because, evidence = f"the build lacks instructions: {said[0].text}", (*cite_remarks(case, said), *tried)
        return Found(because, evidence, Cure(), (_NATIVE,), speedup=speedup)
    hint = lacking[0].text if lacking else trial.text if trial else ""
    return Suspected(hint, "runtime.build_features", CAUSE.ask) if hint else None


def _gain(case: Case) -> float | None:
    """How many times as fast it is without, where no speed was measured or others take the CPU too; else None.

    Threads that wait for a CPU do so in every operation, however long that takes. With 30 ms for a token of a generic
    build, 8.4 ms of a native one and stalls of 84 % both take six times as long, as measured: 167 and 53 ms.
    """
    rate, expected = measured_rate(case), predict(case)
    if not isinstance(rate, Known):
        return LEAST_GAIN  # physics, which reckons with a build for this CPU, sees nothing of it
    if not isinstance(expected, Prediction) or threads_exceed_cpus(case):
        return None
    stalled = stalled_share(case, 1 / rate.value)
    gain = (1 - stalled) / rate.value / expected.seconds.mid
    return min(MOST_GAIN, max(LEAST_GAIN, gain)) if stalled >= STALLED else None


CAUSE = Cause(
    title="The build does not use this CPU's instructions",
    phase="decode",
    needs=(
        (
            "runtime.build_features",
            "runtime.build_type",
            "run.long_prompt",
            "run.prefill_tokens_per_s",
            "account.remarks",
            "account.comparisons",
        ),
    ),
    check=check,
    ask="{cpu_kernels}, and {cpu_flags}",
)
