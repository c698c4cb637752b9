"""What a plan for something that runs ends with where its model can't be told: no wrong question, but no answer."""

from unslow.facts.errors import UserError


class UnreadModelError(UserError):
    """The model of what runs can't be told, which is nobody's fault."""
