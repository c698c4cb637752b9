"""One request of a round, the same for both servers, and what it took."""

from typing import NamedTuple

from unslow.app.bench.bencher import Bencher, Wanted
from unslow.app.bench.standard import MOST_IN_A_ROW, WARM_UP, WARM_UP_TOKENS, given_up, settle
from unslow.app.verify.party import Party
from unslow.facts.bench import Failure, Pass
from unslow.facts.verified import Sample, Work
from unslow.think.bench.rates import FEWEST_TOKENS, decode_rate, prefill_rate

CASE, KEPT = "verify", "kept"


class Prompt(NamedTuple):
    """What is asked in a round: the part that the cache has already, and the new one."""

    kept: str
    new: str


def prompt_of(bencher: Bencher, work: Work) -> Prompt:
    """A prompt that no cache has seen; both servers of a round are asked the same."""
    prompts = bencher.prompts
    return Prompt(
        prompts.prompt(work.kept_tokens) if work.kept_tokens else "", prompts.prompt(max(1, work.prompt_tokens))
    )


def warm_up(bencher: Bencher, party: Party, work: Work) -> str:
    """Requests that count for nothing, a short one and one as long as those that count; why it can't be asked."""
    for tokens in (0, work.prompt_tokens + work.kept_tokens):
        done = bencher.ask(Wanted(WARM_UP, WARM_UP_TOKENS, tokens, round=0))
        if isinstance(done, Failure):
            party.failed(done)
            return f"{party.what} did not answer: {done.why}"
        settle(bencher)
    return ""


def asked(bencher: Bencher, party: Party, work: Work, prompt: Prompt, number: int) -> str:
    """Ask, and keep what it took; why there is no point in asking on."""
    if prompt.kept:
        bencher.ask(Wanted(KEPT, 1, prompt=prompt.kept, round=0, keep=True))
    text = f"{prompt.kept}\n{prompt.new}" if prompt.kept else prompt.new
    done = bencher.ask(Wanted(CASE, work.answer_tokens, prompt=text, round=number, keep=bool(prompt.kept)))
    if isinstance(done, Failure):
        party.failed(done)
    else:
        party.samples.append(sample_of(done, number))
    settle(bencher)
    return f"{MOST_IN_A_ROW} requests in a row failed at {party.what}" if given_up(bencher) else ""


def sample_of(done: Pass, number: int) -> Sample:
    """What one answer tells; of one that ended early, the time that its whole length would have taken."""
    decode = decode_rate(done) if done.generated_tokens >= FEWEST_TOKENS else None
    request = done.client_first_token_s + (done.asked_tokens - 1) / decode if decode else None
    if not done.ended_early and done.generated_tokens == done.asked_tokens:
        request = done.client_total_s
    return Sample(
        round=number, decode_tokens_per_s=decode, prefill_tokens_per_s=prefill_rate(done), request_s=request or None
    )
