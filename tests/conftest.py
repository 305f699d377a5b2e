"""What all tests share: shape checks on every annotated function, and settings for hypothesis."""

import os

import jax
import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

# Every jaxtyping annotation in the package is checked while the tests run; users never pay for it.
_hook = install_import_hook("backcast", "beartype.beartype")
_hook.__enter__()

settings.register_profile(
    "backcast",
    deadline=None,  # the first example compiles
    derandomize=True,
    max_examples=15,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", settings.get_profile("backcast"), max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "backcast"))


@pytest.fixture(autouse=True)
def _float64(request):
    """Tests marked `float64` run with 64-bit numbers; all others as users do, with 32."""
    with jax.enable_x64(request.node.get_closest_marker("float64") is not None):
        yield


@pytest.fixture(scope="module")
def quick_compiles():
    """Less optimisation while compiling, for tests that compile much and compute little."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def compilations():
    """A function that tells how often XLA has compiled since the test began."""
    seen = []

    def listen(event: str, _seconds: float, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield lambda: len(seen)
    jax.monitoring.unregister_event_duration_listener(listen)
