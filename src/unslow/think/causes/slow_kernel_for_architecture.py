"""The kernel in use is slow on this GPU, and a faster way to compute the same is available.

## Why it is slow
The same weights can be multiplied by many kernels. Pascal GPUs other than the P100 compute 16-bit numbers at a
sixty-fourth of their 32-bit rate, and engines such as ExLlama depend on them. vLLM's plain `awq` and `gptq` kernels are
several times slower than Marlin, which reads the same files on Ampere and newer. GGUF and bitsandbytes run in vLLM and
Transformers too, but their kernels were written to work, not to be fast.

Guides advise smaller quants, but a smaller type without a fast kernel is slower than a larger one that has it.

## How to confirm
Two runs that differ only in the kernel. vLLM says it in its log: `... can run with awq_marlin, however you specified
quantization=awq explicitly`, or `awq quantization is not fully optimized yet`.

## What it is not
Decode at the speed that the memory bandwidth allows, whatever the kernel.

## How to fix
- vLLM, SGLang: drop `--quantization`, and they use Marlin; instead of GGUF or bitsandbytes a checkpoint as AWQ, GPTQ or
  FP8
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
from unslow.facts.values import Known, first_known
from unslow.think.case.cure import Cure
from unslow.think.case.device import device_of
from unslow.think.case.engine import dotted_version
from unslow.think.case.narrative import slow_side_has, slow_side_names, told_ratio
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Route, Suspected, all_of, finding

KERNEL, QUANTIZATION = "runtime.compute.kernel", "runtime.compute.quantization"
SLOW_HALF = 8
"""32-bit products for each 16-bit one, at least: 64 on Pascal but the P100; every later GPU has at most one."""
FRACTION = 3.0  # Times slower than expected, before a remark on kernels is taken as the reason
MARLIN_FROM = (8, 0)  # Compute capability from which vLLM certainly has Marlin
_PACKED = re.compile(r"(?i)load_in_[48]bit|\b[48][- ]?bit\b|\bint[48]\b|bitsandbytes|\bbnb\b|\bnf4\b|\bgptq\b|\bawq\b")
_PLAIN_TYPE = re.compile(r"(?i)\bb?fp?16\b|\bbfloat16\b|\bfloat16\b|\bhalf\b|\b16[- ]?bit\b|unquanti[sz]ed")
_PLAIN = {"awq", "gptq"}
_UNTUNED = {"gguf", "bitsandbytes", "aqlm", "squeezellm"}
"""Formats that engines can read, but without a kernel that keeps up with the memory."""
_WARNS = re.compile(r"(?i)not fully optimized yet|however you specified quantization=|for faster inference")


def other_kernel_is_faster(case: CaseView) -> Found | None:
    """Two speeds that differ only in the kernel, or packed weights that are slower than plain ones."""
    trial, types = case.narrative.trial_of(Topic.KERNEL, Topic.QUANT_TYPE), case.narrative.trial_of(Topic.QUANT_TYPE)
    if trial is None and types and not case.engine.runs_ggml and not slow_side_names(types, _PLAIN_TYPE):
        # Fewer bytes are slower only because of their kernel
        names_both = _PACKED.search(types.text) and _PLAIN_TYPE.search(types.text)
        trial = types if names_both and slow_side_names(types, _PACKED) else None
    return _faster_with(case, trial, Knob.QUANT_KERNEL.to(None, "use the faster kernel")) if trial else None


def slower_with_flash_attention(case: CaseView) -> Found | Suspected | None:
    """Two speeds, of which the one with flash attention is the slower."""
    trial = case.narrative.trial_of(Topic.FLASH_ATTENTION)
    if trial is None or not case.runtime.compute.flash_attention.get():
        return None
    slow_with = slow_side_has(trial, Topic.FLASH_ATTENTION)
    if slow_with is None:
        return Suspected(trial.text, "which of the two speeds is the one with flash attention", CAUSE.ask)
    change = Knob.FLASH_ATTENTION.to(value=False, why="disable flash attention, whose kernel is slow on this GPU")
    return _faster_with(case, trial, change) if slow_with else None


def untuned_format(case: CaseView) -> Found | Absent | Suspected | None:
    """Weights in a format that was made for another engine, or for training."""
    named = _kernel_name(case)
    if named not in _UNTUNED or case.engine.runs_ggml:
        return None
    why = "use a checkpoint of the model as AWQ, GPTQ or FP8, for which it has fast kernels"
    change = Knob.QUANT.to(None, f"{why}; or the GGUF file in llama.cpp" if named == "gguf" else why)
    fact = QUANTIZATION if isinstance(case.runtime.compute.quantization, Known) else KERNEL
    because = f"the weights are in the format {named}, for which {case.engine.label} has no fast kernel"
    return _if_slow(case, because, (case.cite(fact, "AWQ, GPTQ or FP8"), *_cite_warnings(case)), change)


def plain_kernel(case: CaseView) -> Found | Absent | Suspected | None:
    """A kernel that vLLM keeps for old GPUs, requested by name where Marlin is available."""
    named = _kernel_name(case)
    if not named or named in _UNTUNED or case.engine.runs_paged is False:
        return None
    if named not in _PLAIN:
        return Absent(f"{named} has fast kernels on this GPU")
    capabilities = [dotted_version(gpu.compute_capability.get() or "") for gpu in case.gpus.in_use]
    if any(c and c < MARLIN_FROM for c in capabilities):
        return Absent("this GPU is too old for a faster kernel")
    fact = KERNEL if isinstance(case.runtime.compute.kernel, Known) else QUANTIZATION
    change = Knob.QUANT_KERNEL.to(f"{named}_marlin", "drop the setting, so that the fastest kernel is chosen")
    shown_by = (case.cite(fact, f"{named}_marlin"), *_cite_warnings(case))
    return _if_slow(case, f"the weights use the plain {named} kernel, though Marlin reads the same", shown_by, change)


def half_precision(case: CaseView) -> Found | Absent | Suspected | None:
    """An engine that computes in 16 bits on a GPU that does so at a fraction of its speed."""
    devices = [d for d in map(device_of, case.gpus.in_use) if d and d.fp16_flops_per_s and d.fp32_flops_per_s]
    slow = [d for d in devices if d.fp32_flops_per_s > SLOW_HALF * d.fp16_flops_per_s]
    if not slow or not case.engine.computes_in_half:
        return None
    times = slow[0].fp32_flops_per_s / slow[0].fp16_flops_per_s
    place = next(i for i, gpu in enumerate(case.machine.gpus.need()) if device_of(gpu) in slow)
    engine = "runtime.name" if isinstance(case.runtime.name, Known) else "model.quant"
    change = Knob.QUANT_KERNEL.to("gguf", "use GGUF quants with llama.cpp, which uses 8-bit integers on this GPU")
    shown_by = (case.cite(f"machine.gpus.{place}.name", f"{times:.0f} times slower in 16 bits"), case.cite(engine))
    because = f"{case.engine.label} computes in 16 bits, which {slow[0].name} does {times:.0f} times slower than in 32"
    return _if_slow(case, because, shown_by, change)


def said_by_person(case: CaseView) -> Found | Suspected | None:
    """A format that a user says has no fast kernel, and a speed that is a fraction of the expected one."""
    said = case.narrative.remarks_on(Topic.NO_FAST_KERNEL)
    if not said:
        return None
    far = next((c for c in case.narrative.comparisons if told_ratio(c) >= FRACTION), None)
    if far is None and (case.speed.shortfall or 1.0) < FRACTION:
        return Suspected(said[0].text, "the speed with another format or kernel", CAUSE.ask)
    shown_by = (*case.narrative.cite_remarks(said[:1]), *((case.narrative.cite_comparison(far),) if far else ()))
    change = Knob.QUANT.to(None, "use a format that this engine has kernels for on this hardware")
    because = f"the weights have no fast kernel on this hardware: {said[0].text}"
    return finding(case, because, shown_by, fixes=[Remedy(change, None, "another quant changes answers slightly")])


def known_engine(case: CaseView) -> Absent | None:
    """Known GPUs and a known engine, with no setting that could select a slow kernel."""
    is_known = isinstance(case.runtime.name, Known) and None not in map(device_of, case.gpus.in_use)
    if not is_known or not case.gpus.in_use or case.engine.runs_paged:
        return None
    return Absent("no setting selects a kernel that is slow on this GPU")


def _kernel_name(case: CaseView) -> str:
    return (first_known(case.runtime.compute.kernel, case.runtime.compute.quantization).get() or "").lower()


def _faster_with(case: CaseView, trial: Comparison, change: Change) -> Found:
    faster = told_ratio(trial)
    because = f"with another kernel it is {faster:.1f} times faster"
    return finding(case, because, fixes=[change], trial=trial, speedup=faster)


def _cite_warnings(case: CaseView) -> Citations:
    line = next((line for line in case.engine.warnings if _WARNS.search(line)), None)
    return (case.cite("runtime.history.warnings", words=line),) if line else ()


def _if_slow(case: CaseView, because: str, shown_by: Citations, change: Change) -> Found | Absent | Suspected:
    """A known mechanism is the cause where decode or prefill is slow; a suspicion where that is not known."""
    slow = case.narrative.blames("decode", "prefill") if case.narrative.is_report else case.speed.is_slow
    if slow is None and any(one.fact == "runtime.history.warnings" for one in shown_by):
        slow = True  # the runtime itself says that this kernel is slow
    if slow is None:
        return Suspected(because, "the speed with another kernel", CAUSE.ask)
    if not slow:
        return Absent("decode is not what is slow here")
    cure = None if case.narrative.is_report else Cure()  # physics assumes kernels that keep up with the memory
    return finding(case, because, shown_by, cure=cure, fixes=[change])


CAUSE = Cause(
    title="The kernel is slow on this GPU",
    phase="decode",
    needs=all_of(
        "runtime.compute.quantization or runtime.compute.kernel or runtime.name or account.comparisons or "
        "account.remarks"
    ),
    routes=(
        Route("told", other_kernel_is_faster),
        Route("told", slower_with_flash_attention),
        Route("log", untuned_format),
        Route("log", plain_kernel),
        Route("counted", half_precision),
        Route("told", said_by_person),
        Route("counted", known_engine),
    ),
    on_gpu=True,
    explains=("kernel_launch_bound", "gpu_held_at_low_clocks"),
    gpu_only=True,
    ask="the kernels that {load_log} names, and {gpu_architecture}",
)
