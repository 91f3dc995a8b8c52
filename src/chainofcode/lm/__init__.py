"""Asking language models. Knows nothing of programs."""

from .interface import LM, Around, Completion, Image, Message, Token, Usage, as_lm, turns
from .providers import connect

__all__ = ["LM", "Around", "Completion", "Image", "Message", "Token", "Usage", "as_lm", "connect", "turns"]
