"""The server and its speed as they are now, from what is watched of it."""

from unslow.app.watching.missing import missing_of
from unslow.app.watching.watched import Watched
from unslow.think.judge import subject_name
from unslow.think.view.live import ServerNow, SpeedNow

SILENT_S = 1.5
"""A server that has not answered for so long is said to be silent; the screen goes on meanwhile."""
GONE = "the server went away; looking for it"


def server_now(watched: Watched, now_s: float) -> ServerNow:
    """Which server it is, and whether it answers."""
    runtime, model = subject_name(watched.case)
    state, because = watched.state, watched.error.why if watched.error and watched.state != "answers" else ""
    since = watched.asking_since
    if since is not None and now_s - since > SILENT_S:
        state, because = "silent", f"it has not answered for {now_s - since:.0f} s; it may be reading a long prompt"
    if watched.is_lost:
        state, because = "gone", GONE
    facts = watched.subject.runtime
    return ServerNow(
        runtime=runtime, model=model, url=facts.url.value_or(""), pid=facts.pid.value_or(None), state=state,
        because=because,
    )  # fmt: skip


def speed_now(watched: Watched) -> SpeedNow:
    """The speed, what it should be, and what is not told."""
    rates, judged = watched.rates, watched.judgement
    missing = missing_of(watched.subject, watched.work, watched.error) if watched.state == "answers" else None
    return SpeedNow(
        tokens_per_s=rates.tokens_per_s,
        each_tokens_per_s=rates.each_tokens_per_s,
        prompt_tokens_per_s=rates.prompt_tokens_per_s,
        last_tokens_per_s=watched.last_logged,
        expected=judged.expected if judged else None,
        ceiling=judged.ceiling if judged else None,
        source=watched.work.source if watched.work else "",
        missing=missing,
    )
