"""Claims worded differently from the guides, each with the verdict that arithmetic gives."""

import pytest

from unslow.think.claims.check import check_claim, check_text
from unslow.think.claims.report import worst
from unslow.think.physics.terms import Interval

VERDICTS = {
    "possible": [
        "I get 140 tokens/sec with Qwen3-30B-A3B Q4_K_M on a single RTX 3090",
        "Llama 3.1 405B FP8 on 8x H100 at 40 tok/s",
        "DeepSeek R1 671B Q4_K_M on a Mac Studio M3 Ultra 512GB: 18 tok/s",
        "Qwen3-235B-A22B Q4_K_M on RTX 4090 + 128 GB RAM: 12 tok/s",
        "Llama 3.1 8B Q4_K_M on a Ryzen 9 with DDR5-6000 at 12 tok/s",
        "Llama 3.1 8B at 128K context needs 16 GiB for the KV cache",
        "Llama 3.1 8B at 128K with q8_0 KV cache needs 8.5 GiB of KV cache",
        "Qwen2.5 72B in 4-bit fits on two RTX 3090",
        "gpt-oss-120b fits in 80GB",
        "Llama 3.3 70B Q4_K_M with a draft model on 2x RTX 3090 at 60 tok/s",
        "Llama 3.1 8B processes a 32K prompt in 4 seconds on an RTX 4090",
        "vLLM serves Llama 3.1 8B FP8 on an H100 at 20,000 tok/s with 512 concurrent requests",
        "Llama 3.1 8B is 16 GB",
        "Llama 3 70B needs 140 GB",
        "-ngl 33 for Llama 3 8B puts everything on the GPU",
        "Groq serves Llama 3.3 70B at 1,600 tok/s",
        "Llama 3.3 70B on an RTX 4090 stays under 5 tok/s",
        "Q4_K_M is 1.6x faster than Q8_0",
    ],
    "unlikely": [
        "Llama 3.1 8B Q4_K_M at 128K context at 150 tok/s on an RTX 4090",
        "Llama 3.3 70B on an RTX 4090 at 20 tok/s",
        "Llama 3.3 70B Q4_K_M runs on an RTX 4090",
        "Foobar-35B Q4_K_M on an RTX 3090 at 120 tok/s",
        "Speculative decoding gives a 7x speedup",
        "Llama 3 8B at 32K context needs 2.1 GiB of KV cache",
        "RTX 4090 reads 300 GB/s",
    ],
    "impossible": [
        "My 4090 does 30 t/s on Llama 3.3 70B at Q4",
        "Llama 3.1 405B BF16 on 8xH100 80GB: 60 tps single stream",
        "DeepSeek R1 671B Q4_K_M on a Mac Studio M3 Ultra 512GB: 60 tok/s",
        "Llama 3.1 8B Q4_K_M on a Raspberry Pi 5 runs at 20 tok/s",
        "Llama 3.1 8B Q4_K_M CPU only at 40 tok/s",
        "Mistral 7B FP16 on RTX 4090 at 120 tok/s",
        "Mistral 7B Q4 with 100K tokens in context on a RTX 3090 at 100 tok/s",
        "gemma 3 27b at 128k context needs 60 GB of kv cache",
        "gpt-oss-120b fits on an RTX 4090",
        "Speculative decoding gives a 12x speedup",
        "RTX 4090 has 2 TB/s of memory bandwidth",
        "Llama 3.1 8B processes a 128K prompt in 0.1 seconds on an RTX 4090",
        "vLLM serves Llama 3.1 70B FP16 on 4 H100 at 500,000 tok/s aggregate",
        "Phi-4 runs at 1 ms per token on an RTX 3060",
        "-ngl 33 for a 70B puts everything on the GPU",
        "-ngl 40 puts all of Llama 2 13B on the GPU",
        "-ngl 99 puts all layers of Llama 3.3 70B Q4_K_M on an RTX 4090",
        "Qwen3-Coder-480B needs 35 GB",
        "a 1 TB/s card can reach 300 tok/s with an 8B Q4 model",
        "Q4_K_M is 3x faster than Q8_0",
        "Llama 3 8B Q4 does not fit in 24 GB",
        "130% of its bandwidth",
        "Mixtral 8x7B has 12B total parameters",
    ],
    "cannot_tell": [
        "Llama 3.3 70B at 20 tok/s",
        "an RTX 4090 at 100 tok/s",
        "20 tok/s",
        "the KV cache takes 4 GB",
        "it is 3x faster",
        "it reads 400 GB/s",
        "a 3B in an unknown place needs 40 layers on the GPU",
    ],
}  # fmt: skip
CASES = [(text, verdict) for verdict, texts in VERDICTS.items() for text in texts]


