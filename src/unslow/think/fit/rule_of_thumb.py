"""The rule that guides repeat: parameters times bits, and a quarter more for everything else."""

import re

from unslow.think.fit.report import RuleShown

_SHARE = 1.25
_WHOLE_BITS = {"F32": 32, "F16": 16, "BF16": 16, "FP16": 16, "FP32": 32, "MXFP4": 4, "NVFP4": 4, "AWQ": 4, "GPTQ": 4}


def rule_of_thumb(parameters: int, quant: str, room_bytes: int | None, needs_bytes: int) -> RuleShown | None:
    """What it says of a quant by the digit in its name; None where the name has none."""
    bits = next((b for name, b in _WHOLE_BITS.items() if quant.upper().startswith(name)), 0) or _digit(quant)
    if not bits or not parameters:
        return None
    says = int(parameters * bits / 8 * _SHARE)
    text = f"{parameters / 1e9:.1f}B parameters x {bits} bits x {_SHARE}"
    fits = None if room_bytes is None else says <= room_bytes
    return RuleShown(text=text, says_bytes=says, says_fits=fits, needs_bytes=needs_bytes)


def _digit(quant: str) -> int:
    match = re.search(r"(?:Q|FP|INT)(\d)", quant.upper())
    return int(match[1]) if match else 0
