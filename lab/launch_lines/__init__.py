"""Which settings of a real llama-server are known, from what, and whether they are true.

Ten launch lines, a router, and the engine that comes with unslow. Each line is started as it stands and read as
`unslow` reads it; then once more with `-lv 4`, when the server's own log tells what it decided.
"""

from lab.launch_lines.lines import LINES
from lab.launch_lines.look import look_at
from lab.launch_lines.servers import prepared
from lab.launch_lines.truth import compared

__all__ = ["LINES", "compared", "look_at", "prepared"]
