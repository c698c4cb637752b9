"""Lets every test import the stand-ins of `doubles`."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "think" / "causes")]
