"""The server is fast; the time is lost between it and the client.

## Why it is slow
A client may wait for a name to resolve (`localhost` is tried over IPv6 first, on Windows two seconds for each
connection to a server that listens on IPv4 only), redraw everything for each token, collect the stream before it shows
it, send background requests, or sit behind a proxy that buffers.

## How to confirm
The server's own timings are good (llama.cpp `predicted_per_second`, Ollama `eval rate`, vLLM
`time_to_first_token_seconds`), the client's are not; or the same request with `curl` is fast; or the shortest request
to `127.0.0.1` is answered at once and the one to `localhost` is not. If even the shortest request to the address, for
which nothing is computed, takes a second, something in between holds it up.

## What it is not
A server that is slow by its own timings: there the client has to wait. Nor a queue in the server, or a long prompt that
is still in prefill.

## How to fix
On any runtime: use `127.0.0.1` instead of `localhost` (or let the server listen on both: llama.cpp `--host ::`,
`OLLAMA_HOST=[::]`, vLLM `--host ::`), keep the connection open, update or replace the client, switch off its title and
suggestion requests, let proxies pass streams (nginx `proxy_buffering off`).

## Safety
Answers do not change. A server that listens on `::` can be reached from other machines: protect it with a firewall or
an API key.
"""

import re
import statistics

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.think.case.group import missing
from unslow.think.case.narrative import is_clear, times_as_fast
from unslow.think.case.speed import OWN_SPEED, SLOWEST
from unslow.think.case.view import CaseView
from unslow.think.case.waits import NOTICED_S, is_held_back
from unslow.think.causes._cause import Absent, Cause, Found, Route, Suspected, all_of, finding
from unslow.think.report import Cost

LOST = 0.7  # Of the server's speed: a client that shows less loses the rest itself
NEARLY_ALL = 0.87  # Of the server's speed: one that shows less, and loses a noticeable time, does too
AT_WORK = 0.8  # Of the time: a GPU that is busy for so long does not wait for a client
DELAY_S = 1.0  # Before the first token, beyond the server's own time: people notice a second
NAME_DELAY_S = 0.15  # A name may take longer than an address: looking it up in a file takes a thousandth of that
_ADDRESSES = ("127.0.0.1", "::1")
BY_ADDRESS = Knob.CLIENT.to(None, "127.0.0.1 instead of localhost")
DIRECT = Knob.CLIENT.to(None, "the server's own address, or a proxy that passes requests and responses on at once")
CURL = "{short_request}"
_COMPARES = re.compile(r"(?i)\d ?m?s\b|second|slow|fast|delay|instant|instead|fix|solv|quick|wait|hang|lag|refused")
_SECONDS = re.compile(r"(?<![\w.:])(\d{1,4}(?:\.\d{1,3})?) ?s(?:ec(?:ond)?s?)?\b")


def shortest_request(case: CaseView) -> Found | None:
    """The shortest request, for which nothing is computed: to `localhost`, and to its address."""
    took = {route.host: route.seconds for route in case.run.routes.get() or () if route.seconds is not None}
    name, number = took.get("localhost"), min((s for host, s in took.items() if host in _ADDRESSES), default=None)
    if name is not None and number is not None and name - number >= NAME_DELAY_S:
        words = f"`localhost` answers after {name:.2f} s, its address after {number:.3f} s"
        because, fix, lost_s = f"{words}: every connection by name waits", BY_ADDRESS, name - number
    elif number is not None and number >= DELAY_S:
        words = f"the shortest request, for which nothing is computed, takes {number:.1f} s"
        because, fix = f"{words}: something between client and server holds it up", DIRECT
        lost_s = max(number, case.waits.unaccounted_delay_s)
    else:
        return None
    shown_by, lost = case.cite("run.routes", words=words), Cost(seconds=lost_s, per="request")
    return finding(case, because, shown_by, fixes=[fix], lost=lost)


def stream_pauses(case: CaseView) -> Found | None:
    """Responses that arrive whole after the server has finished them, or in bursts: something buffers the stream."""
    late, runs = case.waits.held_back_s, case.waits.completions
    if not late:
        return None
    if all(is_held_back(c) for c in runs):
        started = statistics.median(c.prefill_s for c in runs)
        words = f"decode starts after {started:.1f} s, and nothing arrives until it ends, {late:.1f} s later"
    else:
        whole = statistics.median(c.client_total_s or c.decode_s for c in runs)
        words = f"the answer arrives in bursts: nothing for {late:.1f} of {whole:.1f} s, then many tokens at once"
    proxy = "a proxy that passes streams on at once (nginx `proxy_buffering off`), or the server's own address"
    return finding(
        case,
        words,
        case.cite("run.completions", f"{late:.1f} s in which nothing arrived while the server generated"),
        fixes=[Knob.CLIENT.to(None, proxy)],
        lost=Cost(seconds=case.waits.held_up_s, per="request"),
    )


def client_speed_alone(case: CaseView) -> Absent | None:
    """Where the server tells no times: whether it was busy all the time, or the client is as fast as it should be."""
    if not case.waits.completions or case.waits.server_timed:
        return None
    client = case.run.client_decode_tokens_per_s.get()
    seen = f"the client sees {client:.3g} tok/s" if client else "the client waits for every token"
    busy = [gpu.busy.value_or(0.0) - gpu.others_busy.value_or(0.0) for _, gpu in case.telemetry.gpu_samples]
    if busy and min(busy) >= AT_WORK:
        return Absent(f"{seen} while the GPU is busy {min(busy):.0%} of the time: it waits for the server")
    return Absent(f"{seen}, as fast as is expected of the server") if case.speed.shortfall == 1 else None


