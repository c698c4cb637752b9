"""The mix of types in which llama.cpp would have a model that is known by name only."""

from unslow.app.fit.chosen_scheme import OTHER_HOMES
from unslow.app.fit.names import Meant, overruled
from unslow.catalog.mixes import Mix, estimated_mix, find_mix
from unslow.catalog.quants import file_types
from unslow.catalog.scheme_words import find_scheme
from unslow.facts.errors import UserError

DEFAULT_QUANT = "Q4_K_M"


def chosen_mix(meant: Meant, asked: str | None) -> tuple[Mix, tuple[str, ...]]:
    """The mix that is asked for, that the name carries, that the publisher ships, or the usual one; and a note."""
    if asked:
        mix = mix_named(asked)
        return mix, overruled(meant, asked, mix.name, _mix_name(meant.quant))
    if meant.quant:
        return mix_named(meant.quant), ()
    shipped = _mix_name(meant.model.published)
    if shipped:
        return find_mix(shipped), (f"no quant was named: assuming {shipped}, as its publisher ships it",)
    return find_mix(DEFAULT_QUANT), (f"no quant was named: assuming {DEFAULT_QUANT}",)


def _mix_name(word: str) -> str:
    try:
        return find_mix(word).name if word else ""
    except UserError:
        return ""


def mix_named(word: str) -> Mix:
    """The mix, or the nearest one to a publisher's own; a format of other runtimes is refused with their names."""
    if estimate := estimated_mix(word):
        return estimate.mix
    try:
        return find_mix(word)
    except UserError as error:
        if _is_for_others(word):
            home = next((home for name, home in OTHER_HOMES.items() if word.upper().startswith(name)), "--runtime vllm")
            other = f"for that there is {home}; "
            hint = f"{other}for llama.cpp name a mix: --quant {DEFAULT_QUANT}"
            raise UserError(f"llama.cpp does not load {word.upper()}, a format of safetensors", hint) from error
        raise


def _is_for_others(word: str) -> bool:
    try:
        find_scheme(word)
    except UserError:
        return False
    return word.upper() not in {file_type.name for file_type, _ in file_types().values()}
