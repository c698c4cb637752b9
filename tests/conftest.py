"""Lets every test import the stand-ins of `doubles`, the firing cases of causes, and the recorded rows of `lab`."""

import signal
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "think" / "causes"), str(HERE.parent)]

settings.register_profile("unslow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unslow")  # a busy machine is slow, and no test is wrong for that

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as it is wherever the tests run in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
