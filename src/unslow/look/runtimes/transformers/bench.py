"""Calls of `generate` in one's own program, timed: the first step reads the prompt, each later one makes a token.

Kernels run behind Python's back, but `generate` looks at every token before it starts the next step, so the moment at
which the second step begins is the moment at which the prompt was done.
"""

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from unslow.facts.run import Completion

MOST_CALLS = 1000
_NAME = "generate"


class Call(NamedTuple):
    """One call: sequences in a batch, and the tokens and times of each of them."""

    sequences: int
    completion: Completion
    use_cache: bool | None = None
    """Whether the caller asked to keep keys and values; None where that is left to the model's settings."""


class _Prompt(NamedTuple):
    sequences: int = 1
    tokens: int = 0
    given_back: bool = True
    """Whether the answer begins with it: a decoder repeats tokens, but no embeddings and no encoder's input."""
    use_cache: bool | None = None


class Timer:
    """Wraps a model's `generate`; the model is left as it was found."""

    def __init__(
        self,
        model: Any,
        clock: Callable[[], float] = time.perf_counter,
        waited: Callable[[], float | None] = lambda: None,
    ) -> None:
        """`waited` tells how long this process's threads have waited for a processor so far."""
        self.model, self._clock, self._waited = model, clock, waited
        self.calls: list[Call] = []
        self._steps: list[float] = []
        self._own: dict[str, Any] = {}

    def start(self) -> None:
        """Put the wrapper in the model's place of `generate`."""
        self._own = {name: value for name, value in vars(self.model).items() if name == _NAME}
        self.model.generate = self.wrap(self.model.generate)

    def stop(self) -> None:
        """Take it away again: what the model had of its own comes back, else the class's method shows through."""
        vars(self.model).pop(_NAME, None)
        vars(self.model).update(self._own)

    def wrap(self, generate: Callable[..., Any]) -> Callable[..., Any]:
        """`generate`, timed; its answer and its errors pass through."""

        @functools.wraps(generate)
        def generate_timed(*args: Any, **kwargs: Any) -> Any:
            self._steps = []
            hook = self.model.register_forward_pre_hook(lambda *_: self._steps.append(self._clock()))
            begin, before = self._clock(), self._waited()
            try:
                answer = generate(*args, **kwargs)
            finally:
                hook.remove()
            end, after = self._clock(), self._waited()
            waited = None if before is None or after is None else max(0.0, after - before)
            self._note((begin, end), waited, _prompt(args, kwargs, self.model), answer)
            return answer

        return generate_timed

    def _note(self, span: tuple[float, float], waited: float | None, prompt: _Prompt, answer: Any) -> None:
        begin, end = span
        shape = _shape(getattr(answer, "sequences", answer))
        made = shape[1] - (prompt.tokens if prompt.given_back else 0) if len(shape) > 1 else 0
        if made < 1 or len(self.calls) >= MOST_CALLS:
            return
        prompt_done = end if self._steps else begin  # compiled models skip hooks: nothing tells prompt and answer apart
        if len(self._steps) > 1:
            prompt_done = self._steps[1]
        completion = Completion(
            prompt_tokens=prompt.tokens,
            generated_tokens=made,
            prefill_s=max(0.0, prompt_done - begin),
            decode_s=max(0.0, end - prompt_done),
            client_total_s=end - begin,
            waited_s=waited,
        )
        self.calls.append(Call(prompt.sequences, completion, prompt.use_cache))


def _prompt(args: tuple[Any, ...], kwargs: dict[str, Any], model: Any) -> _Prompt:
    ids = next((kwargs[name] for name in ("input_ids", "inputs") if kwargs.get(name) is not None), None)
    ids = ids if ids is not None else args[0] if args else None
    shape = _shape(ids if ids is not None else kwargs.get("inputs_embeds"))
    asked = kwargs.get("use_cache")
    use_cache = asked if isinstance(asked, bool) else None
    if len(shape) < 2:  # noqa: PLR2004 (sequences of tokens)
        return _Prompt(use_cache=use_cache)
    encoded = bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))
    return _Prompt(shape[0], shape[1], given_back=ids is not None and not encoded, use_cache=use_cache)


def _shape(tensor: Any) -> list[int]:
    return [int(length) for length in getattr(tensor, "shape", ())]
