"""What a report is about beside sizes: arithmetic decides only where its author tells of nothing else that changed."""

from unslow.facts.account import Metric, Topic
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown
from unslow.think.adapt.account import remarks_on
from unslow.think.adapt.experiments import is_report, names_phase
from unslow.think.adapt.runtime_family import runs_ggml
from unslow.think.adapt.versions import NEWEST, build_number

FITS_ITSELF_SINCE = 7407
"""The build of llama.cpp from which it places by itself as many layers as fit (December 2025)."""
_PLACE_THEMSELVES = ("ollama", "lm studio", "jan", "gpt4all", "vllm", "sglang", "localai")
_OTHER_PHASES: tuple[Metric, ...] = ("prefill", "first_token", "load")
_OTHER_STORIES = (Topic.COPIES_TO_GPU, Topic.RELOADS, Topic.QUEUED, Topic.PROMPT_AGAIN, Topic.THROTTLED)


def tells_only_of_slowness(case: Case) -> bool:
    """Whether nothing but slow generation is told: no version that was faster, no trial, no other phase."""
    account = case.account
    tried = any(comparison.differs for comparison in account.comparisons.value_or(()))
    if tried or isinstance(account.version_since, Known) or names_phase(case, *_OTHER_PHASES):
        return False
    return not remarks_on(case, *_OTHER_STORIES)


def lost_since_a_version(case: Case) -> bool:
    """Whether the author says that another version or driver was well."""
    if isinstance(case.account.version_since, Known) or isinstance(case.account.version_before, Known):
        return True
    if remarks_on(case, Topic.GOING_BACK_HELPS):
        return True
    topics = {topic for comparison in case.account.comparisons.value_or(()) for topic in comparison.differs}
    return bool(topics & {Topic.VERSION, Topic.DRIVER})


def places_layers_itself(case: Case) -> bool | None:
    """Whether the runtime chooses how many layers go to the GPU; None where its name or its age is not known."""
    name = case.runtime.name.value_or("").lower()
    if not name or isinstance(case.runtime.fit, Known):
        return case.runtime.fit.value_or(None)
    if any(each in name for each in _PLACE_THEMSELVES):
        return True
    if not runs_ggml(case):
        return None
    build = build_number(case.runtime.version.value_or(""))
    return None if build == NEWEST else build >= FITS_ITSELF_SINCE


def settings_unread(case: Case) -> bool:
    """Whether layers may have been set by hand on a server of llama.cpp that nobody could read the command line of."""
    runtime = case.runtime
    unread = isinstance(runtime.command, Unknown) and isinstance(runtime.gpu_layers_set, Unknown)
    return unread and not is_report(case) and runtime.name.value_or("") == "llama.cpp"
