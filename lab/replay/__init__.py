"""A server that answers as a runtime would, from recorded answers: for tests, and for demonstrations by hand.

`python -m lab.replay ollama --port 11434 --tokens-per-s 12` serves one until it is interrupted; in a test,
`with serve("ollama") as url:` serves one for as long as it is needed. Nothing is computed or loaded, and nothing
kept but the names of models that clients derive from others.
"""

from lab.replay.behaviour import Behaviour
from lab.replay.hostile import MODES
from lab.replay.server import serve

__all__ = ["MODES", "Behaviour", "serve"]
