"""Training and evaluation: data, steps, the loop over epochs, checkpoints, callbacks."""
