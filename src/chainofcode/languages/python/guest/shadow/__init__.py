"""A speculative run ahead of the program, which finds the calls that it will make."""
