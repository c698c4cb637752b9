"""The line `system_info`: threads, logical CPUs, and what the build was made for.

Sections such as `CUDA : ARCHS = 890 | ...` and `CPU : SSE3 = 1 | ...` came late in 2024; before, all stood in one row.
"""

import re

from unslow.facts.values import reported
from unslow.look.logs.llama_cpp.start import see_backend
from unslow.look.logs.llama_cpp.state import Reading, Rule

_SECTION = re.compile(r"(?:^|[|\"=\s])\s*([A-Za-z]\w{1,15}) : (?=[A-Z])")
_SWITCH = re.compile(r"\b([A-Z][A-Z0-9_]{1,23}) = (\d{1,4})\b")
_ARCHITECTURES = re.compile(r"\bARCHS = ([\w,;-]{1,400})")
_NO_INSTRUCTIONS = (
    "LLAMAFILE",
    "OPENMP",
    "REPACK",
    "BLAS",
    "CUDA",
    "VULKAN",
    "SYCL",
    "METAL",
    "KLEIDIAI",
    "ACCELERATE",
)


def _threads(reading: Reading, found: re.Match[str], where: str) -> None:
    threads, batch, logical = found.groups()
    reading.process["threads"] = reported(int(threads), where)
    if batch:
        reading.process["threads_batch"] = reported(int(batch), where)
    if logical:
        reading.cpu["logical_cpus"] = reported(int(logical), where)


def _build(reading: Reading, found: re.Match[str], where: str) -> None:
    line = found[0]
    sections = list(_SECTION.finditer(line))
    for section in sections:
        see_backend(reading, section[1], where)
    if architectures := _ARCHITECTURES.search(line):
        reading.process["build_architectures"] = reported(re.split("[,;]", architectures[1]), where)
    cpu = next((section for section in sections if section[1] == "CPU"), None)
    if sections and cpu is None:
        return
    switches = _SWITCH.findall(line[cpu.end() if cpu else 0 :])
    features = [name for name, value in switches if value != "0" and name not in _NO_INSTRUCTIONS]
    reading.process["build_features"] = reported(features, where)


_THREADS = re.compile(r"n_threads = (\d{1,9})(?: \(n_threads_batch = (\d{1,9})\))?(?: / (\d{1,9}))?")
RULES = (
    Rule("system_info: ", _THREADS, _threads),
    Rule(
        '"total_threads":',
        re.compile(r'"n_threads":(\d{1,9})(?:,"n_threads_batch":(\d{1,9}))?,"total_threads":(\d{1,9})'),
        _threads,
    ),
    # whoever passes the line on may call it otherwise, or cut it: every build has at least one of these
    Rule("LLAMAFILE = ", re.compile(r"^.*\bLLAMAFILE = .*"), _build),
    Rule(" AVX = ", re.compile(r"^(?!.*LLAMAFILE = ).*\bAVX = [01] .*"), _build),
    Rule(" NEON = ", re.compile(r"^(?!.*LLAMAFILE = )(?!.* AVX = ).*\bNEON = [01] .*"), _build),
    Rule(" : ARCHS = ", re.compile(r"^(?!.*LLAMAFILE = )(?!.* AVX = ).*\bARCHS = .*"), _build),
)
