"""Help at once, mistakes without tracebacks, and exit codes that fit the shell."""

import subprocess
import sys
import time
import warnings

import pytest

from backcast import __version__
from backcast.cli.app import COMMANDS
from backcast.experiments import BusyError, SpecError, StorageError, built_in

HELP = """
import sys
from backcast.cli import main
from backcast import __version__
from backcast.cli.app import COMMANDS
for words in (["--help"], ["data", "get", "--help"], *([name, "--help"] for name in COMMANDS)):
    assert main(words) == 0
heavy = {"jax", "numpy", "pydantic", "matplotlib", "backcast.experiments"} & set(sys.modules)
assert not heavy, heavy
"""


def test_help_needs_nothing_that_is_slow_to_import():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert all(name in done.stdout for name in COMMANDS)


def test_help_is_there_at_once():
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", "from backcast.cli import main; main(['--help'])"],
            capture_output=True,
            check=True,
        )
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < 2  # 0.2 where nothing else runs; importing jax alone takes longer


def test_version(backcast):
    code, out, _ = backcast("--version")
    assert code == 0
    assert out.strip() == f"backcast {__version__}"


def test_every_command_has_its_file(backcast):
    for name in COMMANDS:
        assert backcast(name, "--help")[0] == 0


def test_help_names_every_built_in_spec(backcast):
    _, out, _ = backcast("run", "--help")
    words = " ".join(out.replace("│", " ").split())
    assert f"comes with backcast: {', '.join(built_in())}." in words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnu", "digits"], 'Did you mean "run"?'),
        (["run", "digist"], "did you mean 'digits'?"),
        (["run", "digits", "--sed", "3"], "Did you mean --seed?"),
        (["run", "digits", "--method.rank", "3"], "--set method.rank="),
        (["run", "digits", "--set", "methd.rank=3"], "did you mean 'method'?"),
        (["run", "digits", "--set", "method.rnak=3"], "did you mean 'rank'?"),
        (["run", "digits", "--set", "method.rank=-1"], "must be at least 0, but -1 was given"),
        (["run", "digits", "--set", "method.kind=lowrank"], "did you mean 'low-rank'?"),
        (["run", "digits", "--set", "method.rank"], "give a field and its value"),
        (["run", "digits", "--seed", "x"], 'unable to convert "x" into int'),
        (["run", "digits", "--seed", "-1"], "seed: must be at least 0"),
        (["run", "digits", "more", "yet"], "There is no use for more, yet."),
        (["run"], "SPEC requires an argument"),
        (["run", "gone.toml"], "There is no gone.toml"),
        (["sweep", "digits", "--jobs", "0"], "at least 1"),
        (["tune", "digits"], "does not say what to tune"),
        (["inspect", "gone"], "is not the folder of a run"),
        (["smooth", "gone"], "is not the folder of a run"),
        (["report", "gone"], "There is no folder gone"),
        (["report", "."], "There are no runs in ."),
        (["data", "get", "mnits"], "did you mean 'mnist'?"),
        (["data", "get", "camelyon17"], "10.7 GB"),
        (["demo", "--seeds", "99"], "from 1 to 16"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_done(backcast, tmp_path, words, said):
    code, out, err = backcast(*words)
    assert code == 2
    assert err.startswith("backcast: ")
    assert said in err
    assert "Traceback" not in err
    assert out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["name = ", "\x00", "name = 3\n[data]\nkind = 'digits'"])
def test_a_file_that_is_no_spec_is_told(backcast, tmp_path, text):
    (tmp_path / "spec.toml").write_text(text)
    code, _, err = backcast("run", "spec.toml")
    assert code == 2
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SpecError("no"), 2),
        (BusyError("no"), 1),
        (StorageError("no"), 1),
        (OSError(28, "no"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_each_fault_has_its_exit_code(backcast, monkeypatch, error, code):
    monkeypatch.setattr("backcast.experiments.run", _raising(error))
    found, out, err = backcast("run", "digits")
    assert (found, out) == (code, "")
    assert err.startswith("backcast: ")
    assert ("goes on from there" in err) == (code == 130)


@pytest.mark.filterwarnings("default")
def test_a_warning_is_told_in_words(backcast, monkeypatch):
    def run(*_, **__):
        warnings.warn("Images cannot be kept.", UserWarning, stacklevel=2)
        raise SpecError("no")

    monkeypatch.setattr("backcast.experiments.run", run)
    code, _, err = backcast("run", "digits")
    assert code == 2
    assert err == "backcast: warning: Images cannot be kept.\nbackcast: no\n"


def test_a_bug_of_ours_is_not_hidden(backcast, monkeypatch):
    monkeypatch.setattr("backcast.experiments.run", _raising(ZeroDivisionError("bug")))
    with pytest.raises(ZeroDivisionError):
        backcast("run", "digits")


def test_it_is_a_command_of_the_shell():
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from backcast.cli import main; sys.exit(main())", "x"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith('backcast: Unknown command "x"')


def _raising(error):
    def run(*_, **__):
        raise error

    return run
