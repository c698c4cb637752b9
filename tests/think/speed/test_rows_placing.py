"""Where a row does not say what is on the GPU, as much as fits is assumed."""

import pytest

from unslow.facts.values import Unknown
from unslow.think.speed.rows import BLOCK, AskedRow, block_of, is_open, parse_row, placed_row


def row(model: str, device: str = "RTX 4090", **more: str) -> AskedRow:
    found = parse_row({"model": model, "quant": "Q4_K_M", "hardware": device, "test": "tg128", **more})
    assert not isinstance(found, Unknown)
    return found


@pytest.mark.parametrize(
    "fitting",
    [row("Llama 3.1 8B"), row("llama-3.3-70b", "M3 Max"), row("llama-3.3-70b", "Ryzen 9 7950X"),
     row("llama-3.3-70b", n_gpus="2"), row("llama-3.3-70b", ngl="20"), row("Qwen3 235B A22B", ngl="99 (n-cpu-moe 90)")],
)  # fmt: skip
def test_fitting_or_placed_row_is_unchanged(fitting: AskedRow) -> None:
    assert placed_row(fitting) is fitting


def test_dense_model_leaves_whole_layers_on_the_host() -> None:
    found = placed_row(row("llama-3.3-70b"))
    assert found.gpu_layers is not None
    assert 30 < found.gpu_layers < 50
    assert not is_open(found)
    deep = placed_row(row("llama-3.3-70b", ctx_or_depth="32768"))
    assert deep.gpu_layers is not None
    assert deep.gpu_layers < found.gpu_layers


def test_experts_move_to_the_host_before_layers() -> None:
    found = placed_row(row("Qwen3 235B A22B"))
    assert found.gpu_layers is None
    assert 50 < found.experts_on_cpu <= 94
    tiny = placed_row(row("DeepSeek-R1", "GTX 1650"))
    assert (tiny.gpu_layers, tiny.experts_on_cpu) == (0, 0)


def test_kv_cache_is_rounded_up_to_blocks() -> None:
    assert block_of(0) == block_of(BLOCK - 1) == BLOCK
    assert block_of(BLOCK) == 2 * BLOCK
