"""The guest of JavaScript: two engines, one that compiles programs and one that runs them."""
