"""Two running servers, asked in turns: each pair meets the same minute, so a slow one of them is slow by itself."""

from contextlib import ExitStack
from typing import NamedTuple

from unslow.app.bench.bencher import Bencher, Wanted
from unslow.app.bench.record import Record, ledger_of
from unslow.app.bench.remaining import Remaining
from unslow.app.bench.request import Request
from unslow.app.bench.server import context_of, opened, place_of
from unslow.app.bench.standard import LONG, SHORT, WARM_UP, WARM_UP_TOKENS, Protocol
from unslow.app.discretion import Discretion
from unslow.app.progress import Progress
from unslow.app.read_target import as_url
from unslow.facts.bench import DECODE, PREFILL, Bench, Comparison, Difference
from unslow.facts.errors import UserError
from unslow.think.bench.pairs import compared_pairs
from unslow.think.bench.rates import decode_rate, prefill_rate

ROUNDS = 6
_RATES = {DECODE: (SHORT, decode_rate), PREFILL: (LONG, prefill_rate)}


class Against(NamedTuple):
    """Both benchmarks, the one that the other is held against first, and what they differ by."""

    before: Bench
    after: Bench
    comparison: Comparison


def against(request: Request, other: str, progress: Progress) -> Against:
    """Measure the request's server and another one in turns."""
    with ExitStack() as stack:
        sides = []
        for target in (other, request.target):  # the first is what the second is held against
            place = place_of(target, request.manners.api_key or "", progress)
            bencher = stack.enter_context(opened(place, request._replace(target=target), progress))
            sides.append((bencher, _record(bencher, request._replace(target=target), progress)))
        benchers = [bencher for bencher, _ in sides]
        if benchers[0].target.url == benchers[1].target.url:
            raise UserError("both are the same server", "--against takes the URL of another one")
        try:
            _in_turns(benchers, request.protocol, progress)
        except KeyboardInterrupt:
            for bencher in benchers:
                bencher.interrupted = True
        before, after = (record.finished() for _, record in sides)
    return Against(before, after, _compared(before, after, benchers))


def _record(bencher: Bencher, request: Request, progress: Progress) -> Record:
    discretion = Discretion.about(request.manners.api_key, as_url(request.target or ""))
    record = Record(bencher.system, request, lambda: ledger_of(bencher), progress, discretion)
    bencher.flush = record.flush
    return record


def _in_turns(benchers: list[Bencher], protocol: Protocol, progress: Progress) -> None:
    """Rounds of the same questions, and who goes first changes with every round."""
    for bencher in benchers:
        protocol = protocol.within(context_of(bencher))
        bencher.ask(Wanted(WARM_UP, WARM_UP_TOKENS, round=0))
    rounds = max(ROUNDS, protocol.rounds)
    short, _, long = protocol.cases
    remaining = Remaining(progress)
    remaining.announce([one for _ in range(rounds) for one in (short, short, long, long)])
    for number in range(1, rounds + 1):
        for wanted in (short, long):
            for bencher in benchers if number % 2 else reversed(benchers):
                remaining.step(f"round {number} of {rounds}, {bencher.target.url}", wanted)
                remaining.done(wanted, bencher.ask(wanted._replace(round=number)))
    remaining.finish()


def _compared(before: Bench, after: Bench, benchers: list[Bencher]) -> Comparison:
    found = [one for metric in _RATES if (one := _difference(metric, benchers))]
    verdicts = [one.verdict for one in found]
    telling = next((v for v in ("slower", "faster") if v in verdicts), verdicts[0] if verdicts else "cannot_tell")
    words = "; ".join(f"{one.metric.partition('_')[0]}: {one.because}" for one in found)
    return Comparison(
        before=before.id,
        after=after.id,
        verdict=telling,
        because=words or "no pair of requests was answered",
        differences=tuple(found),
        notes=(f"{benchers[1].target.url} held against {benchers[0].target.url}, asked in turns",),
    )


def _difference(metric: str, benchers: list[Bencher]) -> Difference | None:
    case, rate = _RATES[metric]
    by_round = [
        {done.round: value for done in b.passes if done.round and done.case == case and (value := rate(done))}
        for b in benchers
    ]
    pairs = [(by_round[0][number], by_round[1][number]) for number in by_round[0] if number in by_round[1]]
    return compared_pairs(metric, pairs) if pairs else None
