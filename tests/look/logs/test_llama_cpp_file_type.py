import pytest

from unslow.look.logs.llama_cpp.start_lines import parse_file_type


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Q4_K - Medium", "Q4_K_M"),
        ("Q4_K - Small", "Q4_K_S"),
        ("Q3_K - Large", "Q3_K_L"),
        ("Q2_K - Medium", "Q2_K"),
        ("Q2_K - Small", "Q2_K_S"),
        ("IQ3_S mix - 3.66 bpw", "IQ3_M"),
        ("IQ4_NL - 4.5 bpw", "IQ4_NL"),
        ("TQ1_0 - 1.69 bpw ternary", "TQ1_0"),
        ("MXFP4 MoE", "MXFP4_MOE"),
        ("all F32", "F32"),
        ("F16 (guessed)", "F16"),
        ("Q8_0", "Q8_0"),
        ("", ""),
    ],
)
def test_file_types_get_their_short_names(text, name):
    assert parse_file_type(text) == name
