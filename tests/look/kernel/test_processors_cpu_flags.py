from unslow.look.kernel.processors import parse_instruction_sets


def test_x86_instruction_sets_keep_their_kernel_names():
    flags = "fpu sse4_2 avx avx2 fma avx512_vnni amx_int8 arch_capabilities"
    assert parse_instruction_sets(flags) == ["amx_int8", "avx", "avx2", "avx512_vnni", "fma", "sse4_2"]


def test_arm_instruction_sets_get_the_names_that_runtimes_use():
    flags = "fp asimd evtstrm aes atomics fphp asimdhp asimddp sve i8mm bf16"
    assert parse_instruction_sets(flags) == ["bf16", "dotprod", "fp16", "i8mm", "neon", "sve"]


def test_unknown_cpu_flags_give_an_empty_list():
    assert parse_instruction_sets("") == []
    assert parse_instruction_sets("\x00 ÿ vmx") == []
