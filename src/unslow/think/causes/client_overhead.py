"""The server is fast; the time is lost between it and whoever waits.

## Why it is slow
A client may wait for a name to resolve (`localhost` is tried over IPv6 first, on Windows two seconds for each
connection to a server that listens on IPv4 only), draw every token anew, collect the stream before it shows it, send
background requests, or lie behind a proxy that buffers.

## How to confirm
The server's own timings are good (llama.cpp `predicted_per_second`, Ollama `eval rate`, vLLM
`time_to_first_token_seconds`), the client's are not; or the same request with `curl` is fast; or the shortest question
to `127.0.0.1` is answered at once and to `localhost` is not. Where even the shortest question to the number, for which
nothing is computed, takes a second, something lies in between.

## What it is not
A server that is slow by its own timings: there the client waits as it should. Nor a queue before the server, or a long
prompt that is still being read.

## How to fix
On any runtime: use `127.0.0.1` instead of `localhost` (or let the server listen on both: llama.cpp `--host ::`,
`OLLAMA_HOST=[::]`, vLLM `--host ::`), keep the connection open, update or replace the client, switch off its title and
suggestion requests, let proxies pass streams (nginx `proxy_buffering off`).

## Safety
Answers do not change. A server that listens on `::` can be reached from other machines: keep a firewall or a key
before it.
"""

import re
import statistics

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.think.case.narrative import experiment_on, is_clear, remarks_on
from unslow.think.case.prediction import SLOWEST
from unslow.think.case.waits import NOTICED_S, completions_of, held_back_s, held_up_s, is_held_back
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, check_by
from unslow.think.causes._facts import OWN_SPEED, ask_for, cite, cite_remarks, found_by_trial, need
from unslow.think.report import Cost

LOST = 0.7  # Of the server's speed: a client that shows less loses it itself
NEARLY_ALL = 0.87  # Of the server's speed: what shows less, and loses a time that is noticed, loses it too
DELAY_S = 1.0  # Before the first token, beyond what the server itself took: people notice a second
NAME_DELAY_S = 0.15  # What a name may take longer than a number: looking it up in a file takes a thousandth of that
DIRECTLY = "the server's own address, or a proxy that passes questions and answers on at once"
_NUMBERS = ("127.0.0.1", "::1")
_BY_NUMBER = "127.0.0.1 instead of localhost"
_STREAMED = "a proxy that passes streams on at once (nginx `proxy_buffering off`), or the server's own address"
CURL = "{short_request}"
_DIFFERENT = re.compile(r"(?i)\d ?m?s\b|second|slow|fast|delay|instant|instead|fix|solv|quick|wait|hang|lag|refused")
_SECONDS = re.compile(r"(?<![\w.:])(\d{1,4}(?:\.\d{1,3})?) ?s(?:ec(?:ond)?s?)?\b")


def _by_routes(case: Case) -> Found | None:
    """The shortest question, for which nothing is computed: the name of this machine that takes longer than its number.

    One that is answered late even by the number shows that something lies in between.
    """
    took = {route.host: route.seconds for route in case.run.routes.value_or(()) if route.seconds is not None}
    name, number = took.get("localhost"), min((s for host, s in took.items() if host in _NUMBERS), default=None)
    if name is not None and number is not None and name - number >= NAME_DELAY_S:
        words = f"`localhost` answers after {name:.2f} s and its number after {number:.3f} s"
        because, shown = f"{words}: every connection by the name waits", (cite(case, "run.routes", words=words),)
        return _found(because, shown, _BY_NUMBER, lost_s=name - number)
    if number is None or number < DELAY_S:
        return None
    words = f"the shortest question, for which nothing is computed, is answered after {number:.1f} s"
    because = f"{words}: something between here and the server holds it back"
    shown = (cite(case, "run.routes", words=words),)
    return _found(because, shown, DIRECTLY, lost_s=max(number, _delay(case)))


def _by_holding_back(case: Case) -> Found | None:
    """Answers that come as a whole once the server has ended them, or in bursts: somebody collects the stream."""
    late, runs = held_back_s(case), completions_of(case)
    if not late:
        return None
    if all(is_held_back(c) for c in runs):
        began = statistics.median(c.prefill_s for c in runs)
        begins = f"the server begins its answer after {began:.1f} s"
        words = f"{begins}, and nothing of it comes through until it is whole, {late:.1f} s later"
    else:
        whole = statistics.median(c.client_total_s or c.decode_s for c in runs)
        bursts = f"for {late:.1f} of {whole:.1f} s nothing came, and then many tokens at once"
        words = f"the answer comes in bursts: {bursts}"
    evidence = (cite(case, "run.completions", f"{late:.1f} s in which nothing came while the server generated"),)
    return _found(words, evidence, _STREAMED, lost_s=held_up_s(case))


