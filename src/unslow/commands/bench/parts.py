"""Splits the time of a token on a running server: asks the same question in three ways, in turn, and compares.

As the server is set up; without its samplers; and sent whole in the end. None of them changes the server.
"""

import statistics

from unslow.commands.bench.bencher import Bencher, BenchWish
from unslow.commands.bench.sweeps import Limits
from unslow.facts.bench import BenchRow, Pass
from unslow.facts.errors import UserError
from unslow.facts.model import Model
from unslow.look.bench.llama_bench import parse_llama_bench
from unslow.look.system import LookError, System, read_text
from unslow.think.stats.figures import FEWEST_TOKENS, client_decode_rate, decode_rate
from unslow.think.stats.parts import Parts, Round, Timing, checked_by_idle, generates, parts_of, step_at

LARGEST_FILE_BYTES = 4 * 1024**2
LIMITS = Limits(tokens=128, repeats=9, seconds=60.0)
"""Nine rounds: their interval leaves out the outermost on each side, so that one disturbance does not widen it."""
FEWEST_ROUNDS, WARM_UP_TOKENS = 3, 16
_ALIKE = 0.05  # llama-bench counts the tensors of a model; what else counts may add the header and the vocabulary
_HINT = "run `llama-bench -m MODEL -p 0 -n 128 -o json > FILE` on the same machine"
_USUAL = BenchWish("parts: usual", WARM_UP_TOKENS, round=0)  # no repeat of the protocol, so its figures leave it out
WAYS = (_USUAL, _USUAL._replace(case="parts: greedy", greedy=True), _USUAL._replace(case="parts: silent", stream=False))


def split_parts(bencher: Bencher, llama_bench: str | None = None, limits: Limits = LIMITS) -> Parts | None:
    """The parts of a token on this server, with llama-bench's own figure where a file of its output is named.

    It comes after a benchmark that must not be lost, so what is wrong is said: with the file, and then the step stays
    unknown; or with the server, and then there are no parts.
    """
    tests = _tests(bencher, llama_bench) if llama_bench else ()
    if bencher.subject.runtime.sampling.speculative.value_or(""):
        bencher.progress.say("tokens are drafted: acceptance differs without samplers, which is counted as sampling")
    rounds, depth = measure_rounds(bencher, limits)
    step = step_at(tests, depth)
    if tests and step is None:
        near = round(depth)
        bencher.progress.say(
            f"{llama_bench}: no test near a depth of {near} tokens; run llama-bench with `-n 128 -d {near}` too"
        )
    parts = parts_of(rounds, step)
    if parts is None:
        why = bencher.failures[-1].why if bencher.failures else "no response was long enough"
        bencher.progress.say(f"the time per token could not be split: {why}")
        return None
    return checked_by_idle(parts, bencher.sampler.telemetry() if bencher.sampler else None)


def _tests(bencher: Bencher, path: str) -> tuple[BenchRow, ...]:
    """The tests of llama-bench; none where the file is not what it should be, which is said."""
    subject = bencher.subject
    try:
        tests = read_tests(bencher.system, path, subject.model)
    except UserError as error:
        bencher.progress.say(f"{error.message}; {error.hint}")
        return ()
    runtime = subject.runtime
    pairs = {
        "threads": (tests[0].n_threads, runtime.compute.threads.value_or(0)),
        "-ctk": (tests[0].type_k, runtime.cache.type_k.value_or("")),
        "-ctv": (tests[0].type_v, runtime.cache.type_v.value_or("")),
    }
    for name, (theirs, ours) in pairs.items():
        if theirs and ours and theirs != ours:  # the step is then not the server's own
            bencher.progress.say(f"{path}: llama-bench ran with {name} {theirs}, the server with {ours}")
    return tests


def read_tests(system: System, path: str, model: Model) -> tuple[BenchRow, ...]:
    """Those in which it generates and nothing else; UserError where there is none, or all are of another model."""
    try:
        text = read_text(system, path, LARGEST_FILE_BYTES)
    except LookError as error:
        raise UserError(f"cannot read {path}: {error.why}", _HINT) from error
    rows = tuple(row for row in parse_llama_bench(text, path) if generates(row))
    if not rows:
        raise UserError(f"{path} has no llama-bench test that generates tokens", _HINT)
    here = model.weights_bytes.value_or(0)  # a size that is not known says nothing
    same = tuple(
        row for row in rows if row.model_size <= 0 or here <= 0 or 1 - _ALIKE <= row.model_size / here <= 1 + _ALIKE
    )
    if not same:
        raise UserError(f"{path} is about another model: {rows[0].model_type or rows[0].model_filename}", _HINT)
    return same


def measure_rounds(bencher: Bencher, limits: Limits = LIMITS) -> tuple[tuple[Round, ...], float]:
    """Rounds of every way, until there are enough or the time is over; Ctrl-C keeps those that are whole.

    With them comes the context that their tokens found on average.
    """
    rounds: list[Round] = []
    depths: list[float] = []
    end = bencher.system.clock() + limits.seconds
    try:
        # As many tokens for each answer as the time is enough for, by a warm-up
        warm = bencher.ask(_USUAL)
        rate = decode_rate(warm) if isinstance(warm, Pass) else None
        share = limits.seconds / (limits.repeats * len(WAYS))
        tokens = max(WARM_UP_TOKENS, min(limits.tokens, int(rate * share))) if rate else WARM_UP_TOKENS
        for number in range(limits.repeats):
            bencher.progress.step(
                f"splitting the time per token, {number + 1} of {limits.repeats}", number / limits.repeats
            )
            # The first of a round is never the same twice in a row, so that drift favours none
            turned = WAYS[number % len(WAYS) :] + WAYS[: number % len(WAYS)]
            answers = {way.case: bencher.ask(way._replace(tokens=tokens)) for way in turned}
            passes = {case: one for case, one in answers.items() if isinstance(one, Pass)}
            told = {case: one for case, one in passes.items() if one.generated_tokens >= FEWEST_TOKENS}
            if usual := told.get(_USUAL.case):
                rounds.append(round_of(told))
                depths.append(usual.prompt_tokens + usual.cached_tokens + usual.generated_tokens / 2 - 1)
            if number + 1 >= FEWEST_ROUNDS and bencher.system.clock() > end:
                break
    except KeyboardInterrupt:
        bencher.interrupted = True
    return tuple(rounds), (statistics.fmean(depths) if depths else 0.0)


def round_of(answers: dict[str, Pass]) -> Round:
    """Seconds per token of answers by their case; the client can time single tokens only where they come one by one."""
    timings = []
    for way in WAYS:
        done = answers.get(way.case)
        client = client_decode_rate(done) if done and way.stream else None
        server = decode_rate(done) if done and done.server_decode_s is not None else None
        timings.append(Timing(*(1 / rate if rate else None for rate in (client, server))))
    return Round(*timings)
