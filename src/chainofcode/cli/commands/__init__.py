"""One module per command of `coc`, named after it."""