@pytest.mark.parametrize(("text", "verdict"), CASES)
def test_claim_gets_its_verdict(text: str, verdict: str) -> None:
    judged = tuple(check_claim(text))
    assert judged
    assert worst(judged) == verdict, [(j.kind, j.what, j.because) for j in judged]
    for one in judged:
        assert one.because
        assert bool(one.missing) == (one.verdict == "cannot_tell")


def test_missing_device_says_which_bandwidth_it_needs(wording) -> None:
    (one,) = check_claim("Llama 3.3 70B Q4_K_M at 20 tok/s")
    wording(one.missing)
    wording(one.arithmetic[1], tells=("20 tok/s", "838 GB/s"))


def test_expected_speed_separates_possible_from_unlikely(wording) -> None:
    claim = "Llama 3.1 8B Q4_K_M on an RTX 4090 at {} tok/s"

    def judged(speed: int) -> tuple[str, str]:
        (one,) = check_claim(claim.format(speed), lambda *_: Interval(110, 128, 145))
        assert one.expected_tokens_per_s is not None
        return one.verdict, one.because

    assert judged(130)[0] == "possible"
    assert judged(205)[0] == "unlikely"
    assert judged(20)[0] == "possible"
    wording(judged(20)[1], tells="6.4")


def test_arithmetic_of_a_spill_is_shown(wording) -> None:
    (one,) = check_claim("Llama 3.3 70B Q4_K_M on an RTX 4090 at 72 tok/s")
    reads, memory, ceiling = one.arithmetic
    wording(reads, tells=("41.9 GB", "Llama-3.3-70B", "Q4_K_M"))
    wording(memory, tells=("RTX 4090", "1,008 GB/s", "24 GiB"))
    wording(ceiling, tells=("7.92 tok/s", "24", "72 tok/s"))
    assert one.ceiling_tokens_per_s == pytest.approx(7.92, rel=0.01)


def test_ceiling_grows_with_bandwidth_and_smaller_quants() -> None:
    def ceiling(quant: str, device: str) -> float:
        (one,) = check_claim(f"Llama 3.3 70B {quant} on {device} at 1 tok/s")
        return one.ceiling_tokens_per_s or 0.0

    assert ceiling("Q4_K_M", "an RTX 3060") < ceiling("Q4_K_M", "an RTX 3090") < ceiling("Q4_K_M", "an H100")
    assert ceiling("BF16", "an H200") < ceiling("Q8_0", "an H200") < ceiling("Q4_K_M", "an H200")


def test_names_carry_over_from_the_previous_sentence() -> None:
    judged = check_text("Llama 3.3 70B Q4_K_M runs on an RTX 4090 here. It reaches 72 tok/s.")
    assert [(j.what, j.verdict) for j in judged if j.kind == "speed"] == [("72 tok/s", "impossible")]
    assert "RTX 4090" in judged[-1].notes[-1]


def test_row_of_speeds_does_not_inherit_one_model() -> None:
    judged = check_text("The 70B Q4 is large.\n\nRTX 4090 ~150 tok/s ~80 tok/s ~25 tok/s")
    assert {j.verdict for j in judged} == {"cannot_tell"}


def test_each_table_cell_is_a_claim() -> None:
    table = "| Hardware | 7B Q4 | 70B Q4 |\n|---|---|---|\n| RTX 4090 | ~150 tok/s | ~25 tok/s |\n"
    assert [(j.what, j.verdict) for j in check_text(table)] == [("150 tok/s", "possible"), ("25 tok/s", "impossible")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n\n",
        "hello",
        "|||",
        "| a |\n|---|",
        "9" * 100_000,
        "RTX " * 20_000,
        "1,1" * 50_000,
        "a\0b",
        "٣ tok/s",
        "~~~~",
    ],
)
def test_arbitrary_text_gives_no_false_verdict(text: str) -> None:
    assert [j for j in check_text(text) if j.verdict not in ("cannot_tell", "possible")] == []
