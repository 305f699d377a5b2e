"""What a network is to Backcast: its parameters, its outputs, its losses and their curvature."""