def _by_speeds(case: Case) -> Found | Absent | None:
    client = ask_for(case, "run.client_decode_tokens_per_s", f"{CURL}, beside {OWN_SPEED}")
    server = max(SLOWEST, ask_for(case, "run.decode_tokens_per_s", OWN_SPEED))
    # Seconds of an answer of the length that was measured
    tokens = [c.generated_tokens for c in case.run.completions.value_or(()) if c.generated_tokens]
    lost_s = statistics.median(tokens) * (1 / max(client, SLOWEST) - 1 / server) if tokens else 0.0
    felt = client < NEARLY_ALL * server and lost_s >= NOTICED_S
    if client >= LOST * server and not felt:
        if _delay(case) >= DELAY_S:
            return None
        need(case, "run.completions")  # which alone tell of a wait before the first token
        return Absent(f"the client sees {client:.3g} of {server:.3g} tokens per second")
    evidence = (cite(case, "run.client_decode_tokens_per_s", f"{server:.3g} by the server"),)
    words = f"the server generates {server:.3g} tokens per second, and the client shows {client:.3g}"
    instead, gain = "a client, or a proxy, that passes tokens on at once", server / max(client, SLOWEST)
    return _found(words, evidence, instead, gain, lost_s if lost_s > 0 else None)


def _by_delay(case: Case) -> Found | None:
    delay = _delay(case)
    if delay < DELAY_S:
        return None
    words = f"every request waits {delay:.1f} s before the server hears of it"
    evidence = (cite(case, "run.completions", f"{delay:.1f} s beyond the server's own time"),)
    return _found(words, evidence, f"{_BY_NUMBER}, and one connection for all requests", lost_s=delay)


def _delay(case: Case) -> float:
    """Seconds before every first token that the server does not account for: the least of all requests."""
    runs = case.run.completions.value_or(())
    gaps = [c.client_first_token_s - c.prefill_s for c in runs if c.client_first_token_s is not None]
    return max(0.0, min(gaps, default=0.0) - case.run.queue_s.value_or(0.0))


def _by_name(case: Case) -> Found | None:
    """The same pause before every request to `localhost`: IPv6 is tried first where the server listens on IPv4."""
    pause = remarks_on(case, Topic.CONSTANT_DELAY)
    said = remarks_on(case, Topic.LOCALHOST_URL)
    name = [r for r in said if "localhost" in r.text.lower()]
    url = "localhost" in case.runtime.url.value_or("")
    both = [r for r in name if "127.0.0.1" in r.text and _DIFFERENT.search(r.text)]
    if both:  # one name against the other is a trial
        words = f"`localhost` is tried over IPv6 first: {both[0].text}"
        return _found(words, cite_remarks(case, both), _BY_NUMBER)
    # How long a request takes by the name and by the number, each in a line of its own
    by_name = next((r for r in name if _SECONDS.search(r.text)), None)
    by_number = next((r for r in said if "127.0.0.1" in r.text and _SECONDS.search(r.text)), None)
    if by_name and by_number and _seconds(by_name.text) >= 2 * _seconds(by_number.text):
        words = f"`localhost` is tried over IPv6 first: {by_name.text}, and {by_number.text}"
        return _found(words, cite_remarks(case, [by_name, by_number]), _BY_NUMBER)
    if not pause or not (name or url):
        return None
    words = f"the client asks for `localhost`, which is tried over IPv6 first: {pause[0].text}"
    return _found(words, cite_remarks(case, [*pause[:1], *name[:1]]), _BY_NUMBER)


def _seconds(text: str) -> float:
    found = _SECONDS.search(text)
    return float(found[1]) if found else 0.0


def _by_trial(case: Case) -> Found | None:
    tried = experiment_on(case, Topic.CLIENT)
    if tried is None or not is_clear(tried):
        return None
    other = Remedy(Knob.CLIENT.to(None, "that client"))
    return found_by_trial(case, tried, "with another client the same server", other)


def _by_words(case: Case) -> Found | Suspected | None:
    """A server that is fast by itself decides; a client that was updated is only a coincidence in time."""
    fast, client = remarks_on(case, Topic.SERVER_FAST), remarks_on(case, Topic.CLIENT)
    if fast:
        return _found(f"the server by itself is fast: {fast[0].text}", cite_remarks(case, fast), "another client")
    extra = remarks_on(case, Topic.EXTRA_REQUESTS)
    if extra:
        words = f"the client sends requests of its own: {extra[0].text}"
        return _found(words, cite_remarks(case, extra[:1]), "switch off its title and suggestion requests")
    mixed = [c for c in case.account.comparisons.value_or(()) if Topic.CLIENT in c.differs]
    hint = next((told.text for told in (*client, *mixed)), None)
    return None if hint is None else Suspected(hint, "the server's own speed", OWN_SPEED)


def _found(
    because: str, evidence: Citations, what: str, speedup: float | None = None, lost_s: float | None = None
) -> Found:
    lost = None if lost_s is None else Cost(seconds=lost_s, per="request")
    return Found(because, evidence, remedies=(Remedy(Knob.CLIENT.to(None, what)),), speedup=speedup, lost=lost)


CAUSE = Cause(
    title="The client loses the time",
    phase="client",
    needs=(
        ("run.routes", "run.client_decode_tokens_per_s", "run.completions", "account.remarks", "account.comparisons"),
    ),
    check=check_by(_by_routes, _by_holding_back, _by_speeds, _by_delay, _by_name, _by_trial, _by_words),
    ask=CURL,
)
