"""What a subject and its machine tell only together."""

import msgspec

from unslow.facts.machine import Machine
from unslow.facts.snapshot import Snapshot, Subject
from unslow.look.contradictions import added, contradictions
from unslow.look.llama_server.threads import with_default_threads


def with_machine(subject: Subject, machine: Machine) -> Subject:
    """The subject with its default threads, and with what the devices say against its own account."""
    runtime = subject.runtime
    if runtime.name.value_or("").endswith("llama.cpp"):
        runtime = with_default_threads(runtime, machine)
    found = added(subject.contradictions, contradictions([("seen", runtime)], subject.model, machine))
    return msgspec.structs.replace(subject, runtime=runtime, contradictions=found)


def all_with_machine(snapshot: Snapshot) -> Snapshot:
    """The same for every subject of a snapshot."""
    subjects = tuple(with_machine(subject, snapshot.machine) for subject in snapshot.subjects)
    return msgspec.structs.replace(snapshot, subjects=subjects)
