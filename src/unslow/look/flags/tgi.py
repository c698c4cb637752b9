"""Command lines of text-generation-inference, as people paste them."""

import re
from functools import partial

from unslow.look.flags import Commands
from unslow.look.serving.engine import parse_command
from unslow.look.serving.tgi_flags import FLAGS, PROGRAM, SHARED, told

COMMANDS = Commands(
    program=re.compile(
        r"\btext-generation-(?:launcher|server)\b|ghcr\.io/huggingface/text-generation-inference\S{0,60}"
    ),
    flags=FLAGS.spellings() - SHARED,
    variables=("MAX_TOTAL_TOKENS", "MAX_BATCH_", "MAX_INPUT_", "CUDA_GRAPHS", "PREFIX_CACHING"),
    parse=partial(parse_command, PROGRAM, FLAGS, told),
)
