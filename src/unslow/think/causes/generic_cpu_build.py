"""The build does not use instructions that this CPU has.

## Why it is slow
AVX2, FMA or NEON multiply many numbers at once. A generic or debug build, a wheel for the oldest CPUs, or a backend
that could not be loaded leaves them unused: two to ten times slower wherever the CPU computes. Where AVX2 is in use,
AVX-512 and AMX speed up prefill by a third and decode hardly at all, because decode waits for memory.

## How to confirm
The line `system_info` lists what the build uses (`AVX2 = 1 | FMA = 1 | ...`); `lscpu` lists what the CPU has. Without
such a line, `unslow` on the server's machine looks for these instructions in the code of the running program.

A virtual machine may hide them: its CPU is then called `QEMU Virtual CPU` or `Common KVM processor`, and `lscpu` lists
no `avx2` though the host has it.

## What it is not
A build without AVX-512 or AMX, where decode waits for memory; nor any build, where all layers are on the GPU.

## How to fix
A release build for this CPU:
- llama.cpp: `cmake -B build -DGGML_NATIVE=ON -DCMAKE_BUILD_TYPE=Release`, then `cmake --build build`; packages: all
  `libggml-cpu-*.so` beside the program
- Ollama: its own package, whose `lib/ollama` has a library for each CPU family
- llama-cpp-python: `CMAKE_ARGS="-DGGML_NATIVE=ON" pip install --force-reinstall --no-cache-dir --no-binary
  llama-cpp-python llama-cpp-python`
- LM Studio: `lms runtime survey`, then the engine with AVX2; on a Mac, do not run an Intel build under Rosetta
- a virtual machine: the CPU type `host` (Proxmox `qm set VMID --cpu host`, libvirt `host-passthrough`), then restart it
- vLLM and Transformers choose on their own: `python -c 'import torch;
  print(torch.backends.cpu.get_cpu_capability())'`

## Safety
Answers change only by rounding. A native build runs only on CPUs like this one.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import Known
from unslow.think.case.cure import Cure
from unslow.think.case.narrative import is_clear, told_ratio
from unslow.think.case.speed import Prediction
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, Suspected, all_of, finding

_SINCE_ARMV8_2 = {"DOTPROD", "FP16_VA", "MATMUL_INT8", "SVE"}
"""A build that uses any of them is for CPUs with 8-bit dot products; logs before 2025 did not name those."""
_VIRTUAL_CPU = re.compile(
    r"(?i)\bQEMU\b|\bKVM\b|\bkvm\d\d|\bVirtual CPU\b|\b(?:E5\d|E312|Opteron \d{1,2})xx"
    r"|\((?:Nehalem|Sandy ?Bridge|Ivy ?Bridge)"
)
"""CPU names that a hypervisor makes up, so that a virtual machine can move between hosts."""
_SINCE_2013 = ("AVX", "AVX2")  # What Intel's CPUs have since Haswell and AMD's since Excavator
_NATIVE = Knob.NATIVE_BUILD.to(None, "use a release build for this CPU, with the instructions that it has")
AS_CONFIGURED = Cure()  # Physics assumes a build for this CPU
OTHERS_BUSY = 0.3  # CPUs that other processes use: then a slow prefill says nothing about the build
FAR_BELOW = 3.0  # Times slower than expected: plain code multiplies a quarter to an eighth as many numbers at once
STALLED = 0.1  # Of the time: any desktop makes any program wait for less than this
LEAST_GAIN, MOST_GAIN = 2.0, 10.0
"""Of instructions that multiply four to sixteen times as many numbers at once, whatever the count of waiting leaves."""
_OF_THE_BUILD = re.compile(
    r"buil[dt]|compil|wheel|binar|package|release|debug|-o0|image|\bdll\b|rosetta|librar|[=:]\s?(?:0|off|false|no)\b",
    re.IGNORECASE,
)


def all_on_gpu(case: CaseView) -> Absent | None:
    """The CPU's instructions matter only where the CPU computes a part of the model."""
    return Absent("all layers are on the GPU") if case.placement.cpu_computes is False else None


def build_type(case: CaseView) -> Found | None:
    """A debug build, by the runtime's own account."""
    if (case.runtime.build.type.get() or "").lower() != "debug":
        return None
    because = "the runtime is a debug build"
    return finding(case, because, "runtime.build.type", cure=AS_CONFIGURED, fixes=[_NATIVE])


