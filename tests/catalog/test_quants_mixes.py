import pytest

from unslow.catalog.quants import file_types, find_mix, mixes, mixes_from_large_to_small, quants, sensitive
from unslow.facts.errors import UserError

NOT_MADE_BY_LLAMA_QUANTIZE = {"NVFP4"}


def test_every_file_type_of_llama_quantize_is_a_mix():
    made = {f.name for f, _ in file_types().values()} - NOT_MADE_BY_LLAMA_QUANTIZE
    assert made == {m.name for m in mixes().values() if not m.like}


@pytest.mark.parametrize("name", mixes())
def test_mixes_use_existing_types(name):
    mix = mixes()[name]
    named = {mix.output, mix.main, mix.token_table, mix.tables, *(rule.type for rule in mix.rules)} - {""}
    assert named <= set(quants())
    assert mix.bits_per_weight >= mix.main_type.block_bytes * 8 / mix.main_type.block_elements - 0.01


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("Q4_K_M", "Q4_K_M"),
        ("q4km", "Q4_K_M"),
        ("q4-k-m", "Q4_K_M"),
        ("Q4_K - Medium", "Q4_K_M"),
        ("Q4_K", "Q4_K_M"),
        ("IQ3_S mix - 3.66 bpw", "IQ3_M"),
        ("fp16", "F16"),
        ("all F32", "F32"),
        ("mxfp4", "MXFP4_MOE"),
        ("q6_k_l", "Q6_K_L"),
        ("Q2_K - Medium", "Q2_K"),
    ],
)
def test_a_written_quant_finds_its_mix(word, name):
    assert find_mix(word).name == name


@pytest.mark.parametrize(
    "name", [f.label for f, _ in file_types().values() if f.name not in NOT_MADE_BY_LLAMA_QUANTIZE]
)
def test_labels_of_llama_cpp_find_their_mix(name):
    assert find_mix(name).file_type[0].label == name


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("UD-Q4_K_XL", "publisher's own mix", "Q4_K"),
        ("ud-iq2_xxs", "publisher's own mix", "IQ2_XXS"),
        ("NVFP4", "the publisher decides", "file"),
        ("Q4_K_N", "no quant 'Q4_K_N'", "Q4_K_M"),
        ("Q9", "no quant 'Q9'", "Q"),
        ("", "no quant ''", "Q4_K_M"),
    ],
)
def test_a_quant_that_is_not_a_mix_is_a_user_error(word, message, hint):
    with pytest.raises(UserError, match=message) as raised:
        find_mix(word)
    assert hint in raised.value.hint


def test_mixes_are_ordered_from_large_to_small():
    bits = [m.bits_per_weight for m in mixes_from_large_to_small()]
    assert bits == sorted(bits, reverse=True)
    names = [m.name for m in mixes_from_large_to_small()]
    assert names[0] == "BF16"
    assert names.index("Q8_0") < names.index("Q6_K") < names.index("Q4_K_M") < names.index("Q2_K")


def test_a_mix_with_other_tables_inherits_the_rest():
    assert mixes()["Q4_K_L"].rules == mixes()["Q4_K_M"].rules
    assert mixes()["Q4_K_L"].file_type[0].id == 15
    assert mixes()["Q4_K_L"].main_type.name == "Q4_K"


def test_architectures_add_their_own_sensitive_groups():
    everywhere = set(sensitive("llama"))
    assert everywhere < set(sensitive("glm5-next"))
    assert {g.stored for g in sensitive("gpt-oss")} == {"", "MXFP4"}
    assert all(g.why.endswith(".") and g.source for g in sensitive("glm5-next"))
