"""`python -m chainofcode` is `coc`."""

from .cli import script

script()
