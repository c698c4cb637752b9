import pytest

from unslow.look.models.hf_config import parse_quantization


def of(**declared):
    return parse_quantization({"quantization_config": declared})


@pytest.mark.parametrize(
    ("declared", "name", "bits"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "GPTQ 4-bit", 4),
        ({"quant_method": "awq", "bits": 4}, "AWQ 4-bit", 4),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "FP8", 8),
        ({"quant_method": "fbgemm_fp8"}, "FP8", 8),
        ({"quant_method": "mxfp4"}, "MXFP4", 4),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "bitsandbytes NF4", 4),
        ({"load_in_8bit": True}, "bitsandbytes INT8", 8),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "NVFP4", 4),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "FP8", 8),
        ({"quant_method": "auto-round", "bits": 2}, "AutoRound 2-bit", 2),
        ({"quant_method": "unheard_of"}, "unheard_of", 0),
        ({"quant_method": "gptq", "bits": "four"}, "GPTQ", 0),
    ],
)
def test_quantization_configs_give_name_and_bits(declared, name, bits):
    found = of(**declared)
    assert (found.name, found.bits) == (name, bits)


@pytest.mark.parametrize(
    ("form", "weights", "inputs", "name"),
    [
        ("pack-quantized", {"num_bits": 4, "type": "int"}, None, "W4A16"),
        ("int-quantized", {"num_bits": 8, "type": "int"}, {"num_bits": 8}, "W8A8"),
        ("float-quantized", {"num_bits": 8, "type": "float"}, {"num_bits": 8}, "FP8"),
        ("nvfp4-pack-quantized", {"num_bits": 4, "type": "float"}, {"num_bits": 4}, "NVFP4"),
        ("mxfp4-pack-quantized", {"num_bits": 4, "type": "float"}, None, "MXFP4"),
    ],
)
def test_compressed_tensors_configs_give_their_scheme(form, weights, inputs, name):
    groups = {"group_0": {"weights": weights, "input_activations": inputs}}
    assert of(quant_method="compressed-tensors", format=form, config_groups=groups).name == name


def test_groups_of_different_bits_have_no_single_bit_width():
    groups = {"group_0": {"weights": {"num_bits": 4}}, "group_1": {"weights": {"num_bits": 8}}}
    found = of(quant_method="compressed-tensors", format="pack-quantized", config_groups=groups)
    assert (found.bits, found.name) == (0, "compressed-tensors")


def test_a_quantization_config_inside_text_config_is_used():
    inner = {"text_config": {"quantization_config": {"quant_method": "gptq", "bits": 4}}}
    assert parse_quantization(inner).name == "GPTQ 4-bit"


def test_an_unquantized_config_has_no_quantization():
    assert parse_quantization({"model_type": "llama"}) is None
    assert parse_quantization({"quantization_config": {}, "quantization": None}) is None
