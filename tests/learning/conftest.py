"""Small tasks for the learning room."""

import numpy as np
import pytest

from learning.small import hidden, hidden_params


@pytest.fixture
def network():
    """A network of one hidden layer for the tasks of `drifting`."""
    return hidden, hidden_params()


@pytest.fixture
def drifting():
    """Four small tasks with three classes whose boundaries turn slowly."""
    rng = np.random.default_rng(0)
    directions, turn = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    tasks = []
    for t in range(4):
        x = rng.normal(size=(64, 4)).astype(np.float32)
        tasks.append((x, np.argmax(x @ (directions + 0.4 * t * turn), axis=1)))
    return tasks
