"""What listening to a stream costs the client, and how far its clock is from the server's: one row for each request.

python -m lab.client_cost http://127.0.0.1:8080 --tokens 256 --requests 5
"""

import argparse
import sys
import time

from unslow.look.bench.prompts import Prompts
from unslow.look.bench.timing import ask
from unslow.look.requests import AskError, Question, Target
from unslow.look.system.live import LiveSystem


def main() -> int:
    """Ask, and print; 1 where a request failed."""
    arguments = _parser().parse_args()
    system, target = LiveSystem((arguments.host,)), Target(arguments.url, runtime=arguments.runtime)
    prompts = Prompts(system, target)
    print("tokens  pieces  client CPU per token  decode by server  by client  difference")
    for _ in range(arguments.requests):
        question = Question(prompts.prompt(0), arguments.tokens)
        before = time.thread_time()
        try:
            reply = ask(system, target, question)
        except AskError as error:
            print(f"{error.kind}: {error.why}", file=sys.stderr)
            return 1
        cost = (time.thread_time() - before) / reply.generated_tokens
        steps, waited = reply.generated_tokens - 1, reply.arrivals_s[-1] - reply.arrivals_s[0]
        server = f"{steps / reply.server_decode_s:12.2f}/s" if reply.server_decode_s else "     unknown"
        apart = f"{waited / reply.server_decode_s - 1:+10.2%}" if reply.server_decode_s else ""
        row = f"{reply.generated_tokens:6}  {len(reply.arrivals_s):6}  {cost * 1e6:17.1f} us"
        print(f"{row}  {server:>16}  {steps / waited:7.2f}/s  {apart}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab.client_cost", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--host", default="127.0.0.1", help="the host of the URL, where it is not this machine")
    parser.add_argument("--runtime", default="llama.cpp")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--requests", type=int, default=5)
    return parser


if __name__ == "__main__":
    sys.exit(main())
