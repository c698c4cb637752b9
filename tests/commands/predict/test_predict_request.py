import pytest

from unslow.commands._request import parse_speed
from unslow.commands.predict import PredictRequest
from unslow.facts.errors import UserError


def test_flags_are_normalized() -> None:
    flags = {"model": "m", "depth": "32k", "kv_type": "Q8", "runtime": "llama-cpp", "gpu_layers": "auto", "batch": "8"}
    request = PredictRequest.from_flags(
        {**flags, "ram_bandwidth": "80 GB/s", "ram_bytes": "64GB", "devices": ["RTX 4090"]}
    )
    assert (request.depth, request.kv_type, request.runtime) == (32768, "q8_0", "llama.cpp")
    assert (request.gpu_layers, request.batch, request.ram_bandwidth) == (None, 8, 80e9)
    assert request.ram_bytes == 64 * 2**30


@pytest.mark.parametrize(
    "flags",
    [
        {"depth": "-1"}, {"depth": "deep"}, {"gpus": "0"}, {"batch": "0"}, {"kv_type": "q9"}, {"runtime": "none"},
        {"backend": "abacus"}, {"split": "half"}, {"acceptance": 1.5, "draft": "x"}, {"acceptance": 0.5},
        {"draft": "x", "batch": "2"}, {"gpu_layers": "-2"}, {"ram_bandwidth": "0"}, {"threads": "0"}, {"prompt": "0"},
        {"kv_type": "q8_0", "runtime": "vllm"},
    ],
)  # fmt: skip
def test_invalid_flags_are_refused_with_a_hint(flags: dict[str, str]) -> None:
    with pytest.raises(UserError) as error:
        PredictRequest.from_flags({"model": "m", **flags})
    assert error.value.hint


def test_memory_bandwidths_are_parsed() -> None:
    assert parse_speed("80") == parse_speed("80GB/s") == parse_speed("80 gbps") == 80e9
    assert parse_speed("1.8TB/s") == 1.8e12
    for bad in ("", "fast", "80 furlongs", "-5", "0"):
        with pytest.raises(ValueError, match=r"^$"):
            parse_speed(bad)


def test_llama_cpp_based_programs_are_predicted_as_llama_cpp() -> None:
    for name in ("LM Studio", "lm-studio", "koboldcpp", "llama-server"):
        assert PredictRequest.from_flags({"model": "m", "runtime": name}).runtime == "llama.cpp"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"runtime": "exllamav3"}, "'exllamav3'"),
        ({"depth": "-5"}, r"--context must be between 0 and 134,217,728 \(got -5\)"),
        ({"depth": "deep"}, r"--context must be a whole number such as 8192 or 128k \(got 'deep'\)"),
        ({"draft_tokens": "8"}, "needs a draft model"),
        ({"runtime": "vllm", "gpu_layers": "10"}, "--gpu-layers is a setting of llama.cpp"),
        ({"runtime": "transformers", "cpu_moe": "10"}, "--cpu-moe is a setting of llama.cpp"),
    ],
)
def test_refusal_quotes_the_given_value(flags: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        PredictRequest.from_flags({"model": "m", **flags})
