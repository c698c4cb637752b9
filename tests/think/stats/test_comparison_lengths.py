"""Benchmarks with different prompt or answer lengths are not comparable."""

import msgspec
from bench_cases import bench

from unslow.facts.bench import DECODE, PREFILL, Pass
from unslow.think.stats.comparison import compare_benches, length_difference


def asked(prompt: int, tokens: int):
    passes = (answer("short", 20, tokens), answer("long", prompt, 16))
    return msgspec.structs.replace(bench(1), id=f"{prompt}-{tokens}", passes=passes)


def answer(case: str, prompt: int, tokens: int) -> Pass:
    return Pass(
        case=case, round=1, started_s=0.0, asked_tokens=tokens, prompt_tokens=prompt, generated_tokens=tokens,
        client_first_token_s=0.1, client_last_token_s=1.0, client_total_s=1.0,
    )  # fmt: skip


def test_different_lengths_are_reported(wording):
    wording(length_difference(PREFILL, asked(200, 128), asked(1020, 128)), tells=("200", "1020"))
    wording(length_difference(DECODE, asked(1020, 1500), asked(1020, 32)), tells=("1500", "32"))
    assert not length_difference(DECODE, asked(200, 128), asked(1020, 130))
    assert not length_difference(PREFILL, bench(1), bench(2))


def test_different_lengths_give_cannot_tell():
    slower = msgspec.structs.replace(asked(1020, 32), samples={DECODE: (10.0, 10.1, 9.9)})
    before = msgspec.structs.replace(asked(1020, 1500), samples={DECODE: (100.0, 101.0, 99.0)})
    found = {one.metric: one for one in compare_benches(before, slower).differences}
    assert found[DECODE].verdict == "cannot_tell"
    assert "answers of" in found[DECODE].because
