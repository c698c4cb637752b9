"""What users see, kept: every command's text, JSON and HTML, computed in process and compared with what is stored.

`python -m tests.golden` shows what differs, `python -m tests.golden update` stores what is printed now.
Sentences of single functions are kept by the fixture `wording`, and stored by `pytest --store-wording tests/...`.
"""
