"""The kernel that is used is slow on this GPU, and a faster way to compute the same is at hand.

## Why it is slow
The same weights can be multiplied by many kernels. GPUs of the Pascal generation other than the P100 compute 16-bit
numbers at a sixty-fourth of their 32-bit rate, which engines such as ExLlama live on. vLLM's plain `awq` and `gptq`
kernels are several times slower than Marlin, which reads the same files on Ampere and newer. GGUF and bitsandbytes run
in vLLM and Transformers too, but are unpacked by kernels that were made to work, not to be fast.

Guides advise smaller quants, but a smaller type without a fast kernel is slower than a larger one that has it.

## How to confirm
Two runs that differ only in the kernel. vLLM says it in its log: `... can run with awq_marlin, however you specified
quantization=awq explicitly`, or `awq quantization is not fully optimized yet`.

## What it is not
Tokens that come as fast as the bandwidth allows, by whatever kernel.

## How to fix
- vLLM, SGLang: leave `--quantization` out, and they take Marlin; instead of GGUF or bitsandbytes a checkpoint as AWQ,
  GPTQ or FP8
- Pascal: GGUF quants with llama.cpp or Ollama, which compute with 8-bit integers there
- Transformers: a GPTQ or AWQ model with Marlin kernels instead of bitsandbytes in 8 bits
- llama.cpp, Ollama, LM Studio: another quant of the model (K-quants are fast everywhere; IQ types are slow on CPUs and
  on Metal)

## Safety
Answers change only by rounding.
"""

import re

from unslow.facts.account import Comparison, Topic
from unslow.facts.knob import Change, Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.gpus import device_of
from unslow.think.case.narrative import blames, is_report, remarks_on, slow_side_has, slow_side_names, told_ratio, tried
from unslow.think.case.runtime import computes_in_half, dotted_version, runs_ggml, runs_paged
from unslow.think.case.slowness import generates_slowly, shortfall
from unslow.think.case.vram import gpus_used
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, check_by
from unslow.think.causes._facts import cite, cite_comparison, cite_remarks
from unslow.think.report import Evidence

SLOW_HALF = 8
"""32-bit products for each 16-bit one, at least: 64 on Pascal but the P100; every later GPU has at most one."""
FRACTION = 3.0  # Times slower than it should be, before words on kernels are taken for the reason
MARLIN_FROM = (8, 0)  # Compute capability from which vLLM has Marlin for certain
_PACKED = re.compile(
    r"load_in_[48]bit|\b[48][- ]?bit\b|\bint[48]\b|bitsandbytes|\bbnb\b|\bnf4\b|\bgptq\b|\bawq\b", re.IGNORECASE
)
_PLAIN_TYPE = re.compile(r"\bb?fp?16\b|\bbfloat16\b|\bfloat16\b|\bhalf\b|\b16[- ]?bit\b|unquanti[sz]ed", re.IGNORECASE)
_PLAIN = {"awq", "gptq"}
_UNTUNED = {"gguf", "bitsandbytes", "aqlm", "squeezellm"}
"""Formats that engines can read and unpack, but have no kernel for that keeps up with the memory."""
_TOLD = re.compile(r"not fully optimized yet|however you specified quantization=|for faster inference", re.IGNORECASE)


def _by_trial(case: Case) -> Found | Suspected | None:
    """Two speeds that differ in nothing but the kernel; flash attention on the slow side is one too."""
    trial = tried(case, Topic.KERNEL, Topic.QUANT_TYPE) or _slower_with_fewer_bits(case)
    if trial:
        return _faster_with(case, trial, Knob.QUANT_KERNEL.to(None, "the faster kernel"))
    trial = tried(case, Topic.FLASH_ATTENTION)
    if trial is None or not case.runtime.flash_attention.value_or(default=False):
        return None
    slow_with = slow_side_has(trial, Topic.FLASH_ATTENTION)
    if slow_with is None:
        return Suspected(trial.text, "which of the two speeds is the one with flash attention", CAUSE.ask)
    change = Knob.FLASH_ATTENTION.to(value=False, why="its kernel is slow on this GPU")
    return _faster_with(case, trial, change) if slow_with else None


def _faster_with(case: Case, trial: Comparison, change: Change) -> Found:
    faster = trial.fast / trial.slow
    because = f"with another kernel it is {faster:.1f} times faster"
    return Found(because, (cite_comparison(case, trial),), None, (Remedy(change),), speedup=faster)


def _slower_with_fewer_bits(case: Case) -> Comparison | None:
    """Packed weights that are slower than plain ones: fewer bytes can only be slower by their kernel."""
    trial = tried(case, Topic.QUANT_TYPE)
    if trial is None or runs_ggml(case) or slow_side_names(trial, _PLAIN_TYPE):
        return None
    both = _PACKED.search(trial.text) and _PLAIN_TYPE.search(trial.text)
    return trial if both and slow_side_names(trial, _PACKED) else None


