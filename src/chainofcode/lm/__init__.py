"""Clients for language models. Nothing here depends on programs."""

from .interface import LM, Around, Completion, Image, Message, Token, Usage, as_lm, turns
from .providers import connect

__all__ = ["LM", "Around", "Completion", "Image", "Message", "Token", "Usage", "as_lm", "connect", "turns"]
