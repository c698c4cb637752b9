"""Take a GPU's memory away from a server in the middle of its work, and hold it until ended.

Waits until the llama-server at --url (started with --metrics) has had a context of --at-tokens, then a process of its
own allocates --hold-gib. Where the server's memory is managed (GGML_CUDA_ENABLE_UNIFIED_MEMORY=1), the driver moves it
to system memory to make room, and the server goes on, slowly: a cliff that no setting of the server shows.

    python -m lab.take_vram --url http://127.0.0.1:8080 --at-tokens 8192 --hold-gib 136
"""

import argparse
import re
import signal
import sys
import time
import urllib.request

from lab.faults.fault import SkippedError
from lab.faults.strangers import Kind, stranger

SMALLER_GIB = 2.0
_DEEPEST = re.compile(rb"^llamacpp:n_tokens_max (\d+)", re.MULTILINE)


def main() -> int:
    """Wait, take, hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--at-tokens", type=int, default=0, help="0 takes it at once")
    parser.add_argument("--hold-gib", type=float, required=True)
    parser.add_argument("--least-gib", type=float, default=1.0, help="where that much is not to be had, it tries less")
    parser.add_argument("--kind", choices=("hold", "leave"), default="hold", help="leave: all but so much")
    parser.add_argument("--seconds", type=float, default=600.0)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the holder ends with this process
    end = time.monotonic() + args.seconds
    while args.at_tokens and deepest(args.url) < args.at_tokens:
        if time.monotonic() > end:
            print("the server never got so deep", flush=True)
            return 1
        time.sleep(0.2)
    return hold(args.kind, args.hold_gib, args.least_gib, end)


def deepest(url: str) -> int:
    """The longest context that the server has had; 0 where it does not answer."""
    try:
        with urllib.request.urlopen(f"{url}/metrics", timeout=5) as answer:
            found = _DEEPEST.search(answer.read())
    except OSError:
        return 0
    return int(found[1]) if found else 0


def hold(kind: Kind, gib: float, least_gib: float, end: float) -> int:
    """Take as much of it as there is, and keep it; 1 where even the least is not to be had."""
    while gib >= least_gib:
        try:
            with stranger(kind, gib, works=False):
                print(f"{kind} {gib:.1f} GiB from now on, {time.strftime('%H:%M:%S')}", flush=True)
                time.sleep(max(0.0, end - time.monotonic()))
                return 0
        except SkippedError as error:
            print(f"{gib:.1f} GiB: {error}", flush=True)
            gib -= SMALLER_GIB
    return 1


if __name__ == "__main__":
    sys.exit(main())
