"""The runs of a sweep on the workers of a dask scheduler."""

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from backcast.experiments import machine
from backcast.experiments.attempt import Outcome, Place, attempt
from backcast.experiments.errors import SpecError
from backcast.experiments.spec import Spec

_PATIENCE = 20  # seconds to wait for the scheduler and for a first worker


def attempted(specs: Sequence[Spec], place: Place, scheduler: str) -> Iterator[Outcome]:
    """Each spec attempted by a worker; when one is lost, its run goes to another."""
    try:
        from distributed import Client, as_completed
        from distributed.scheduler import KilledWorker
    except ImportError as error:
        raise SpecError(
            "Sweeps on a cluster need dask: pip install 'backcast[app,dask]', here and on the "
            "workers."
        ) from error
    with _connected(Client, scheduler) as client:
        mates = _workers_by_host(client, scheduler)
        visit = uuid.uuid4().hex[:8]  # a run may be attempted again by a later round
        futures = {
            client.submit(
                attempt_here, spec.plain(), place, mates, key=f"{spec.folder}-{visit}", pure=False
            ): spec
            for spec in specs
        }
        for future in as_completed(list(futures), loop=client.loop):
            try:
                yield future.result()
            except KilledWorker as error:
                yield Outcome(futures[future].folder, "failed", str(error))


def attempt_here(plain: dict[str, Any], place: Place, mates: Mapping[str, int]) -> Outcome:
    """Run a spec on this worker, with its share of the host's processors.

    Args:
        plain: the spec as plain data.
        place: where runs and data are.
        mates: how many workers there are on each host.
    """
    from distributed import get_worker

    here = mates.get(_host(get_worker().address), 1)
    return attempt(plain, place, max(1, machine.cores() // here))


def _connected(client: Any, scheduler: str) -> Any:
    try:
        return client(scheduler, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise SpecError(
            f"No dask scheduler answers at {scheduler}: {error}. Start one by `dask scheduler`, "
            "workers by `dask worker <its address>`, and give its address (tcp://host:8786)."
        ) from error


def _workers_by_host(client: Any, scheduler: str) -> dict[str, int]:
    """How many workers there are on each host; waits for the first."""
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except TimeoutError as error:
        raise SpecError(
            f"The dask scheduler at {scheduler} has no workers. Start some by "
            f"`dask worker {scheduler}`."
        ) from error
    return dict(Counter(map(_host, client.scheduler_info(n_workers=-1)["workers"])))


def _host(address: str) -> str:
    return urlsplit(address).hostname or address
