"""Command lines of vLLM, as people paste them."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, reported
from unslow.look.flags import Commands
from unslow.look.serving.model_folder import model_of_name
from unslow.look.serving.vllm_flags import FLAGS, PROGRAM, SHARED, model_of, told

_SOURCE = "command line"
_OWN = FLAGS.spellings() - SHARED
_MAYBE = frozenset({"--quantization", "--kv-cache-dtype", "--cpu-offload-gb", "--attention-backend"})
"""Flags of serving engines: in a sentence they mean something, but not which engine it is."""


def parse(command: Sequence[str], environment: Mapping[str, str]) -> Subject:
    """What the command asks for. The pattern may begin at the model, which stands before the flags."""
    words = list(command)
    program = words[0] if words else ""
    if program and not re.match(r"vllm\b", program):
        words = ["vllm", "serve", *words]
    settings = FLAGS.settings(words, environment)
    own = any(word.partition("=")[0].replace("_", "-") in _OWN for word in words)
    named = bool(program) or own or any(name.startswith("VLLM_") for name in environment)
    runtime = msgspec.structs.replace(
        told(settings, complete=False),
        name=reported(PROGRAM, _SOURCE) if named else NOT_LOOKED,
        command=reported(FLAGS.without_secrets(words), _SOURCE),
    )
    return Subject(runtime=runtime, model=model_of_name(model_of(words, settings), _SOURCE))


COMMANDS = Commands(
    program=re.compile(
        r"(?<=\bvllm serve )[^\s-]\S{0,300}(?=\s+-)|\bvllm (?:serve|bench)\b(?=\s+-)"
        r"|\bvllm\.entrypoints\.[\w.]{1,60}|\bvllm/vllm-openai(?::[\w.-]{1,60})?"
    ),
    flags=_OWN | _MAYBE,
    variables=("VLLM_",),
    parse=parse,
)
