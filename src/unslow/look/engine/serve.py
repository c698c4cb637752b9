"""The engine's own process: llama.cpp's server on loopback, for as long as the one who started it keeps its input open.

    python -m unslow.look.engine.serve --model FILE [--context N] [--threads N] [--threads-batch N] [--batch N]
                                       [--ubatch N] [--slots N] [--port N]

It prints its address once the model is loaded; all else, llama.cpp's log above all, goes to the error output.
"""

import argparse
import os
import signal
import stat
import sys
from collections.abc import Sequence
from typing import Any

LOOPBACK = "127.0.0.1"
VERBOSITY = 4  # from here on llama.cpp tells what it allocates and where

_WISHES: dict[str, Any] = {  # which of these there are changes from version to version
    "hostnames": [LOOPBACK],  # also llama.cpp's default
    "ui": False,
    "cors_origins": "",  # no web page may talk to it
    "cache_ram_mib": 0,  # old prompts kept in memory would be measured too
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Load, serve, and end when the input ends."""
    parser = argparse.ArgumentParser(prog="unslow-engine", description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--threads", type=int, help="default: llama.cpp's choice")
    parser.add_argument("--threads-batch", type=int, help="for prefill; default: same as for decode")
    for name in ("--batch", "--ubatch", "--slots"):
        parser.add_argument(name, type=int)
    parser.add_argument("--port", type=int, default=0, help="0: the system chooses a free one")
    options = parser.parse_args(arguments)
    # The output, for the address alone: native code that prints there reaches the error output from now on
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who then ends this process
    # Have the kernel end this process when the other end of the input closes, even in the middle of a load: that holds
    # the interpreter's lock, so no Python thread could notice. Elsewhere than on Linux, the end comes after the load.
    if sys.platform == "linux" and stat.S_ISFIFO(os.fstat(0).st_mode):
        import fcntl  # noqa: PLC0415 (not on Windows)

        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    server = _server(options)
    if not server.listening_address.startswith(f"http://{LOOPBACK}:"):
        sys.exit(f"refusing to serve on {server.listening_address}: it is not loopback")
    print(server.listening_address, file=answer, flush=True)
    sys.stdin.buffer.read()
    os._exit(0)  # the server has no way to stop; its threads would hold up an ordinary exit


def _server(options: argparse.Namespace) -> Any:
    import xllamacpp  # noqa: PLC0415 (an extra, and its native code must print to where the output leads by now)

    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.n_ctx = options.context
    params.port = options.port
    params.verbosity = VERBOSITY
    params.endpoint_metrics = params.endpoint_slots = True
    if options.threads:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    if options.threads_batch:
        params.cpuparams_batch.n_threads = options.threads_batch
    for name, value in (("n_batch", options.batch), ("n_ubatch", options.ubatch), ("n_parallel", options.slots)):
        if value:
            setattr(params, name, value)
    for name, value in _WISHES.items():
        if hasattr(params, name):
            setattr(params, name, value)
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
