"""Command lines of SGLang, as people paste them."""

import re
from functools import partial

from unslow.look.flags import Commands
from unslow.look.serving.engine import parse_command
from unslow.look.serving.sglang_flags import FLAGS, PROGRAM, SHARED, told

COMMANDS = Commands(
    program=re.compile(r"\bsglang(?:\.launch_server| serve)\b|\blmsysorg/sglang(?::[\w.-]{1,60})?"),
    flags=FLAGS.spellings() - SHARED,
    variables=("SGLANG_", "SGL_"),
    parse=partial(parse_command, PROGRAM, FLAGS, told),
)
