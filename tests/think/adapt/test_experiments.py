"""What words may prove: trials in which one thing differs, and whose complaint it is."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "causes"))
