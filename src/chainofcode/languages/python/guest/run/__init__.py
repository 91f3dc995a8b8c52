"""The program's run: its builtins, its clock and random numbers, its pauses and its steps."""
