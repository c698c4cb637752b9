"""The library of ggml's CPU backend that a process has mapped: where several are shipped, its name tells what it uses.

A build with `GGML_CPU_ALL_VARIANTS` has one library for each generation of processors and loads the best that the
processor can run, of those that are there. Others have one `libggml-cpu.so`, or none, and tell nothing.
"""

import re

_NAME = re.compile(r"libggml-cpu-([\w.]{1,40}?)\.so(?:\.[\d.]{1,20})?(?: \(deleted\))?")
_HASWELL = ("AVX", "F16C", "FMA", "AVX2")
# ggml_add_cpu_backend_variant in ggml/src/CMakeLists.txt, by the names of the line `system_info`
_X86: dict[str, tuple[str, ...]] = {
    "x64": (),
    "sse42": (),
    "sandybridge": ("AVX",),
    "ivybridge": ("AVX", "F16C"),
    "piledriver": ("AVX", "F16C", "FMA"),
    "haswell": _HASWELL,
    "alderlake": (*_HASWELL, "AVX_VNNI"),
    "skylakex": (*_HASWELL, "AVX512"),
    "cannonlake": (*_HASWELL, "AVX512", "AVX512_VBMI"),
    "cascadelake": (*_HASWELL, "AVX512", "AVX512_VNNI"),
    "icelake": (*_HASWELL, "AVX512", "AVX512_VBMI", "AVX512_VNNI"),
    "cooperlake": (*_HASWELL, "AVX512", "AVX512_VNNI", "AVX512_BF16"),
    "zen4": (*_HASWELL, "AVX512", "AVX512_VBMI", "AVX512_VNNI", "AVX512_BF16"),
    "sapphirerapids": (*_HASWELL, "AVX512", "AVX512_VBMI", "AVX512_VNNI", "AVX512_BF16", "AMX_INT8"),
}
_ARM = ("armv", "android_armv", "apple_m")
_PLAIN_ARM = ("armv8.0", "android_armv8.0")
"""The one variant without products of 8-bit numbers; every later one has them."""


def parse_cpu_library(maps: str) -> tuple[str, list[str]] | None:
    """The name of the mapped library and the instruction sets that it was built for; None where no name tells them."""
    names = {line.rpartition("/")[2] for line in maps.splitlines() if "libggml-cpu-" in line}
    for found in filter(None, map(_NAME.fullmatch, sorted(names))):
        features = _features(found[1])
        if features is not None:
            return found[0], features
    return None


def _features(variant: str) -> list[str] | None:
    if variant.startswith(_PLAIN_ARM):
        return ["NEON"]  # every 64-bit ARM has it, and every variant is built with it
    if variant.startswith(_ARM):
        return ["NEON", "DOTPROD"]
    return list(_X86[variant]) if variant in _X86 else None
