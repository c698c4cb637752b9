"""MLX-LM's server, on port 8080 as llama-server: Apple's GPUs, or NVIDIA's since MLX has CUDA.

It tells next to nothing over HTTP: that it lives, and which models have been downloaded. Its settings are on its
command line; it loads whichever model a request names. Its log tells how far a prompt has been read; speeds are printed
by `mlx_lm.generate` alone. Since January 2026 `--decode-concurrency` says how many requests it answers at once.
"""

from unslow.look.runtimes.mlx_lm.commands import commands_for
from unslow.look.runtimes.mlx_lm.read import NAME, find, read, read_url

__all__ = ["NAME", "PORTS", "RANK", "commands_for", "find", "read", "read_url"]

PORTS = (8080,)
RANK = 8  # by what it does not say
