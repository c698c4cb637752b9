"""Lines in which Ollama tells why it does not use a GPU, over all its versions."""

import re

from unslow.facts.values import reported
from unslow.look.logs.ollama.slog import Line
from unslow.look.logs.ollama.state import Reading, Rule

_REASONS = (
    "permission problems block access",
    "permissions not set up properly",
    "kfd driver not loaded",
    "NVIDIA driver too old",
    "nvidia driver too old",
    "old CUDA driver detected",
    "AMD driver is too old",
    "no rocblas support for gfx",
    "amdgpu is not supported",
    "amdgpu too old",
    "CUDA GPU is too old",
    "compute capability not in compiled architectures",
    "no compatible rocm library found",
    "unable to verify rocm library",
    "failed to lookup supported GFX types",
    "unsupported Radeon iGPU",
    "appears to be an iGPU",
    "dropping integrated GPU",
    "error looking up nvidia GPU memory",
    "cuda driver library init failure",
    "error initializing cuda driver library",
    "cudart init failure",
    "CPU does not have AVX",
    "CPU does not have vector extensions",
    "GPU discovery watchdog timed out",
)
_OUTCOMES = (
    "no compatible GPUs were discovered",
    "no compatible amdgpu devices detected",
    "all detected amdgpus are skipped",
    "AMD ROCm reports no devices found",
    "failure during GPU discovery",
    "failure during llama-server GPU discovery",
    "falling back to CPU",
)
_ONLY_CPU = re.compile(r"Dynamic LLM libraries \[(?:cpu\w{0,8}[ ,]{0,2}){1,4}\]")
_NO_OPENING = re.compile(r"/dev/kfd\b.{0,40}permission denied|permission denied.{0,40}/dev/kfd", re.IGNORECASE)
_NO_TARGET = re.compile(r"\bgfx[0-9a-f]{3,5}\b.{0,60}\bnot supported\b|not supported.{0,60}\bgfx[0-9a-f]{3,5}\b")


def _refuse(reading: Reading, line: Line, rank: int) -> bool:
    """The reason beats the outcome, and the first of several reasons is kept."""
    if reading.refused is None or rank < reading.refused[0]:
        reading.refused = (rank, reported(line.said(), line.where))
    return True


def _reason(reading: Reading, line: Line) -> bool:
    return _refuse(reading, line, 0)


def _outcome(reading: Reading, line: Line) -> bool:
    return _refuse(reading, line, 1)


def _device_file(reading: Reading, line: Line) -> bool:
    """The file through which ROCm reaches the GPU may not be opened."""
    if not _NO_OPENING.search(line.text):
        return False
    reading.system["kfd_access"] = reported(value=False, source=line.where)
    return _refuse(reading, line, 0)


def _only_cpu(reading: Reading, line: Line) -> bool:
    """The list of its libraries, with none for a GPU among them: a build or a package without."""
    return bool(_ONLY_CPU.search(line.text)) and _refuse(reading, line, 0)


def _target(reading: Reading, line: Line) -> bool:
    return bool(_NO_TARGET.search(line.text)) and _refuse(reading, line, 0)


RULES = (
    *(Rule(phrase, _reason) for phrase in _REASONS),
    *(Rule(phrase, _outcome) for phrase in _OUTCOMES),
    Rule("/dev/kfd", _device_file),
    Rule("Dynamic LLM libraries", _only_cpu),
    Rule("not supported", _target),
)
