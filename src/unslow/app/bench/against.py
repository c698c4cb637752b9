"""Two running servers, asked in turns: each pair meets the same minute, so a slow one of them is slow by itself."""

from contextlib import ExitStack
from typing import NamedTuple

from unslow.app.bench.bencher import Bencher, Wanted
from unslow.app.bench.record import Record, ledger_of
from unslow.app.bench.remaining import Remaining
from unslow.app.bench.request import Request
from unslow.app.bench.server import context_of, opened, place_of
from unslow.app.bench.standard import LONG, MOST_IN_A_ROW, SHORT, WARM_UP, WARM_UP_TOKENS, Protocol, given_up, settle
from unslow.app.discretion import Discretion
from unslow.app.progress import Progress
from unslow.app.read_target import as_url
from unslow.facts.bench import DECODE, PREFILL, Bench, Comparison, Difference
from unslow.facts.errors import UserError
from unslow.think.bench.pairs import compared_pairs
from unslow.think.bench.rates import decode_rate, prefill_rate

ROUNDS, LOOKS = 6, 3
"""Rounds until the first look; where it can't be told then, as many again, and once more."""
_RATES = {DECODE: (SHORT, decode_rate), PREFILL: (LONG, prefill_rate)}


class Against(NamedTuple):
    """Both benchmarks, the one that the other is held against first, and what they differ by."""

    before: Bench
    after: Bench
    comparison: Comparison


def against(request: Request, other: str, progress: Progress) -> Against:
    """Measure the request's server and another one in turns."""
    sides = [request._replace(target=target) for target in (other, request.target)]  # the second is held against it
    known = [Discretion.about(side.manners.api_key, as_url(side.target or "")).keys for side in sides]
    discretion = Discretion(tuple(key for keys in known for key in keys))
    with discretion.errors():
        return _measured(sides, discretion.progress(progress), discretion)


def _measured(sides: list[Request], progress: Progress, discretion: Discretion) -> Against:
    with ExitStack() as stack:
        places = [place_of(side.target, side.manners.api_key or "", progress) for side in sides]
        pairs = zip(places, sides, strict=True)
        benchers = [stack.enter_context(opened(place, side, progress)) for place, side in pairs]
        if benchers[0].target.url == benchers[1].target.url:
            raise UserError("both are the same server", "--against takes the URL of another one")
        records = [_record(*side, progress, discretion) for side in zip(benchers, sides, strict=True)]
        try:
            why = _in_turns(benchers, sides[0].protocol, progress)
        except KeyboardInterrupt:
            why = ""
            for bencher in benchers:
                bencher.interrupted = True
        for record in records:
            record.notes += (why,) if why else ()
        before, after = (record.finished() for record in records)
    return Against(before, after, _compared(before, after, benchers))


def _record(bencher: Bencher, request: Request, progress: Progress, discretion: Discretion) -> Record:
    record = Record(bencher.system, request, lambda: ledger_of(bencher), progress, discretion)
    bencher.flush = record.flush
    return record


def _in_turns(benchers: list[Bencher], protocol: Protocol, progress: Progress) -> str:
    """Rounds of the same questions, and who goes first changes with every round; why it ended before its time."""
    for bencher in benchers:
        protocol = protocol.within(context_of(bencher))
        bencher.ask(Wanted(WARM_UP, WARM_UP_TOKENS, round=0))
    rounds = max(ROUNDS, protocol.rounds)
    remaining = Remaining(progress)
    remaining.announce([one for _ in range(rounds) for one in (*protocol.pair, *protocol.pair)])
    for number in range(1, LOOKS * rounds + 1):
        if why := _round(benchers, protocol, number, remaining):
            return why
        if number % rounds == 0 and _is_told(benchers):  # few looks: each is another chance to be wrong
            break
    remaining.finish()
    return ""


def _round(benchers: list[Bencher], protocol: Protocol, number: int, remaining: Remaining) -> str:
    for wanted in protocol.pair:
        for bencher in benchers if number % 2 else reversed(benchers):
            remaining.step(f"round {number}, {bencher.target.url}", wanted)
            remaining.done(wanted, bencher.ask(wanted._replace(round=number)))
            settle(bencher)
            if given_up(bencher):
                return f"{MOST_IN_A_ROW} requests in a row failed at {bencher.target.url}"
    return ""


def _is_told(benchers: list[Bencher]) -> bool:
    """Whether decoding is told apart, or told to be the same."""
    found = _difference(DECODE, benchers)
    return found is not None and found.verdict != "cannot_tell"


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
