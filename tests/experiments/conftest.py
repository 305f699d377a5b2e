import pytest

from backcast.experiments import run
from experiments.small import small


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The small spec, run undisturbed; to be read only."""
    return run(small(), tmp_path_factory.mktemp("finished"), progress=False)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory, worker_id):
    """A folder where processes find what others have compiled, those of other workers too."""
    own = tmp_path_factory.getbasetemp()
    return (own if worker_id == "master" else own.parent) / "compiled"
