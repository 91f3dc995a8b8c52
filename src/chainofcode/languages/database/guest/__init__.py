"""The code that runs inside the guest."""
