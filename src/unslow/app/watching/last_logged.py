"""The speed of the last request by the server's log, for one that shows nothing else."""

from unslow.facts.snapshot import Subject
from unslow.facts.values import Known
from unslow.look.logs.llama_cpp import parse_log
from unslow.look.system import LookError, System

TAIL_BYTES = 64 * 1024
"""Room for some hundred requests; only the last one is asked about."""


def read_last_logged(system: System, subject: Subject) -> float | None:
    """Tokens per second of the last answer that the log tells of; None where it tells of none."""
    path = subject.runtime.log_path
    if not isinstance(path, Known) or not subject.runtime.name.value_or("").endswith("llama.cpp"):
        return None
    try:
        text = system.read_tail(path.value, TAIL_BYTES).decode("utf-8", "replace")
    except LookError:
        return None
    done = parse_log(text.split("\n")[1:], path.value).completions.value_or(())
    last = done[-1] if done else None
    return last.generated_tokens / last.decode_s if last and last.decode_s > 0 else None
