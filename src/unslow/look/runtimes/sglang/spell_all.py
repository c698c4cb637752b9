"""Many changes at once as one whole command line of SGLang, where it belongs."""

from collections.abc import Sequence

from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.placed import Place, labelled
from unslow.facts.runtime import Runtime
from unslow.facts.spelled import Spelled
from unslow.look.at_hand import NOTHING, AtHand
from unslow.look.runtimes.sglang.knobs import TURNS
from unslow.look.serving.restart import without_flags
from unslow.look.serving.sglang_flags import FLAGS
from unslow.look.serving.turns import PLACE, Turn, nothing
from unslow.look.supervised import started

_NO_SETTING = "SGLang has no setting for it"
_NO_NUMBER = "it needs a number, which is not known"
_NO_MODEL = "put `--model-path MODEL` into the line: which model it is, is not known"


def _switched_off(value: Setting) -> list[str]:
    return ["--disable-cuda-graph"] if value is False else []


def _share(value: Setting) -> list[str]:
    return ["--mem-fraction-static", f"{value:g}" if isinstance(value, float) else PLACE]


_MORE = {
    Knob.GRAPHS: Turn(("no_graphs",), _switched_off),
    Knob.MEMORY_SHARE: Turn(("memory_fraction",), _share),
    Knob.SPECULATIVE: Turn(("speculative", "draft_model", "draft_tokens"), nothing),
}
"""What a plan asks for and a single fix does not."""
_ONLY_AWAY = (Knob.GPU_LAYERS, Knob.SPECULATIVE)
"""Knobs that can only be taken out."""


def spell_all(changes: Sequence[Change], runtime: Runtime, at_hand: AtHand = NOTHING) -> Spelled:
    """One command line with all changes, and the way to start it by whoever starts it now."""
    turned: list[tuple[Turn, list[str]]] = []
    left: list[tuple[Change, str]] = []
    for change in {change.knob: change for change in changes}.values():
        turn = {**TURNS, **_MORE}.get(change.knob)
        words = turn.words(change.value) if turn else []
        why = _why_not(change, turn, words)
        if turn is None or why:
            left.append((change, why))
        else:
            turned.append((turn, words))
    return _whole(turned, tuple(left), runtime, at_hand)


def _why_not(change: Change, turn: Turn | None, words: Sequence[str]) -> str:
    away = change.knob in _ONLY_AWAY and change.value not in (None, -1, "none")
    if turn is None or away:
        return _NO_SETTING
    return _NO_NUMBER if PLACE in words else ""


def _whole(
    turned: Sequence[tuple[Turn, list[str]]], left: tuple[tuple[Change, str], ...], runtime: Runtime, at_hand: AtHand
) -> Spelled:
    if not turned:
        return Spelled(left_out=left)
    names = [name for turn, _ in turned for name in turn.settings]
    model = at_hand.checkpoint
    bare = [at_hand.program or "python3", "-m", "sglang.launch_server", *(["--model-path", model] if model else [])]
    command = runtime.command.value_or([]) or bare
    argv = [*without_flags(FLAGS, command, names), *(word for _, words in turned for word in words)]
    there = runtime.environment.value_or({})
    away: dict[str, str | None] = dict.fromkeys(v for n in names for v in FLAGS.flags[n].variables if v in there)
    lines = started(FLAGS.without_secrets(argv), away, runtime.container.value_or(""), at_hand.unit)
    if command is bare and not model:
        return Spelled((labelled(Place.HAND, _NO_MODEL), *lines), left, (), away)
    return Spelled(lines, left, tuple(argv), away)
