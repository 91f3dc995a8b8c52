"""Where an answer comes from: the statements, inputs and model values that it depends on."""
