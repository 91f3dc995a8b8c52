"""From a model's reply to code that pauses: parse, analyse, lower. Standard library only."""
