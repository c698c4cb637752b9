"""Which instruction sets the code of ggml's CPU backend uses: by the code itself, where neither a name nor a log tells.

Instructions of AVX2, FMA and F16C have prefixes of their own. A build that uses them has dozens to thousands of the few
below, which multiply and add the numbers of a model; one that does not has none, whatever the processor can do.
"""

import re
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from unslow.look.system import LookError, System

MOST_BYTES = 256 * 1024**2
"""Of a program: kernels for GPUs, which make one larger, lie in libraries of their own as a rule."""
FEWEST = 16
"""Of one kind: in 15 MB of code without any of them, other bytes look like one at most once."""
_MARK = b"ggml-cpu.c"
"""The name of the source, which its own complaints carry: without it the backend's code is elsewhere."""
_PROGRAMS = re.compile(r"(?:lib)?(?:ggml|llama|whisper|koboldcpp)[\w.+-]{0,80}")
_FIRST = re.compile(r"(?:lib)?ggml-cpu\b")
_X86_64 = 0x3E
_ELF_MACHINE = slice(18, 20)
# Intel's manual, volume 2, 2.3.5: C4, then a byte that ends in the map of opcodes (00010), then W vvvv L pp
_MAP2 = rb"\xc4[\x02\x22\x42\x62\x82\xa2\xc2\xe2]"
_LONG = rb"[\x05\x0d\x15\x1d\x25\x2d\x35\x3d\x45\x4d\x55\x5d\x65\x6d\x75\x7d]"  # W 0, L 1, pp 01: 256 bits
_CODES = {
    # VADDPS and VMULPS of 256-bit registers, by the short prefix
    "AVX": re.compile(rb"\xc5[" + re.escape(bytes(range(4, 256, 8))) + rb"][\x58\x59][\xc0-\xff]", re.DOTALL),
    "AVX2": re.compile(_MAP2 + _LONG + rb"\x04", re.DOTALL),  # VPMADDUBSW: products of 8-bit numbers
    "FMA": re.compile(_MAP2 + _LONG + rb"[\x98\xa8\xb8]", re.DOTALL),  # VFMADD132PS, 213, 231
    "F16C": re.compile(_MAP2 + rb"[\x79\x7d]\x13", re.DOTALL),  # VCVTPH2PS
}


class Code(NamedTuple):
    """A file with code, as a process has it mapped."""

    path: str
    start: int
    size: int


def read_code_features(system: System, pid: int, maps: str) -> tuple[str, list[str]] | None:
    """The file with the CPU backend and what it uses, by the names of `system_info`; None where no file is that."""
    for code in parse_code(maps):
        name = f"/proc/{pid}/root{code.path}"
        counts = parse_counts(system.ask(f"machine code {name}", lambda c=code, n=name: ask_counts(n, c)))  # type: ignore[misc]
        if counts is not None:
            used = [feature for feature, count in counts.items() if count >= FEWEST]
            return _name(code.path), used
    return None


def parse_code(maps: str) -> list[Code]:
    """The mapped programs and libraries that may hold ggml's CPU backend, the one that is named after it first."""
    fields = (line.split(None, 5) for line in maps.splitlines())
    found = [Code(f[5], int(f[2], 16), _size(f[0])) for f in fields if _is_code(f)]
    whole = [_joined(list(parts)) for _, parts in groupby(sorted(found), key=lambda code: code.path)]
    return sorted(whole, key=lambda code: (not _FIRST.match(_name(code.path)), code.path))


def _is_code(fields: list[str]) -> bool:
    named = len(fields) > 5 and "x" in fields[1] and fields[5].startswith("/")  # noqa: PLR2004 (the path is the sixth)
    return named and bool(_PROGRAMS.fullmatch(_name(fields[5])))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _size(range_: str) -> int:
    start, _, end = range_.partition("-")
    return int(end, 16) - int(start, 16)


def _joined(parts: list[Code]) -> Code:
    start = min(part.start for part in parts)
    return Code(parts[0].path, start, max(part.start + part.size for part in parts) - start)


def ask_counts(name: str, code: Code) -> dict[str, int] | None:
    """How often each kind stands in the code of a file; None where it is not the backend, or of other processors."""
    try:
        if Path(name).stat().st_size > MOST_BYTES:
            raise LookError(f"{name} is too large to look for instructions")
        content = Path(name).read_bytes()
    except OSError as error:
        raise LookError(f"{name}: {error.strerror or error}") from error
    if int.from_bytes(content[_ELF_MACHINE], "little") != _X86_64 or _MARK not in content:
        return None
    text = content[code.start : code.start + code.size]
    return {name: sum(1 for _ in pattern.finditer(text)) for name, pattern in _CODES.items()}


def parse_counts(answer: Any) -> dict[str, int] | None:
    """The counts as they were asked or recorded; None where there are none."""
    if not isinstance(answer, dict) or not all(type(answer.get(name)) is int for name in _CODES):
        return None
    return {name: answer[name] for name in _CODES}
