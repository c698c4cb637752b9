"""Parameter counts of packed tensors in the layout of each quantization method."""

import pytest
from stored import safetensors, tensors

from unslow.look.models.safetensors import read_checkpoint
from unslow.look.system.live import LiveSystem

IN, OUT = 128, 64


def read(folder, header, config):
    (folder / "model.safetensors").write_bytes(safetensors(header))
    (folder / "config.json").write_text(config)
    return read_checkpoint(LiveSystem(), str(folder))


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_gptq_packs_along_the_input(bits, tmp_path):
    header = tensors(
        l__qweight=("I32", (IN * bits // 32, OUT)),
        l__qzeros=("I32", (1, OUT * bits // 32)),
        l__scales=("F16", (1, OUT)),
        l__g_idx=("I32", (IN,)),
        norm__weight=("F16", (IN,)),
    )
    model = read(tmp_path, header, f'{{"quantization_config": {{"quant_method": "gptq", "bits": {bits}}}}}')
    assert model.parameters == IN * OUT + IN
    assert f"I32 packed {bits}-bit" in model.type_bytes


def test_awq_packs_along_the_output(tmp_path):
    header = tensors(l__qweight=("I32", (IN, OUT // 8)), l__qzeros=("I32", (1, OUT // 8)), l__scales=("F16", (1, OUT)))
    model = read(tmp_path, header, '{"quantization_config": {"quant_method": "awq", "w_bit": 4, "q_group_size": 128}}')
    assert model.parameters == IN * OUT
    assert model.quantization.name == "AWQ 4-bit"


def test_packed_tensors_without_a_method_have_unknown_parameters(tmp_path):
    model = read(tmp_path, tensors(l__qweight=("I32", (IN // 8, OUT))), "{}")
    assert model.parameters is None
    assert model.type_bytes == {"I32 packed": IN // 8 * OUT * 4}


def test_fp8_block_scales_are_not_parameters(tmp_path):
    header = tensors(l__weight=("F8_E4M3", (IN, OUT)), l__weight_scale_inv=("F32", (1, 1)))
    model = read(tmp_path, header, '{"quantization_config": {"quant_method": "fp8"}}')
    assert model.parameters == IN * OUT


def test_mxfp4_blocks_of_gpt_oss_are_counted(tmp_path):
    header = tensors(
        mlp__experts__gate_up_proj_blocks=("U8", (4, OUT, IN // 32, 16)),
        mlp__experts__gate_up_proj_scales=("U8", (4, OUT, IN // 32)),
        mlp__experts__gate_up_proj_bias=("BF16", (4, OUT)),
    )
    model = read(tmp_path, header, '{"quantization_config": {"quant_method": "mxfp4"}}')
    assert model.parameters == 4 * OUT * IN + 4 * OUT


def test_mlx_modules_may_have_different_bits(tmp_path):
    header = tensors(
        a__weight=("U32", (OUT, IN * 4 // 32)),
        a__scales=("BF16", (OUT, 2)),
        a__biases=("BF16", (OUT, 2)),
        b__weight=("U32", (OUT, IN * 8 // 32)),
        b__scales=("BF16", (OUT, 2)),
        b__biases=("BF16", (OUT, 2)),
        b__bias=("BF16", (OUT,)),
    )
    quantization = '{"bits": 4, "group_size": 64, "b": {"bits": 8, "group_size": 64}, "c": false}'
    model = read(tmp_path, header, f'{{"quantization": {quantization}, "quantization_config": {quantization}}}')
    assert model.parameters == 2 * IN * OUT + OUT
    assert set(model.type_bytes) == {"U32 packed 4-bit", "U32 packed 8-bit", "BF16"}


def test_integer_tensors_of_an_unquantized_model_are_not_packed(tmp_path):
    assert read(tmp_path, tensors(position_ids=("I64", (8,)), mask=("U8", (3,))), "{}").parameters == 11
