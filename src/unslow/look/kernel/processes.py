"""One process as /proc shows it: its mounts, its memory by node, its ggml library and the code in that."""

import re
from collections.abc import Iterable
from pathlib import Path
from posixpath import basename
from typing import NamedTuple

from unslow.facts.values import KIB
from unslow.look.kernel.processors import parse_cpu_list
from unslow.look.system import LookError, System, read_text

MOUNT_TABLE = "/proc/self/mountinfo"
MOUNT_TABLE_LIMIT_BYTES = 8 * 1024**2  # a host with thousands of containers has thousands of mounts
_LEAST_FIELDS, _LEAST_FIELDS_AFTER_DASH = 6, 3
_ESCAPE = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """One line: the folder `root` of a filesystem, visible at `point`."""

    device: str
    root: str
    point: str
    filesystem: str
    source: str
    options: str


def parse_mounts(text: str) -> list[Mount]:
    """The mounts in the order in which they were made; lines of another form are passed over."""
    mounts = []
    for line in text.splitlines():
        before, dash, after = line.partition(" - ")
        left, right = before.split(), after.split()
        if dash and len(left) >= _LEAST_FIELDS and len(right) >= _LEAST_FIELDS_AFTER_DASH:
            # The kernel writes blanks and backslashes in octal
            written = (*left[3:5], right[1])
            root, point, source = (_ESCAPE.sub(lambda code: chr(int(code[1], 8)), name) for name in written)
            mounts.append(Mount(left[2], root, point, right[0], source, right[2]))
    return mounts


def mount_of(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """The mount under a path: the deepest one, and of several on one point the last, which hides the others."""
    holding = [mount for mount in mounts if f"{path}/".startswith(f"{mount.point.rstrip('/')}/")]
    return max(reversed(holding), key=lambda mount: len(mount.point), default=None)


NUMA_NODES = "/sys/devices/system/node"
NUMA_MAPS_LIMIT_BYTES = 8 * 1024**2
"""A line for each mapping: a runtime with all its libraries has a few hundred, seldom some thousand."""
_PAGES = re.compile(r" N(\d{1,4})=(\d{1,12})\b")
_PAGE_KIB = re.compile(r" kernelpagesize_kB=(\d{1,8})\b")


def read_nodes(system: System) -> list[int]:
    """The memory nodes that have processors too; LookError where the kernel names none."""
    with_cpus, with_memory = (parse_cpu_list(read_text(system, f"{NUMA_NODES}/has_{x}")) for x in ("cpu", "memory"))
    return sorted(with_cpus & with_memory)


def parse_bytes_by_node(text: str) -> dict[str, int]:
    """The bytes in memory on each node over all mappings, also of files; huge pages count as large as they are."""
    held: dict[str, int] = {}
    for line in text.splitlines():
        if size := _PAGE_KIB.search(line):
            for node, pages in _PAGES.findall(line):
                held[node] = held.get(node, 0) + int(pages) * int(size[1]) * KIB
    if not held:
        raise LookError("numa_maps lists no pages")
    return held


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
    """The name of the mapped library and the instruction sets that it was built for; None where no name tells them.

    A build with `GGML_CPU_ALL_VARIANTS` has one library for each generation of processors and loads the best that the
    processor can run, of those that are there. Others have one `libggml-cpu.so`, or none, and tell nothing.
    """
    names = {line.rpartition("/")[2] for line in maps.splitlines() if "libggml-cpu-" in line}
    for found in filter(None, map(_NAME.fullmatch, sorted(names))):
        variant = found[1]
        if variant.startswith(_PLAIN_ARM):
            return found[0], ["NEON"]  # every 64-bit ARM has it, and every variant is built with it
        if variant.startswith(_ARM):
            return found[0], ["NEON", "DOTPROD"]
        if variant in _X86:
            return found[0], list(_X86[variant])
    return None


MOST_CODE_BYTES = 256 * 1024**2
"""Of a program: kernels for GPUs, which make one larger, lie in libraries of their own as a rule."""
FEWEST_INSTRUCTIONS = 16  # Of one kind: in 15 MB of code without any of them, other bytes look like one at most once
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


class MappedCode(NamedTuple):
    """A file with code, as a process has it mapped."""

    path: str
    start: int
    size: int


def read_code_features(system: System, pid: int, maps: str) -> tuple[str, list[str]] | None:
    """The file with the CPU backend and what it uses, by the names of `system_info`; None where no file is that.

    Instructions of AVX2, FMA and F16C have prefixes of their own. A build that uses them has dozens to thousands of the
    few below, which multiply and add the numbers of a model; one that does not has none, whatever the processor can do.
    """
    for code in parse_code(maps):
        name = f"/proc/{pid}/root{code.path}"
        counts = system.ask(f"machine code {name}", lambda c=code, n=name: ask_counts(n, c))  # type: ignore[misc]
        if isinstance(counts, dict) and all(type(counts.get(feature)) is int for feature in _CODES):
            return basename(code.path), [feature for feature in _CODES if counts[feature] >= FEWEST_INSTRUCTIONS]
    return None


def parse_code(maps: str) -> list[MappedCode]:
    """The mapped programs and libraries that may hold ggml's CPU backend, the one that is named after it first."""
    found: dict[str, MappedCode] = {}
    for fields in (line.split(None, 5) for line in maps.splitlines()):
        if len(fields) < 6 or "x" not in fields[1] or not fields[5].startswith("/"):  # noqa: PLR2004 (the path is sixth)
            continue
        path = fields[5]
        if _PROGRAMS.fullmatch(basename(path)):
            low, _, high = fields[0].partition("-")
            start = int(fields[2], 16)
            end = start + int(high, 16) - int(low, 16)
            if path in found:  # one file in several pieces
                start, end = min(start, found[path].start), max(end, found[path].start + found[path].size)
            found[path] = MappedCode(path, start, end - start)
    return sorted(found.values(), key=lambda code: (not _FIRST.match(basename(code.path)), code.path))


def ask_counts(name: str, code: MappedCode) -> dict[str, int] | None:
    """How often each kind stands in the code of a file; None where it is not the backend, or of other processors."""
    try:
        if Path(name).stat().st_size > MOST_CODE_BYTES:
            raise LookError(f"{name} is too large to look for instructions")
        content = Path(name).read_bytes()
    except OSError as error:
        raise LookError(f"{name}: {error.strerror or error}") from error
    if int.from_bytes(content[_ELF_MACHINE], "little") != _X86_64 or _MARK not in content:
        return None
    text = content[code.start : code.start + code.size]
    return {name: sum(1 for _ in pattern.finditer(text)) for name, pattern in _CODES.items()}
