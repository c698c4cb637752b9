"""Answer as a runtime would, until interrupted.

python -m lab.replay lm_studio --port 1234
python -m lab.replay ollama --port 11434 --tokens-per-s 12 --latency 0.3
python -m lab.replay vllm --api-key secret-of-mine
python -m lab.replay koboldcpp --fail huge
"""

import argparse
import sys
from pathlib import Path

from lab.replay.answers import runtimes
from lab.replay.behaviour import FAILURES, Behaviour
from lab.replay.server import started


def main() -> int:
    """Serve; 2 where there is nothing to serve from."""
    arguments = _parser().parse_args()
    behaviour = Behaviour(
        latency_s=arguments.latency,
        tokens_per_s=arguments.tokens_per_s,
        prompt_tokens_per_s=arguments.prompt_tokens_per_s,
        api_key=arguments.api_key,
        fail=arguments.fail,
    )
    try:
        server = started(arguments.runtime, arguments.folder, behaviour, arguments.port)
    except (ValueError, OSError) as error:
        print(f"cannot replay {arguments.runtime}: {error}", file=sys.stderr)
        return 2
    key = " --api-key KEY" if arguments.api_key else ""
    print(f"{arguments.runtime} is replayed at {server.url}", f"try: unslow diagnose {server.url}{key}", sep="\n")
    sys.stdout.flush()
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            server.stopping.set()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab.replay", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runtime", help=f"a folder of recorded answers: {', '.join(runtimes())}")
    parser.add_argument("--port", type=int, default=0, help="where to listen on 127.0.0.1; any free port without it")
    parser.add_argument("--folder", type=Path, help="other recorded answers, or one moment of several: a file")
    parser.add_argument("--latency", type=float, default=0.0, metavar="S", help="seconds before every answer")
    parser.add_argument("--tokens-per-s", type=float, metavar="N", help="make up answers at this pace")
    parser.add_argument("--prompt-tokens-per-s", type=float, default=2000.0, metavar="N")
    parser.add_argument("--api-key", default="", help="let in only those who send it")
    failures = "; ".join(f"{name}: {meaning}" for name, meaning in FAILURES.items())
    parser.add_argument("--fail", default="", metavar="HOW", choices=["", *FAILURES], help=failures)
    return parser


if __name__ == "__main__":
    sys.exit(main())
