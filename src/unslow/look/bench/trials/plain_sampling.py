"""The same request as the server is set up, and with the likeliest token taken without any sampler.

They are asked in turns, A B B A as far as there is time, so that what changed meanwhile favours neither, and the faster
of each two counts.
"""

from unslow.facts.bounded import bounded
from unslow.facts.run import Run, Tried
from unslow.facts.values import measured
from unslow.look.bench.completions import Progress
from unslow.look.bench.guest import Plan, Target
from unslow.look.bench.trials._asker import Asker, rate_of
from unslow.look.system import LookError, System, unknown

WITHOUT, COLD = "the likeliest token taken, without any sampler", "the likeliest token taken, at temperature 0"
_CAN_GO_WITHOUT = ("llama.cpp", "Ollama")
_IN_TURNS = (False, True, True, False)
"""Whether it is asked without samplers."""
_MOST_TOKENS = 256


def perform(system: System, target: Target, plan: Plan, progress: Progress) -> Run:
    """Both speeds."""
    try:
        tried = _tried(Asker(system, target, plan), progress)
    except LookError as error:
        return Run(plain_sampling=unknown(error))
    return bounded(Run(plain_sampling=measured(tried, f"answers of both kinds in turns, {target.url}")))


def _tried(asker: Asker, progress: Progress) -> Tried:
    progress("asking a short question, to see how many tokens there is time for", 0.0)
    asker.warm_up()
    tokens = asker.tokens_in(min(asker.plan.seconds_per_completion, asker.plan.seconds / 5), _MOST_TOKENS)
    asker.check_answers(2, tokens)
    speeds: dict[bool, list[float]] = {False: [], True: []}
    for number, greedy in enumerate(_IN_TURNS):
        if speeds[greedy] and not asker.has_time(asker.spent_s / number):
            break
        how = "without samplers" if greedy else "as the server is set up"
        progress(f"generating {tokens} tokens {how}", (number + 1) / (len(_IN_TURNS) + 1))
        speeds[greedy].append(rate_of(asker.ask(asker.prompts.prompt(), tokens, greedy=greedy)))
    changed = WITHOUT if asker.target.runtime.endswith(_CAN_GO_WITHOUT) else COLD
    return Tried(changed=changed, as_set_tokens_per_s=max(speeds[False]), changed_tokens_per_s=max(speeds[True]))
