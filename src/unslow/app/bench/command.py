"""What `unslow bench` does with a measured benchmark: write it, hold it against another, say how it ended."""

from typing import NamedTuple

from unslow.app.bench.against import against
from unslow.app.bench.history import Compared, Form, check_meant, compare_with, export, forget, import_file, listed
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
    not_compared: str = ""
    """Why it was not held against another, though that was asked for."""
    unwritten: UserError | None = None
    """What went wrong with a file that was asked for."""

    @property
    def status(self) -> int:
        """The exit status: 1 where it is slower or a condition does not hold, 3 where that can't be told."""
        if self.bench.interrupted:
            return INTERRUPTED  # whatever a gate asked for was not measured whole
        if self.unwritten or not (self.bench.figures or self.bench.sweeps):
            return COULD_NOT_RUN
        holds = [one.holds for one in self.bench.requirements]
        verdict = self.compared.verdict if self.compared else "cannot_tell" if self.not_compared else "same"
        if False in holds or verdict == "slower":
            return FOUND
        return CANNOT_TELL if None in holds or verdict == "cannot_tell" else FINE


def benchmark(
    request: Request, progress: Progress, *, output: str | None = None, llama_bench: str | None = None
) -> Result:
    """Measure, compare, write to the files that are named; one that can't be written does not cost the result."""
    result = _in_turns(request, progress) if request.against else _measured(request, progress)
    files: tuple[tuple[str | None, Form], ...] = ((output, "unslow"), (llama_bench, "llama-bench"))
    for path, form in files:
        try:
            if path:
                export(result.bench, path, form)
                progress.say(f"wrote {path}")
        except UserError as error:
            result = result._replace(unwritten=error)
    return result


def _measured(request: Request, progress: Progress) -> Result:
    if request.compare:
        check_meant(request.compare)
    done: Outcome = bench(request, progress)
    result = Result(done.bench, done.parts)
    return _compared(result, request.compare, progress) if request.compare else result


def _compared(result: Result, word: str, progress: Progress) -> Result:
    """With the comparison; a benchmark that can't be compared is a benchmark all the same."""
    try:
        return result._replace(compared=compare_with(result.bench, word))
    except UserError as error:
        progress.say(f"not compared: {error.message}")
        return result._replace(not_compared=error.message)


def _in_turns(request: Request, progress: Progress) -> Result:
    both = against(request, request.against or "", progress)
    changes = changed(both.before, both.after)
    found = Compared(
        before=both.before, comparison=both.comparison, changes=changes, suspect=suspect(both.comparison, changes)
    )
    return Result(both.after, None, found)
