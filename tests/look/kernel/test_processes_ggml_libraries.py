import pytest

from unslow.look.kernel.processes import parse_cpu_library

MAPS = """\
7f4ed9a00000-7f4ed9a2c000 r--p 00000000 08:01 131090 /usr/lib/ollama/{0}
7f4ed9a2c000-7f4ed9afd000 r-xp 0002c000 08:01 131090 /usr/lib/ollama/{0}
7ffd1c9d5000-7ffd1c9f6000 rw-p 00000000 00:00 0 [stack]
"""


@pytest.mark.parametrize(
    ("name", "has", "lacks"),
    [
        ("libggml-cpu-haswell.so", "AVX2", "AVX512"),
        ("libggml-cpu-icelake.so", "AVX512_VNNI", "AMX_INT8"),
        ("libggml-cpu-sandybridge.so", "AVX", "AVX2"),
        ("libggml-cpu-armv8.2_2.so", "DOTPROD", "AVX"),
        ("libggml-cpu-armv8.0_1.so", "NEON", "DOTPROD"),
        ("libggml-cpu-apple_m1.so", "DOTPROD", "AVX"),
        ("libggml-cpu-alderlake.so.0.9.4", "AVX_VNNI", "AVX512"),
        ("libggml-cpu-zen4.so (deleted)", "AVX512_BF16", "AMX_INT8"),
    ],
)
def test_ggml_cpu_variant_names_give_their_instruction_sets(name, has, lacks):
    found, features = parse_cpu_library(MAPS.format(name))
    assert found == name
    assert has in features
    assert lacks not in features


def test_the_x64_ggml_variant_uses_no_extensions():
    assert parse_cpu_library(MAPS.format("libggml-cpu-x64.so")) == ("libggml-cpu-x64.so", [])


@pytest.mark.parametrize(
    "name", ["libggml-cpu.so", "libggml-cpu-mine.so", "libggml-base.so", "libggml-cpu-" + "x" * 99]
)
def test_unknown_ggml_library_names_give_none(name):
    assert parse_cpu_library(MAPS.format(name)) is None
