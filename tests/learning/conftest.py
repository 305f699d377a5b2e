"""Small tasks for the learning room."""

import pytest

from learning.small import hidden, hidden_params, turning


@pytest.fixture
def network():
    """A network of one hidden layer for the tasks of `drifting`."""
    return hidden, hidden_params()


@pytest.fixture
def drifting():
    """Four small tasks with three classes whose boundaries turn slowly."""
    return turning(4)
