import pytest

from backcast.experiments import run
from experiments.small import small


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The small spec, run undisturbed; to be read only."""
    return run(small(), tmp_path_factory.mktemp("finished"), progress=False)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """A folder where processes find what others have compiled."""
    return tmp_path_factory.mktemp("compiled")
