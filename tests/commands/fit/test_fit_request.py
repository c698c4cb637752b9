import pytest

from unslow.commands._request import size_of
from unslow.commands.fit import FitRequest
from unslow.facts.errors import UserError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("24GB", 24 * 2**30),
        ("24GiB", 24 * 2**30),
        ("24g", 24 * 2**30),
        ("512", 512 * 2**20),
        ("1.5 GiB", 3 * 2**29),
        ("1TB", 2**40),
        ("0.5 TiB", 2**39),
        ("2t", 2**41),
    ],
)
def test_memory_sizes_are_parsed(text: str, size: int) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize("text", ["", "many", "24TBB", "-1GB", "1e9"])
def test_invalid_sizes_are_refused(text: str) -> None:
    with pytest.raises(UserError):
        size_of(text)


@pytest.mark.parametrize(
    "flags",
    [
        {"context": "many"},
        {"context": "-5"},
        {"parallel": 0},
        {"gpu_layers": -2},
        {"ubatch": 0},
        {"kv_type": "q6_k"},
        {"kv_type_v": "x"},
        {"runtime": "vlmm"},
        {"gpu_memory_utilization": 1.5},
        {"context": 2**40},
    ],
)
def test_invalid_flags_are_refused(flags: dict[str, object]) -> None:
    with pytest.raises(UserError):
        FitRequest.from_flags({"model": "m", **flags})


def test_aliases_and_suffixes_are_normalized() -> None:
    request = FitRequest.from_flags(
        {"model": "m", "runtime": "llama.cpp", "kv_type": "Q8", "context": "128k", "gpu_layers": "-1"}
    )
    assert (request.runtime, request.kv_type, request.context, request.gpu_layers) == ("llama_cpp", "q8_0", 131072, -1)
    assert FitRequest.from_flags({"model": "m", "runtime": "vLLM"}).runtime == "vllm"


def test_flags_become_a_request() -> None:
    flags = {"model": "m", "devices": ["H200", "24GB"], "margin_bytes": "512MiB", "quant": None, "format": "json"}
    request = FitRequest.from_flags(flags)
    assert request.devices == ("H200", "24GB")
    assert request.margin_bytes == 512 * 2**20
    assert request.quant is None
