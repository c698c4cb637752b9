"""The instruction sets that matrix kernels are written for, by the kernel's names for them."""

_X86 = """
    ssse3 sse4_1 sse4_2 avx avx2 fma f16c bmi2 avx_vnni avx_vnni_int8 avx512f avx512bw avx512dq avx512vl avx512vbmi
    avx512_vnni avx512_bf16 avx512_fp16 amx_tile amx_int8 amx_bf16 amx_fp16
"""
_ARM = "sve sve2 i8mm bf16 sme sme2"
_NAMES = {name: name for name in (_X86 + _ARM).split()} | {
    # Arm's flags that everyone else knows by another name.
    "asimd": "neon",
    "neon": "neon",
    "asimdhp": "fp16",
    "asimddp": "dotprod",
}


def parse_instruction_sets(flags: str) -> list[str]:
    """The sets named in a line of CPU flags, sorted."""
    return sorted({_NAMES[flag] for flag in flags.lower().split() if flag in _NAMES})
