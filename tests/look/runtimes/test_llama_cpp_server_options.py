import pytest

from unslow.facts.runtime import Runtime
from unslow.facts.values import reported
from unslow.look.gguf_server_flags import FLAGS
from unslow.look.runtimes.llama_cpp.flags import SINCE, VALUES_SINCE, Options


def of_build(number: int) -> Options:
    return Options(Runtime(version=reported(f"b{number}-abc", "x")), {})


@pytest.mark.parametrize("flag", SINCE)
def test_a_flag_is_there_from_its_build_on(flag):
    assert of_build(SINCE[flag]).has(flag)
    assert not of_build(SINCE[flag] - 1).has(flag)
    assert f"b{SINCE[flag]}" in of_build(SINCE[flag] - 1).without(flag)


@pytest.mark.parametrize(("flag", "value"), VALUES_SINCE)
def test_so_is_a_value(flag, value):
    assert of_build(VALUES_SINCE[flag, value]).takes(flag, value)
    assert not of_build(VALUES_SINCE[flag, value] - 1).takes(flag, value)


def test_flags_are_spelled_as_the_reader_reads_them():
    known = {word for flag in FLAGS.values() for word in flag.spellings + flag.opposites}
    assert {flag for flag in SINCE if flag not in ("--reasoning-budget", "--sleep-idle-seconds")} <= known


def test_a_build_without_a_number_is_taken_for_a_new_one():
    for version in ("b0-unknown", "0.5.0-dev", ""):
        assert Options(Runtime(version=reported(version, "x")), {}).has("-lm")


def test_the_help_of_the_program_beats_its_number(wording):
    told = {
        "-sm": "-sm,   --split-mode {none,layer,row}",
        "-lm": "- mmap+mlock: both",
        "-fa": "-fa, --flash-attn    turn on",
    }
    options = Options(Runtime(version=reported("b10500", "x")), told)
    assert not options.has("-ot")
    assert options.takes("-sm", "row")
    assert not options.takes("-sm", "tensor")
    assert not options.takes("-lm", "mmap")
    assert options.takes("-lm", "mmap+mlock")
    wording(options.without("-sm", "tensor"), tells="-sm")
