"""Languages that a program can be written in; each brings a compiler and a guest."""
