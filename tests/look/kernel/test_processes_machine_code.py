from pathlib import Path

import pytest
from doubles import FakeSystem

from unslow.look.kernel.processes import FEWEST_INSTRUCTIONS, MappedCode, ask_counts, parse_code, read_code_features
from unslow.look.system import LookError

# as objdump shows them in a llama-server of two cores, and in one that was built with GGML_AVX2=OFF
VPMADDUBSW, VFMADD231PS, VCVTPH2PS, VMULPS = "c4e26d04f7", "c4e25db8d9", "c4e27d1305", "c5ec59c9"
MULPS, CALL = "0f59c1", "e8c4e2ffff"
MAPS = """\
55e0d8000000-55e0d8100000 r--p 00000000 08:01 11 /opt/llama/llama-server
55e0d8100000-55e0d8100400 r-xp 00000040 08:01 11 /opt/llama/llama-server
7f1000000000-7f1000002000 r-xp 00001000 08:01 12 /opt/llama/libggml-cpu.so
7f2000000000-7f2000002000 r-xp 00001000 08:01 13 /usr/lib/libcrypto.so.3
7f3000000000-7f3000002000 r-xp 00000000 00:00 0 [vdso]
7f4000000000-7f4000002000 rw-p 00000000 00:00 0
"""


def program(path: Path, code: str, *, mark: bytes = b"src/ggml-cpu.c\0", machine: int = 0x3E) -> str:
    head = b"\x7fELF".ljust(18, b"\0") + machine.to_bytes(2, "little")
    path.write_bytes(head.ljust(64, b"\0") + bytes.fromhex(code).ljust(1024, b"\x90") + mark)
    return str(path)


def counted(path: Path, code: str, **how) -> dict[str, int] | None:
    name = program(path / "llama-server", code, **how)
    return ask_counts(name, MappedCode(name, 64, 1024))


def test_x86_vector_instructions_in_machine_code_are_counted(tmp_path: Path):
    native = counted(tmp_path, (VPMADDUBSW + VFMADD231PS + VCVTPH2PS + VMULPS) * 20)
    assert native == {"AVX": 20, "AVX2": 20, "FMA": 20, "F16C": 20}
    assert counted(tmp_path, (MULPS + CALL) * 20) == {"AVX": 0, "AVX2": 0, "FMA": 0, "F16C": 0}
    assert counted(tmp_path, VMULPS * 20) == {"AVX": 20, "AVX2": 0, "FMA": 0, "F16C": 0}


def test_only_x86_code_of_the_ggml_backend_is_counted(tmp_path: Path):
    assert counted(tmp_path, VFMADD231PS * 20, mark=b"") is None
    assert counted(tmp_path, VFMADD231PS * 20, machine=0xB7) is None  # ARM
    with pytest.raises(LookError, match="No such file"):
        ask_counts(str(tmp_path / "gone"), MappedCode("/gone", 0, 10))


def test_executable_mappings_of_ggml_are_parsed_from_maps():
    assert parse_code(MAPS) == [
        MappedCode("/opt/llama/libggml-cpu.so", 0x1000, 0x2000),
        MappedCode("/opt/llama/llama-server", 0x40, 0x400),
    ]
    assert parse_code("nonsense\n") == []


def test_code_features_come_from_the_first_mapped_file_with_the_backend():
    library, server = (f"machine code /proc/7/root/opt/llama/{name}" for name in ("libggml-cpu.so", "llama-server"))
    plain = {"AVX": 1, "AVX2": 0, "FMA": 0, "F16C": 0}
    asks = {library: None, server: plain}
    assert read_code_features(FakeSystem(asks=asks), 7, MAPS) == ("llama-server", [])
    both = {**plain, "AVX": FEWEST_INSTRUCTIONS, "F16C": FEWEST_INSTRUCTIONS}
    assert read_code_features(FakeSystem(asks={library: both}), 7, MAPS) == ("libggml-cpu.so", ["AVX", "F16C"])
    assert read_code_features(FakeSystem(asks={library: None, server: None}), 7, MAPS) is None
    with pytest.raises(LookError):
        read_code_features(FakeSystem(), 7, MAPS)


@pytest.mark.parametrize("answer", [None, [], "AVX", {"AVX": 1}, {"AVX": "1", "AVX2": 1, "FMA": 1, "F16C": 1}])
def test_malformed_instruction_counts_give_none(answer: object):
    asks = {f"machine code /proc/7/root/opt/llama/{name}": answer for name in ("libggml-cpu.so", "llama-server")}
    assert read_code_features(FakeSystem(asks=asks), 7, MAPS) is None
