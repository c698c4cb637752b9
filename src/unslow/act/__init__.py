"""The only code that changes something: says what first, keeps what was, and can take it back."""
