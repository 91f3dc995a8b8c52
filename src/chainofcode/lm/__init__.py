"""Asking language models. Knows nothing of programs."""

from .interface import LM, Around, Completion, Message, Usage, as_lm, turns
from .providers import connect

__all__ = ["LM", "Around", "Completion", "Message", "Usage", "as_lm", "connect", "turns"]