def _by_quantization(case: Case) -> Found | Absent | Suspected | None:
    """A kernel that vLLM keeps for old GPUs, asked for by name where Marlin could be had."""
    runtime = case.runtime
    named = (runtime.kernel if isinstance(runtime.kernel, Known) else runtime.quantization).value_or("").lower()
    if named in _UNTUNED and not runs_ggml(case):
        # Weights in a format that was made for another engine, or for training
        fact = "runtime.quantization" if isinstance(case.runtime.quantization, Known) else "runtime.kernel"
        why = "a checkpoint of the model as AWQ, GPTQ or FP8, for which it has fast kernels"
        change = Knob.QUANT.to(None, f"{why}; or the GGUF file in llama.cpp" if named == "gguf" else why)
        who = case.runtime.name.value_or("this engine")
        because = f"the weights are in the format {named}, for which {who} has no fast kernel"
        return _if_slow(case, because, (cite(case, fact, "AWQ, GPTQ or FP8"), *_warnings(case)), change)
    if not named or runs_paged(case) is False:
        return None
    if "marlin" in named or named not in _PLAIN:
        return Absent(f"{named} has fast kernels on this GPU")
    capabilities = [dotted_version(gpu.compute_capability.value_or("")) for gpu in gpus_used(case)]
    if any(c and c < MARLIN_FROM for c in capabilities):
        return Absent("this GPU is too old for a faster kernel")
    fact = "runtime.kernel" if isinstance(runtime.kernel, Known) else "runtime.quantization"
    change = Knob.QUANT_KERNEL.to(f"{named}_marlin", "leave the setting out: the fastest kernel is then chosen")
    evidence = (cite(case, fact, f"{named}_marlin"), *_warnings(case))
    return _if_slow(
        case, f"the weights go through the plain {named} kernel, and Marlin reads the same", evidence, change
    )


def _warnings(case: Case) -> Citations:
    warnings = case.runtime.warnings
    lines = [line for line in warnings.value_or([]) if _TOLD.search(line)]
    source = warnings.source if isinstance(warnings, Known) else ""
    return tuple(
        Evidence(fact="runtime.warnings", value=line, reference=None, origin="reported", source=source)
        for line in lines[:1]
    )


def _by_half(case: Case) -> Found | Absent | Suspected | None:
    """An engine that computes in 16 bits on a GPU that does so at a fraction of its speed."""
    devices = [d for d in map(device_of, gpus_used(case)) if d and d.fp16_flops_per_s and d.fp32_flops_per_s]
    slow = [d for d in devices if d.fp32_flops_per_s > SLOW_HALF * d.fp16_flops_per_s]
    if not slow or not computes_in_half(case):
        return None
    times = slow[0].fp32_flops_per_s / slow[0].fp16_flops_per_s
    index = next(i for i, g in enumerate(case.machine.gpus.need()) if device_of(g) in slow)
    engine = "runtime.name" if isinstance(case.runtime.name, Known) else "model.quant"
    who = case.runtime.name.value_or("this engine")
    change = Knob.QUANT_KERNEL.to("gguf", "GGUF quants with llama.cpp, which uses 8-bit integers on this GPU")
    evidence = (cite(case, f"machine.gpus.{index}.name", f"{times:.0f} times slower in 16 bits"), cite(case, engine))
    because = f"{who} computes in 16 bits, and {slow[0].name} does that {times:.0f} times slower than in 32"
    return _if_slow(case, because, evidence, change)


def _if_slow(case: Case, because: str, evidence: Citations, change: Change) -> Found | Absent | Suspected:
    """A known mechanism is the cause where decoding or prefill is slow; where nobody can tell, a suspicion."""
    slow = blames(case, "decode", "prefill") if is_report(case) else generates_slowly(case)
    if slow is None and any(e.fact == "runtime.warnings" for e in evidence):
        slow = True  # the runtime says itself that this kernel is slow
    if slow is None:
        return Suspected(because, "the speed with another kernel", CAUSE.ask)
    cure = None if is_report(case) else Cure()  # physics reckons with kernels that keep up with the memory
    return Found(because, evidence, cure, (Remedy(change, cure),)) if slow else Absent("it is not what is slow here")


def _by_words(case: Case) -> Found | Suspected | None:
    """A format that is said to have no kernel of its own, and a speed that is a fraction of what there should be."""
    said = remarks_on(case, Topic.NO_FAST_KERNEL)
    if not said:
        return None
    far = next((c for c in case.account.comparisons.value_or(()) if told_ratio(c) >= FRACTION), None)
    if far is None and (shortfall(case) or 1.0) < FRACTION:
        return Suspected(said[0].text, "the speed with another format or kernel", CAUSE.ask)
    shown = (*cite_remarks(case, said[:1]), *((cite_comparison(case, far),) if far else ()))
    change = Knob.QUANT.to(None, "a format that this engine has kernels for on this hardware")
    because = f"the weights have no fast kernel on this hardware: {said[0].text}"
    return Found(because, shown, None, (Remedy(change, None, "another quant gives slightly other answers"),))


def _none_named(case: Case) -> Absent | None:
    """Known hardware and a known engine, and no setting that could make it slow."""
    runtime = case.runtime
    unknown = not isinstance(runtime.name, Known) or any(device_of(g) is None for g in gpus_used(case))
    if unknown or not gpus_used(case) or runs_paged(case):
        return None
    return Absent("nothing names a kernel that is slow on this GPU")


CAUSE = Cause(
    title="A slow kernel for this GPU",
    phase="decode",
    needs=(("runtime.quantization", "runtime.kernel", "runtime.name", "account.comparisons", "account.remarks"),),
    check=check_by(_by_trial, _by_quantization, _by_half, _by_words, _none_named),
    on_gpu=True,
    explains=("kernel_launch_bound", "gpu_held_at_low_clocks"),
    gpu_only=True,
    ask="the kernels that {load_log} names, and {gpu_architecture}",
)
