import msgspec
import pytest

from unslow.facts.bench import CLIENT_DECODE, DECODE, DECODE_AT_4K, FIRST, GAPS, PREFILL, Gaps, Pass
from unslow.think.stats.figures import client_decode_rate, decode_rate, figures_of, prefill_rate

SHORT = Pass(
    case="short",
    round=1,
    started_s=0.0,
    asked_tokens=101,
    prompt_tokens=20,
    generated_tokens=101,
    server_prefill_s=0.1,
    server_decode_s=2.0,
    client_first_token_s=0.11,
    client_last_token_s=2.13,
    client_total_s=2.14,
    gaps=Gaps(count=100, p50_s=0.02, p95_s=0.021, p99_s=0.03, max_s=0.03),
)
LONG = msgspec.structs.replace(
    SHORT,
    case="long",
    prompt_tokens=3584,
    server_prefill_s=7.168,
    client_first_token_s=7.2,
    client_last_token_s=11.2,
    server_decode_s=4.0,
)


def made(base=SHORT, **changes):
    return msgspec.structs.replace(base, **changes)


def test_standard_protocol_gives_its_figures():
    passes = [
        made(round=0, server_decode_s=50.0),
        *(made(round=n, server_decode_s=s) for n, s in ((1, 2.0), (2, 2.02), (3, 1.98))),
        *(made(LONG, round=n) for n in (1, 2, 3)),
    ]
    found = figures_of(passes)
    assert found.figures[DECODE].median == pytest.approx(50.0)
    assert found.samples[DECODE] == pytest.approx((50.0, 49.505, 50.505), rel=1e-4)
    assert found.figures[DECODE_AT_4K].median == pytest.approx(25.0)
    assert found.figures[PREFILL].median == pytest.approx(500.0)
    assert found.figures[FIRST].median == pytest.approx(0.11)
    assert found.figures[CLIENT_DECODE].median == pytest.approx(100 / 2.02)
    assert [found.figures[name].median for name in GAPS] == [0.02, 0.021, 0.03]
    assert found.notes == ()


def test_warm_up_is_not_counted():
    assert figures_of([made(round=0)]).figures == {}
    assert figures_of([]).notes == ("nothing was measured",)


def test_client_times_replace_missing_server_times():
    untold = made(LONG, server_prefill_s=None, server_decode_s=None, server_queue_s=0.032)
    assert decode_rate(untold) == client_decode_rate(untold) == pytest.approx(25.0)
    assert prefill_rate(untold) == pytest.approx(3584 / 7.168)
    assert prefill_rate(made(server_prefill_s=None)) is None


def test_cached_tokens_are_not_prefill(wording):
    cached = made(LONG, prompt_tokens=1792, cached_tokens=1792, server_prefill_s=3.584)
    assert prefill_rate(cached) == pytest.approx(500.0)
    notes = figures_of([cached]).notes
    wording(notes, tells=("1792 of 3584", "1 of 1"))


def test_first_chunk_of_several_tokens_is_not_one_token(wording):
    pieces = made(gaps=Gaps(count=9, p50_s=0.2, p95_s=0.2, p99_s=0.2, max_s=0.2), generated_tokens=100)
    assert client_decode_rate(pieces) == pytest.approx(90 / 2.02)
    wording(figures_of([pieces]).notes, tells="10.0")


def test_short_prompt_gives_no_prefill_rate(wording):
    found = figures_of([made()])
    assert PREFILL not in found.figures
    wording(found.notes, tells="20")


def test_other_protocols_use_all_passes_and_the_longest_prompts():
    passes = [made(case="depth", prompt_tokens=n, server_prefill_s=n / 100) for n in (100, 900, 1000)]
    passes[0] = msgspec.structs.replace(passes[0], server_prefill_s=50.0)
    found = figures_of(passes)
    assert found.figures[DECODE].count == 3
    assert found.samples[PREFILL] == pytest.approx((100.0, 100.0))
    assert DECODE_AT_4K not in found.figures


def test_quick_protocol_prompt_is_not_4k():
    assert DECODE_AT_4K not in figures_of([made(LONG, prompt_tokens=1024)]).figures


def test_buffered_answer_gives_no_rate():
    at_once = made(server_decode_s=None, client_first_token_s=2.0, client_last_token_s=2.002)
    assert client_decode_rate(at_once) is None
    assert decode_rate(at_once) is None
    quick = made(server_decode_s=None, client_first_token_s=2.0, client_last_token_s=2.02)
    assert decode_rate(quick) == pytest.approx(5000)


def test_short_answer_gives_no_rate(wording):
    found = figures_of([made(generated_tokens=5, ended_early=True)])
    assert DECODE not in found.figures
    wording(found.notes[0])
    wording(found.notes[1], tells="5 of 101")


def test_thinking_and_cpu_waiting_are_noted(wording):
    notes = figures_of([made(LONG, thinking_tokens=40, waited_for_cpu_s=5.35, client_total_s=10.7)]).notes
    wording(notes, tells=("40 of 101", "40%", "0.5"))


def test_disagreeing_clocks_are_noted(wording):
    slow = figures_of([made(LONG, client_last_token_s=11.7)]).notes
    wording(slow, tells=("22.2", "25.0", "5.00 ms"))
    fast = figures_of([made(LONG, client_last_token_s=10.7)]).notes
    wording(fast[0], tells="14%")
    late = figures_of([made(LONG, client_first_token_s=12.0, client_last_token_s=16.0)]).notes
    wording(late[0], tells=("4.83 s", "12.00 s"))


def test_disagreeing_repeats_are_noted(wording):
    passes = [made(LONG, round=n, server_decode_s=s) for n, s in ((1, 5.0), (2, 4.0), (3, 4.0))]
    wording(figures_of(passes).notes, tells=("4K", "20%"))


def test_implausible_speed_is_none():
    assert decode_rate(made(server_decode_s=1e-300)) is None
    assert prefill_rate(made(LONG, prompt_tokens=2**53, server_prefill_s=1e-6)) is None
