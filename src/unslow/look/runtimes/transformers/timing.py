"""Times calls of `generate` from within: the first step reads the prompt, each later one makes a token.

Kernels run behind Python's back, but `generate` looks at every token before it starts the next step, so the moment at
which the second step begins is the moment at which the prompt was done.
"""

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from unslow.facts.run import Completion

MOST_CALLS = 1000


class Call(NamedTuple):
    """One call: sequences in a batch, and the tokens and times of each of them."""

    sequences: int
    completion: Completion


class Timer:
    """Wraps a model's `generate`; the model is left as it was found."""

    def __init__(
        self,
        model: Any,
        clock: Callable[[], float] = time.perf_counter,
        waited: Callable[[], float | None] = lambda: None,
    ) -> None:
        """`waited` tells how long this process's threads have waited for a processor so far."""
        self.model = model
        self.calls: list[Call] = []
        self._clock = clock
        self._waited = waited
        self._steps: list[float] = []

    def start(self) -> None:
        """Put the wrapper in the model's place of `generate`."""
        self.model.generate = self.wrapped(self.model.generate)

    def stop(self) -> None:
        """Take it away again: the class's own method shows through."""
        self.model.__dict__.pop("generate", None)

    def wrapped(self, generate: Callable[..., Any]) -> Callable[..., Any]:
        """`generate`, timed; its answer and its errors pass through."""

        @functools.wraps(generate)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._steps = []
            hook = self.model.register_forward_pre_hook(self._step)
            begin, before = self._clock(), self._waited()
            try:
                answer = generate(*args, **kwargs)
            finally:
                hook.remove()
            end, after = self._clock(), self._waited()
            waited = None if before is None or after is None else max(0.0, after - before)
            self._note((begin, end), waited, _prompt(args, kwargs), answer)
            return answer

        return timed

    def _step(self, _module: Any, _inputs: Any) -> None:
        self._steps.append(self._clock())

    def _note(self, span: tuple[float, float], waited: float | None, prompt: tuple[int, int], answer: Any) -> None:
        (begin, end), (sequences, read) = span, prompt
        made = _made(answer, read)
        if made < 1 or len(self.calls) >= MOST_CALLS:
            return
        # compiled models skip hooks: then the prompt can't be told from the answer
        prompt_done = self._steps[1] if len(self._steps) > 1 else begin
        completion = Completion(
            prompt_tokens=read,
            generated_tokens=made,
            prefill_s=max(0.0, prompt_done - begin),
            decode_s=max(0.0, end - prompt_done),
            client_total_s=end - begin,
            waited_s=waited,
        )
        self.calls.append(Call(sequences, completion))


def _prompt(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, int]:
    """Sequences and tokens of the prompt; one and none where it has another form."""
    given = next((kwargs[k] for k in ("input_ids", "inputs", "inputs_embeds") if kwargs.get(k) is not None), None)
    shape = _shape(given if given is not None else (args[0] if args else None))
    return (shape[0], shape[1]) if len(shape) > 1 else (1, 0)


def _made(answer: Any, read: int) -> int:
    """New tokens of each sequence: a decoder gives the prompt back in front of them."""
    shape = _shape(getattr(answer, "sequences", answer))
    return shape[1] - read if len(shape) > 1 else 0


def _shape(tensor: Any) -> list[int]:
    return [int(length) for length in getattr(tensor, "shape", ())]
