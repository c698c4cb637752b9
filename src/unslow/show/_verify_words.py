"""The words of a verified change, the same in a terminal and in Markdown."""

from collections.abc import Iterator

from unslow.facts.bench import DECODE, PREFILL
from unslow.facts.verified import REQUEST, Work
from unslow.show._units import rate, span
from unslow.think.verify.report import AnswersShown, FigureShown, IntervalShown, PredictedShown, VerifyReport, WorkShown

NAMES = {REQUEST: "Whole request", DECODE: "Decode", PREFILL: "Prefill"}
WORDS = {"slower": "slower", "faster": "faster", "same": "the same", "cannot_tell": "can't tell"}
WAYS = {
    "in_turns": "both asked in turns",
    "one_after_the_other": "each started for every round, one after the other",
    "apart": "measured at different times",
}
_KEPT = {"kept": "answers as before", "changed": "the answers changed", "cannot_tell": "answers: can't be told"}
_ENDLESS = 1e6


def work_words(work: Work | WorkShown) -> str:
    """The request that both were asked."""
    kept = f" after {work.kept_tokens:,} that the cache has" if work.kept_tokens else ""
    return f"{work.prompt_tokens:,} tokens to read{kept}, {work.answer_tokens:,} to answer"


def time_words(report: VerifyReport) -> str:
    """How much was measured in which time."""
    rounds = max((figure.rounds for figure in report.figures), default=0)
    sides = (report.before, report.after) if report.way != "apart" else (report.after,)
    starts = [seconds for side in sides for seconds in side.starts_s]
    many = "1 round" if rounds == 1 else f"{rounds} rounds"
    started = "1 start" if len(starts) == 1 else f"{len(starts)} starts"
    of_starts = f", of which {started} took {span(sum(starts))}" if starts else ""
    return f"{many} in {span(report.took_s or 0.0)}{of_starts}"


def amount(metric: str, value: float) -> str:
    """A figure in its unit."""
    return span(value) if metric == REQUEST else f"{rate(value)} tok/s"


def speedup(figure: FigureShown) -> str:
    """How much faster, with its interval."""
    return f"×{figure.speedup.mid:.3f}"


def interval(shown: IntervalShown) -> str:
    """Both ends of a ratio; one round has none."""
    return f"{shown.low:.3f} to {shown.high:.3f}" if shown.high < _ENDLESS else "-"


def answer_lines(answers: AnswersShown) -> Iterator[str]:
    """Whether it still answers as before, and what that rests on."""
    yield f"{_KEPT[answers.verdict]}: {answers.because}"
    if answers.perplexity:
        seen = answers.perplexity
        yield f"at {seen.places} places of a given text both would choose the same token at {seen.same_choice:.0%}"
    if answers.together is not None and answers.begin_alike is not None:
        usual = "" if answers.together_before is None else f" ({answers.together_before:.0%} where it is asked twice)"
        begin = f"{answers.begin_alike:.0%} of {answers.questions} answers begin alike"
        yield f"{begin}; they stay together for {answers.together:.0%} of their words{usual}"


def predicted_words(predicted: PredictedShown) -> str:
    """What the plan had said."""
    said = predicted.decode_tokens_per_s
    decode = f"; decode {rate(said.mid)} tok/s, {rate(said.low)} to {rate(said.high)} likely" if said else ""
    return f"{predicted.option}: {predicted.because}{decode}"
