"""The same door over a recording, and the recorder that makes one.

A recording is a folder with `recording.jsonl`: one answer of the world a line, in the order in which it was given. A
question asked twice is answered twice; after the last answer that one stays. The clock answers with the first reading
that came after the last answer, so that a version which looks at it more often than the one that recorded still sees
each thing take the time it took. An answer that is as it was before is written as that, and a stream is packed.
"""

from unslow.look.system.recorded.kept import without_prompts
from unslow.look.system.recorded.recorder import UNRECORDED, Recorder
from unslow.look.system.recorded.recording import INDEX, is_recording
from unslow.look.system.recorded.replayed import RecordedSystem

__all__ = ["INDEX", "UNRECORDED", "RecordedSystem", "Recorder", "is_recording", "without_prompts"]
