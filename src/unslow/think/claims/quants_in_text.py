"""The quants that a text speaks of: the mixes of llama.cpp, numbers of bits, and the schemes of other programs."""

import re
from functools import cache
from typing import NamedTuple

from unslow.catalog.mixes import mixes

_WIDE = {
    "fp16": "F16", "f16": "F16", "bf16": "BF16", "fp32": "F32", "f32": "F32", "16-bit": "BF16", "16 bit": "BF16",
    "half precision": "F16", "full precision": "BF16", "unquantized": "BF16", "unquantised": "BF16",
}  # fmt: skip
_SCHEMES = {
    "awq": 4.0, "gptq": 4.0, "nf4": 4.0, "int4": 4.0, "w4a16": 4.0, "nvfp4": 4.5, "fp4": 4.0, "mxfp4": 4.25, "fp8": 8.0,
    "int8": 8.0, "w8a8": 8.0, "w8a16": 8.0, "int-4": 4.0, "int-8": 8.0,
}  # fmt: skip
"""The fewest bits that a matrix takes in each."""
_GGUF = r"(?:i?q[1-8]_(?:k_(?:xs|xl|s|m|l)|k|xxs|xs|nl|0|1|s|m)|tq[12]_0|mxfp4_moe)"
_PATTERN = re.compile(
    rf"(?<![\w.])(?:(?P<mix>{_GGUF})|(?P<digit>i?q[1-8])(?![\w])"
    r"|(?P<bits>\d(?:\.\d{1,2})?)[ -]?(?:bits?|bpw)\b(?! per)"
    rf"|(?P<wide>{'|'.join(_WIDE)})\b|(?P<scheme>{'|'.join(_SCHEMES)})\b)"
)
_CACHE_BEFORE = re.compile(r"(?:kv|cache|ctk|ctv)[\s\-_a-z]{0,12}[(=:]?\s?$")
_CACHE_AFTER = re.compile(r"[\s\-_]?\)?(?:quantized |quantised )?(?:kv|k/v|cache|keys)")
USUAL = "Q4_K_M"


class QuantSaid(NamedTuple):
    """A quant as a text has it: mixes, the usual first, or bits alone."""

    label: str
    mixes: tuple[str, ...]
    bits: float
    """Of a scheme that is no mix; else 0."""
    start: int
    end: int
    of_cache: bool = False


def quants_said(text: str) -> list[QuantSaid]:
    """Every quant of a plain text, in order."""
    return [_said(match, text) for match in _PATTERN.finditer(text)]


def _said(match: re.Match[str], text: str) -> QuantSaid:
    start, end = match.span()
    near = bool(_CACHE_BEFORE.search(text[max(0, start - 20) : start]) or _CACHE_AFTER.match(text, end))
    label = match[0].upper()
    if match["mix"]:
        digit = next(letter for letter in label if letter.isdigit())
        return QuantSaid(label, (label,) if label in mixes() else _of_digit(digit), 0.0, start, end, near)
    if match["wide"]:
        return QuantSaid(_WIDE[match[0]], (_WIDE[match[0]],), 0.0, start, end, near)
    if match["scheme"]:
        return QuantSaid(label, (), _SCHEMES[match[0]], start, end, near)
    if match["bits"]:
        bits = float(match["bits"])
        return QuantSaid(match[0], _of_digit(str(int(bits))) if bits.is_integer() else (), bits, start, end, near)
    return QuantSaid(label, _of_digit(label[-1]), 0.0, start, end, near)


@cache
def _of_digit(digit: str) -> tuple[str, ...]:
    """The mixes of that many bits: the usual one, the smallest and the largest."""
    found = sorted(
        (m for m in mixes().values() if re.fullmatch(rf"I?Q{digit}_\w+", m.name)), key=lambda m: m.bits_per_weight
    )
    if not found:
        return ("BF16",) if digit == "16" else ()
    usual = next((m for m in found if m.name in (f"Q{digit}_K_M", f"Q{digit}_K", f"Q{digit}_0")), found[0])
    preferred = next((m for m in found if m.name == f"Q{digit}_K_M"), usual)
    return tuple(dict.fromkeys((preferred.name, found[0].name, found[-1].name)))
