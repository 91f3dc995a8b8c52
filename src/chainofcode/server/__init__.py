"""Serving: what others may ask of us, over a network or through another program's pipes."""
