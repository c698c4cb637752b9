"""Whether the request fits into the context of a server, said before anything is started or asked."""

from unslow.app.bench.server import Place, subject_of
from unslow.app.verify.party import Party
from unslow.facts.errors import UserError
from unslow.facts.verified import Work
from unslow.look.command_line import UNSET
from unslow.look.launch.command import Command
from unslow.look.launch.settings import program_of
from unslow.look.llama_server.arguments import parse_settings
from unslow.look.models.gguf import model_facts, read_gguf
from unslow.look.system import LookError, System

_OVERRIDES = "--override-kv"
"""With it, a file may be said to be trained for more than it says itself."""


def check_room(party: Party, place: Place, work: Work) -> None:
    """UserError where the context is known and the request is longer."""
    room = context_of_command(place.system, party.command) if party.command else _context_of_running(party, place)
    need = work.kept_tokens + work.prompt_tokens + work.answer_tokens
    if room is None or need <= room:
        return
    kept = f"{work.kept_tokens:,} tokens kept, " if work.kept_tokens else ""
    asked = f"{kept}a prompt of {work.prompt_tokens:,} and an answer of {work.answer_tokens:,} tokens"
    hint = "ask for less with --prompt, --kept and --answer, or give it a larger context"
    raise UserError(f"{asked} do not fit: {party.what} has a context of {room:,}", hint)


def context_of_command(system: System, command: Command) -> int | None:
    """The most that one request may have by the command line, or by the model; None where neither tells."""
    program, at = program_of(command.words)
    own = command.words[at:]
    if program.name == "llama.cpp":
        return _of_llama(system, own, command)
    name = program.spelled["context"][0] if "context" in program.spelled else ""
    values = [own[end - 1].rpartition("=")[2] for flag, _, end in program.places(own) if flag == name]
    return _count(values[-1]) if values else None


def _of_llama(system: System, own: tuple[str, ...], command: Command) -> int | None:
    """llama-server cuts a slot's context to what the model was trained for (`n_ctx_slot` in server-context.cpp)."""
    told = parse_settings(own, command.variables)
    given, path = (told.get(name, UNSET).value for name in ("context", "model"))
    trained = None if any(word.startswith(_OVERRIDES) for word in own) else _trained(system, path)
    known = [count for count in (_count(given), trained) if count]
    return min(known, default=None)


def _trained(system: System, path: str) -> int | None:
    if not path:
        return None
    try:
        return model_facts(read_gguf(system, path)).context_trained.value_or(None)
    except LookError:  # whoever starts it says it better
        return None


def _context_of_running(party: Party, place: Place) -> int | None:
    subject = subject_of(place.snapshot, party.model)
    if subject is None:
        return None
    runtime = subject.runtime
    return runtime.context_per_slot.value_or(runtime.context_length.value_or(None))


def _count(word: str) -> int | None:
    """A number of tokens; None of a word that is none, and of 0, which stands for the model's own."""
    return int(word) or None if word.isdecimal() and len(word) <= 12 else None  # noqa: PLR2004 (digits of any context)
