"""The same seed gives the same stream, to the bit, on every machine and with every NumPy.

The digests are frozen. What they are digests of is compared with truth elsewhere; here it is only
seen that no machine, version or refactoring changes it.
"""

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from backcast import tasks
from backcast.data import Dataset
from backcast.tasks import holdout

CODE = "import json; from tasks.test_golden import found; print(json.dumps(found()))"
FROZEN = {
    "permuted": "f5dec74cc41b29c5",
    "rotated": "84bd89818114f231",
    "brightness": "25b1c5035ec2e095",
    "blurred": "9b7c5e57b8fb7ee2",
    "stained": "382a829a12a18fed",
    "disjoint": "f1bee740bc880a66",
    "pairs": "ffbe6b3519e54c5c",
    "by_column": "449840bce4a92f61",
    "mixed": "dab6fb4c06eb2184",
    "imbalanced": "47bc144e2fe8a5eb",
    "balanced": "dc387db72de2860c",
}


def pictures():
    """Colour images that no random generator has a part in."""
    pixel = np.arange(240 * 6 * 6 * 3, dtype=np.uint64).reshape(240, 6, 6, 3)
    x = (pixel * 2654435761 >> 11).astype(np.uint8)
    row = np.arange(240)
    columns = {
        "slide": row // 5,
        "center": np.where(row // 5 % 3, "north", "south"),
        "year": 2000 + row // 5 % 4,
    }
    return Dataset("pictures", x, row * row // 7 % 4, tuple("abcd"), columns, 255.0)


def streams():
    dataset = pictures()
    parts = holdout(dataset, 0.1, 0.2, seed=7)
    slides = holdout(dataset, 0.2, 40, groups="slide", seed=7)
    centres = holdout(dataset, 0.2, 0.2, within="center", seed=7)
    years = holdout(dataset, 0.2, 0.2, within="year", seed=7)
    some = [{"north": 50.0}, {"north": 40.0, "south": 70.0}]
    return {
        "permuted": tasks.permuted(parts, 3, examples=30, seed=7),
        "rotated": tasks.rotated(slides, (0.0, 20.0, 77.7)),
        "brightness": tasks.brightness(slides, examples=10, seed=7),
        "blurred": tasks.blurred(parts, (0.0, 0.7, 2.0)),
        "stained": tasks.stained(parts),
        "disjoint": tasks.disjoint(parts, 2, examples=20, seed=7),
        "pairs": tasks.pairs(parts),
        "by_column": tasks.by_column(years, "year", tasks=2, examples=20, seed=7),
        "mixed": tasks.mixed(centres, "center", tasks.crossfade("north", "south", 3), seed=7),
        "imbalanced": tasks.imbalanced(centres, "center", some, seed=7),
        "balanced": tasks.permuted(parts.balanced(seed=7).limit(train=30, seed=7), 2),
    }


def digest(stream):
    seen = hashlib.sha256()
    for task in stream:
        seen.update(f"{task.name} {task.time}".encode())
        for examples in (task.train, task.validation, task.test):
            seen.update(examples.x.astype("<f4").tobytes())
            seen.update(examples.y.astype("<i4").tobytes())
    return seen.hexdigest()[:16]


def found():
    return {name: digest(stream) for name, stream in streams().items()}


def test_streams_are_the_frozen_ones():
    assert found() == FROZEN


def test_other_seeds_give_other_streams():
    parts = holdout(pictures(), 0.1, 0.2, seed=7)
    assert digest(tasks.permuted(parts, 3, examples=30, seed=8)) != FROZEN["permuted"]
    parts = holdout(pictures(), 0.1, 0.2, seed=8)
    assert digest(tasks.pairs(parts)) != FROZEN["pairs"]


def test_a_processor_without_vector_instructions_gives_the_same():
    umath = pytest.importorskip("numpy._core._multiarray_umath")
    have = [name for name in umath.__cpu_dispatch__ if umath.__cpu_features__.get(name)]
    if not have:
        pytest.skip("this processor has no instructions that NumPy could do without")
    here = os.path.dirname(os.path.dirname(__file__))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"NPY_DISABLE_CPU_FEATURES": " ".join(have), "PYTHONPATH": here},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == FROZEN
