"""What `unslow bench` does with a measured benchmark: write it, hold it against another, say how it ended."""

from typing import NamedTuple

from unslow.app.bench.against import against
from unslow.app.bench.history import Compared, compare_with, export, forget, import_file, listed
from unslow.app.bench.request import Request
from unslow.app.bench.run import Outcome, bench
from unslow.app.progress import Progress
from unslow.facts.bench import Bench
from unslow.facts.errors import UserError
from unslow.think.bench.changes import changed, suspect
from unslow.think.bench.parts import Parts

__all__ = ["Request", "Result", "benchmark", "forget", "import_file", "listed"]
FINE, FOUND, COULD_NOT_RUN, CANNOT_TELL, INTERRUPTED = 0, 1, 2, 3, 130


class Result(NamedTuple):
    """A benchmark, and whatever else was asked about it."""

    bench: Bench
    parts: Parts | None = None
    compared: Compared | None = None

    @property
    def status(self) -> int:
        """The exit status: 1 where it is slower or a condition does not hold, 3 where that can't be told."""
        if self.bench.interrupted:
            return INTERRUPTED  # whatever a gate asked for was not measured whole
        if not self.bench.figures and not self.bench.sweeps:
            return COULD_NOT_RUN
        holds = [one.holds for one in self.bench.requirements]
        verdict = self.compared.verdict if self.compared else "same"
        if False in holds or verdict == "slower":
            return FOUND
        return CANNOT_TELL if None in holds or verdict == "cannot_tell" else FINE


def benchmark(
    request: Request, progress: Progress, *, output: str | None = None, llama_bench: str | None = None
) -> Result:
    """Measure, write to the files that are named, compare."""
    result = _in_turns(request, progress) if request.against else _measured(request, progress)
    for path, form in ((output, "unslow"), (llama_bench, "llama-bench")):
        if path:
            export(result.bench, path, form)  # type: ignore[arg-type]
            progress.say(f"wrote {path}")
    return result


def _measured(request: Request, progress: Progress) -> Result:
    done: Outcome = bench(request, progress)
    compared = _compared(done.bench, request.compare, progress) if request.compare else None
    return Result(done.bench, done.parts, compared)


def _compared(done: Bench, word: str, progress: Progress) -> Compared | None:
    """The comparison; a benchmark that can't be compared is a benchmark all the same."""
    try:
        return compare_with(done, word)
    except UserError as error:
        progress.say(f"not compared: {error.message}")
        return None


def _in_turns(request: Request, progress: Progress) -> Result:
    both = against(request, request.against or "", progress)
    changes = changed(both.before, both.after)
    found = Compared(
        before=both.before, comparison=both.comparison, changes=changes, suspect=suspect(both.comparison, changes)
    )
    return Result(both.after, None, found)
