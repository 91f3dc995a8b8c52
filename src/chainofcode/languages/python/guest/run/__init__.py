"""The program's own run: its names, its world, its pauses, its steps."""
