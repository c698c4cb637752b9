"""The protocol against a server with a simulated clock: what it sends, when it sends more, when it gives up."""

import pytest
from doubles import Quiet
from simulated_server import SimulatedServer

from unslow.commands.bench.bencher import Bencher, BenchWish, spans_of
from unslow.commands.bench.protocol import QUICK, STANDARD, about, run_protocol
from unslow.facts.bench import DECODE, Pass
from unslow.facts.snapshot import Subject
from unslow.look.requests import Target
from unslow.look.system import ExchangeError
from unslow.think.stats.figures import figures_of


class Steps(Quiet):
    """Progress that remembers the steps too."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[str, float]] = []

    def step(self, text: str, share: float) -> None:
        self.steps.append((text, share))


def bencher_of(system: SimulatedServer) -> Bencher:
    return Bencher(system, Subject(), Target("http://127.0.0.1:1"), Steps())


def counted(bencher: Bencher) -> list[str]:
    return [done.case for done in bencher.passes if done.round]


def test_protocol_is_three_rounds_of_two_short_and_one_long_prompt():
    bencher = bencher_of(SimulatedServer())
    assert run_protocol(bencher, STANDARD) == ""
    assert counted(bencher) == ["short", "short", "long"] * 3
    assert {done.asked_tokens for done in bencher.passes if done.case == "short"} == {512}
    assert figures_of(bencher.passes).figures[DECODE].median == pytest.approx(50, rel=0.01)


def test_disagreeing_rounds_are_followed_by_more():
    def rate(now: float) -> float:
        return 50.0 if int(now) % 60 < 30 else 25.0

    bencher = bencher_of(SimulatedServer(rate=rate))
    assert run_protocol(bencher, STANDARD) == ""
    assert max(done.round for done in bencher.passes) == STANDARD.most_rounds
    assert not figures_of(bencher.passes).figures[DECODE].agree or figures_of(bencher.passes).notes


def test_unreachable_server_is_given_up_after_three_requests():
    bencher = bencher_of(SimulatedServer(is_up=lambda _now: False))
    assert "did not respond" in run_protocol(bencher, STANDARD)
    assert [failure.kind for failure in bencher.failures] == ["refused"] * 3


def test_server_that_dies_keeps_what_was_measured(wording):
    bencher = bencher_of(SimulatedServer(is_up=lambda now: now < 40))
    wording(run_protocol(bencher, STANDARD))
    assert counted(bencher)
    assert len(bencher.failures) == 3


def test_single_failure_is_counted_and_the_protocol_continues():
    broken = ExchangeError("broke_off", "broke off")
    bencher = bencher_of(SimulatedServer(fails=lambda now: broken if 2 < now < 12 else None))
    assert run_protocol(bencher, STANDARD) == ""
    assert len(bencher.failures) >= 1
    assert len(counted(bencher)) + sum(1 for f in bencher.failures if f.round) >= 9


@pytest.mark.parametrize(
    ("context", "prompt", "tokens"),
    [(None, 3580, 512), (8192, 3580, 512), (4096, 3580, 512), (2048, 1532, 512), (512, 160, 384)],
)
def test_small_context_gets_shorter_prompts(context, prompt, tokens):
    fitted = STANDARD.within(context)
    assert (fitted.long_prompt, fitted.tokens) == (prompt, tokens)
    if context:
        assert fitted.long_prompt + fitted.long_tokens < context


def test_progress_share_only_grows_and_time_left_is_shown():
    bencher = bencher_of(SimulatedServer())
    run_protocol(bencher, QUICK)
    shares = [share for text, share in bencher.progress.steps if text.startswith("round")]
    assert shares == sorted(shares)
    assert bencher.progress.steps[-1] == ("measured", 1.0)
    assert any("left" in text for text, _ in bencher.progress.steps)


def test_long_benchmark_is_announced():
    bencher = bencher_of(SimulatedServer(rate=lambda _now: 2.0))
    run_protocol(bencher, STANDARD)
    assert any("Ctrl-C keeps" in said and "--quick is shorter" in said for said in bencher.progress.said)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "about 1 s"), (42, "about 42 s"), (90, "a minute or two"), (600, "about 10 min")]
)
def test_durations_are_rounded_in_words(seconds, words):
    assert about(seconds) == words


def test_phases_of_a_request_are_consecutive_spans():
    done = Pass(
        case="long", round=1, started_s=0.0, asked_tokens=8, prompt_tokens=100, generated_tokens=8,
        server_prefill_s=2.0, server_load_s=0.5, client_first_token_s=3.0, client_last_token_s=4.0, client_total_s=4.1,
    )  # fmt: skip
    spans = [(span.phase, span.start_s, span.end_s) for span in spans_of(done, 10.0)]
    assert spans == [("load", 10.0, 10.5), ("queue", 10.5, 11.0), ("prefill", 11.0, 13.0), ("decode", 13.0, 14.0)]


def test_passes_are_flushed_periodically():
    bencher = bencher_of(SimulatedServer())
    flushed = []
    bencher.flush = lambda: flushed.append(len(bencher.passes))
    for number in range(1, 6):
        bencher.ask(BenchWish("short", 400, round=number))  # eight seconds each
    assert flushed == [2, 4]
