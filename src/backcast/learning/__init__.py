"""The loop: train on a task, absorb it, keep what smoothing needs. Knows all rooms above it."""
