"""Lines of requests: the access log, and complaints."""

import re

from unslow.look.logs.go_values import DURATION, seconds
from unslow.look.logs.ollama.slog import Line
from unslow.look.logs.ollama.state import Reading, Rule

_ACCESS = re.compile(rf'\| +(\d{{3}}) +\| +({DURATION}) +\|[^|]{{0,80}}\| +(?:POST) +"(/[^"\s]{{1,80}})"')
_ANSWERS = ("/api/generate", "/api/chat", "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses")
_OK = "200"
_WRITTEN = re.compile(r"\[GIN\] (\d{4}/\d\d/\d\d) - (\d\d:\d\d:\d\d)")
_NO_PROMPT_S = 0.01
"""Ollama 0.33 answers a request without a prompt (`ollama stop`, or a preload of what is loaded) in 0.3 to 0.7 ms; one
with a prompt waits for a step of the model, behind another HTTP server."""
_OTHER_MATTERS = ("model_show_cache", "model_recommendations", "model_list_cache", "cloud_proxy")
_REMARKABLE = (
    "evicting",
    "disabling mmap",
    "disabling multimodal projector",
    "truncating input",
    "VRAM usage didn't recover",
    "user overrode visible devices",
)


def _access(reading: Reading, line: Line) -> bool:
    """How long a whole request took, the load and the waiting before it among it."""
    reading.is_ollama(line)
    found = _ACCESS.search(line.text)
    if not found or found[1] != _OK or found[3] not in _ANSWERS:
        return False
    took = seconds(found[2])
    if took is None:
        return True
    reading.requests.append(took)
    reading.requests_where = line.where
    reading.load.stopped = took < _NO_PROMPT_S
    if not reading.load.stopped:
        reading.load.requests += 1
        written = _WRITTEN.search(line.text)
        reading.load.used_until = f"{written[1]} {written[2]}" if written else ""
    return True


def _complaint(reading: Reading, line: Line) -> bool:
    """What it complains of; caches of its web site's list of models are nobody's trouble."""
    if line.fields.get("source", "").startswith(_OTHER_MATTERS):
        return False
    reading.warn(line)
    return True


RULES = (
    Rule("[GIN]", _access),
    Rule("level=WARN", _complaint),
    Rule("level=ERROR", _complaint),
    *(Rule(phrase, _complaint) for phrase in _REMARKABLE),
)