def virtual_cpu(case: CaseView) -> Found | None:
    """A virtual machine whose CPU has a made-up name and no AVX."""
    listed, model = case.machine.cpu.instruction_sets.get(), case.machine.cpu.model.get() or ""
    is_virtual = isinstance(case.machine.system.hypervisor, Known) and _VIRTUAL_CPU.search(model)
    if listed is None or not is_virtual or not any(name.startswith(("sse", "ssse")) for name in listed):
        return None
    lacks = [name for name in _SINCE_2013 if name.lower() not in listed]
    if not lacks or case.speed.is_slow is False:
        return None
    return finding(
        case,
        f"the virtual machine shows a CPU without {' and '.join(lacks)} ({model}), which the host's CPU has if it is "
        "from 2014 or later",
        case.cite("machine.cpu.instruction_sets", f"no {', '.join(lacks)}"),
        "machine.cpu.model",
        "machine.system.hypervisor",
        cure=AS_CONFIGURED,
        fixes=[Knob.VIRTUAL_CPU.to("host", "expose the host's CPU to the virtual machine")],
        speedup=_gain(case),
    )


def build_features(case: CaseView) -> Found | Absent | None:
    """The instructions that the build uses, against those that the CPU has."""
    if not isinstance(case.runtime.build.features, Known):
        return None
    used = {feature.upper() for feature in case.runtime.build.features.value}
    used |= {"DOTPROD"} if used & _SINCE_ARMV8_2 else set()
    has, fact = case.host.vector_instructions
    unused = ", ".join(sorted(has - used))
    if not unused and has <= {"NEON"} and not used & _SINCE_ARMV8_2:
        case.need("machine.cpu.instruction_sets")  # the name of an ARM core does not show the newer ones
    if not unused:
        return Absent("the build uses the instructions that the CPU has")
    return finding(
        case,
        f"the build does not use {unused}, which this CPU has",
        case.cite("runtime.build.features", f"without {unused}"),
        fact,
        cure=AS_CONFIGURED,
        fixes=[_NATIVE],
        speedup=_gain(case),
    )


def said_by_person(case: CaseView) -> Found | Suspected | None:
    """A user names instructions that the build lacks, or has two speeds of two builds."""
    lacking = case.narrative.remarks_on(Topic.MISSING_INSTRUCTIONS)
    said = [remark for remark in lacking if _OF_THE_BUILD.search(remark.text)]  # a CPU may lack them as well
    trial = case.narrative.experiment_on(Topic.BUILD)
    if said:
        because, shown_by = f"the build lacks instructions: {said[0].text}", case.narrative.cite_remarks(said)
        tried = trial if trial and is_clear(trial) else None
        gain = told_ratio(tried) if tried else None
        return finding(case, because, shown_by, cure=AS_CONFIGURED, fixes=[_NATIVE], trial=tried, speedup=gain)
    hint = lacking[0].text if lacking else trial.text if trial else ""
    return Suspected(hint, "runtime.build.features", CAUSE.ask) if hint else None


def prefill_speed(case: CaseView) -> Absent | Suspected | None:
    """The prefill speed of a CPU that computes alone: arithmetic is what these instructions are for."""
    measured, expected = case.speed.prompt_speed, case.speed.predict_prefill()
    others = case.host.other_processes
    contended = others is not None and others.cpus > OTHERS_BUSY
    if not case.gpus.has_none or contended or not isinstance(measured, Known) or not isinstance(expected, Prediction):
        return None
    rate = expected.tokens_per_s
    words = f"{measured.value:.0f} tok/s, where about {rate.mid:.0f} is expected on such a CPU"
    if measured.value >= rate.low:
        return Absent(f"the CPU's vector instructions are in use: prefill runs at {words}")
    if measured.value > rate.mid / FAR_BELOW:
        return None
    return Suspected(f"prefill is far too slow: {words}", "runtime.build.features", CAUSE.ask)


def _gain(case: CaseView) -> float | None:
    """Times as fast with a build for this CPU, where decode was not measured or threads wait for a CPU; else None.

    Threads wait in every operation, however long it takes. With 30 ms per token of a generic build, 8.4 ms of a native
    one and stalls of 84 %, both take six times as long, as measured: 167 and 53 ms.
    """
    rate, expected = case.speed.measured_rate, case.speed.predict()
    threads = case.runtime.compute.threads.get() or 0
    if not isinstance(rate, Known):
        return LEAST_GAIN  # physics, which assumes a build for this CPU, cannot show it
    if not isinstance(expected, Prediction) or threads > case.host.cpus:
        return None
    stalled = case.host.stalled_share(1 / rate.value)
    gain = (1 - stalled) / rate.value / expected.seconds.mid
    return min(MOST_GAIN, max(LEAST_GAIN, gain)) if stalled >= STALLED else None


CAUSE = Cause(
    title="The build does not use this CPU's instructions",
    phase="decode",
    needs=all_of(
        "runtime.build.features or runtime.build.type or run.long_prompt or run.prefill_tokens_per_s or "
        "account.remarks or account.comparisons"
    ),
    routes=(
        Route("counted", all_on_gpu),
        Route("log", build_type),
        Route("counted", virtual_cpu),
        Route("log", build_features),
        Route("told", said_by_person),
        Route("measured", prefill_speed),
    ),
    ask="{cpu_kernels}, and {cpu_flags}",
)
