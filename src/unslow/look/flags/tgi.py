"""Command lines of text-generation-inference, as people paste them."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from unslow.facts.snapshot import Subject
from unslow.facts.values import reported
from unslow.look.flags import Commands
from unslow.look.serving.model_folder import model_of_name
from unslow.look.serving.tgi_flags import FLAGS, PROGRAM, SHARED, told

_SOURCE = "command line"


def parse(command: Sequence[str], environment: Mapping[str, str]) -> Subject:
    """What the command asks for."""
    settings = FLAGS.settings(command, environment)
    runtime = msgspec.structs.replace(
        told(settings, complete=False),
        name=reported(PROGRAM, _SOURCE),
        command=reported(FLAGS.without_secrets(command), _SOURCE),
    )
    model = settings["model"].value if "model" in settings else ""
    return Subject(runtime=runtime, model=model_of_name(model, _SOURCE))


COMMANDS = Commands(
    program=re.compile(
        r"\btext-generation-(?:launcher|server)\b|ghcr\.io/huggingface/text-generation-inference\S{0,60}"
    ),
    flags=FLAGS.spellings() - SHARED,
    variables=("MAX_TOTAL_TOKENS", "MAX_BATCH_", "MAX_INPUT_", "CUDA_GRAPHS", "PREFIX_CACHING"),
    parse=parse,
)