def client_and_server_speed(case: CaseView) -> Found | Absent | None:
    """Tokens per second as the client sees them, against the server's own figure."""
    if case.waits.completions and not case.waits.server_timed:
        raise missing("the server's own speed: no answer came with its times", f"{OWN_SPEED}, beside {CURL}")
    client = case.ask_for("run.client_decode_tokens_per_s", f"{CURL}, beside {OWN_SPEED}")
    server = max(SLOWEST, case.ask_for("run.decode_tokens_per_s", OWN_SPEED))
    # Seconds of an answer as long as the measured ones
    tokens = [c.generated_tokens for c in case.waits.completions if c.generated_tokens]
    lost_s = statistics.median(tokens) * (1 / max(client, SLOWEST) - 1 / server) if tokens else 0.0
    noticed = client < NEARLY_ALL * server and lost_s >= NOTICED_S
    if client >= LOST * server and not noticed:
        if case.waits.unaccounted_delay_s >= DELAY_S:
            return None
        case.need("run.completions")  # the only ones to show a wait before the first token
        return Absent(f"the client sees {client:.3g} of {server:.3g} tok/s")
    return finding(
        case,
        f"the server generates {server:.3g} tok/s, and the client shows {client:.3g}",
        case.cite("run.client_decode_tokens_per_s", f"{server:.3g} by the server"),
        fixes=[Knob.CLIENT.to(None, "a client, or a proxy, that passes tokens on at once")],
        speedup=server / max(client, SLOWEST),
        lost=Cost(seconds=lost_s, per="request") if lost_s > 0 else None,
    )


def delay_of_requests(case: CaseView) -> Found | None:
    """Time before every first token that the server does not account for."""
    delay = case.waits.unaccounted_delay_s
    if delay < DELAY_S:
        return None
    return finding(
        case,
        f"every request waits {delay:.1f} s before it reaches the server",
        case.cite("run.completions", f"{delay:.1f} s beyond the server's own time"),
        fixes=[Knob.CLIENT.to(None, f"{BY_ADDRESS.why}, and one connection for all requests")],
        lost=Cost(seconds=delay, per="request"),
    )


def said_of_localhost(case: CaseView) -> Found | None:
    """The report compares `localhost` with 127.0.0.1, or mentions a constant delay before requests to it."""
    said = case.narrative.remarks_on(Topic.LOCALHOST_URL)
    name, number = ([r for r in said if host in r.text.lower()] for host in ("localhost", "127.0.0.1"))
    both = [r for r in name if r in number and _COMPARES.search(r.text)]
    slow, fast = (
        next(((float(s[1]), r) for r in remarks if (s := _SECONDS.search(r.text))), None) for remarks in (name, number)
    )
    pause, url = case.narrative.remarks_on(Topic.CONSTANT_DELAY), case.runtime.process.url.get()
    if both:
        told, words = both, both[0].text
    elif slow and fast and slow[0] >= 2 * fast[0]:
        told, words = [slow[1], fast[1]], f"{slow[1].text}, and {fast[1].text}"
    elif pause and (name or (url and "localhost" in url)):
        told, words = [*pause[:1], *name[:1]], pause[0].text
    else:
        return None
    because = f"`localhost` is tried over IPv6 first: {words}"
    return finding(case, because, case.narrative.cite_remarks(told), fixes=[BY_ADDRESS])


def tried_by_person(case: CaseView) -> Found | None:
    """Another client of the same server was clearly faster."""
    trial = case.narrative.experiment_on(Topic.CLIENT)
    if trial is None or not is_clear(trial):
        return None
    words = f"with another client the same server is {times_as_fast(trial)}"
    return finding(case, words, fixes=[Knob.CLIENT.to(None, "that client")], trial=trial)


def said_by_person(case: CaseView) -> Found | Suspected | None:
    """The report says that the server alone is fast, or that the client sends requests of its own."""
    fast, extra = case.narrative.remarks_on(Topic.SERVER_FAST), case.narrative.remarks_on(Topic.EXTRA_REQUESTS)
    if fast:
        words, fix = f"the server alone is fast: {fast[0].text}", Knob.CLIENT.to(None, "another client")
        return finding(case, words, case.narrative.cite_remarks(fast), fixes=[fix])
    if extra:
        words = f"the client sends requests of its own: {extra[0].text}"
        fix = Knob.CLIENT.to(None, "switch off its title and suggestion requests")
        return finding(case, words, extra[0], fixes=[fix])
    # A client that was updated is only a coincidence in time
    hints = [r.text for r in case.narrative.remarks_on(Topic.CLIENT)]
    hints += [c.text for c in case.account.comparisons.get() or () if Topic.CLIENT in c.differs]
    return Suspected(hints[0], "the server's own speed", OWN_SPEED) if hints else None


CAUSE = Cause(
    title="The client loses the time",
    phase="client",
    needs=all_of(
        "run.routes or run.client_decode_tokens_per_s or run.completions or account.remarks or account.comparisons"
    ),
    routes=(
        Route("measured", shortest_request),
        Route("measured", stream_pauses),
        Route("measured", client_speed_alone),
        Route("measured", client_and_server_speed),
        Route("measured", delay_of_requests),
        Route("told", said_of_localhost),
        Route("told", tried_by_person),
        Route("told", said_by_person),
    ),
    ask=CURL,
)
