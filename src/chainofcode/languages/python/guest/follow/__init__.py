"""Provenance: which statement set and read which value, recorded while the program runs."""
