"""The bar shows how training goes to a person, and nothing to a file."""

import io
import sys

import optax
import pytest

from backcast.learning import DivergedError, Learner
from backcast.learning.progress import Bar, Silent, watched
from backcast.model import Categorical
from learning.small import hidden, hidden_params, turning


class Terminal(io.StringIO):
    def isatty(self):
        return True


def watching(monkeypatch):
    """A terminal in the place of standard error; pytest would take one a fixture made away."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return screen


def learner_of(**more):
    settings = {"rank": 4, "epochs": 3, "batch_size": 16, **more}
    return Learner((hidden, hidden_params()), Categorical(), **settings)


def test_a_person_sees_each_task_with_its_loss_and_accuracy(monkeypatch):
    terminal, learner = watching(monkeypatch), learner_of()
    reports = [learner.observe(*task, name=f"day {t}") for t, task in enumerate(turning(2))]
    shown = terminal.getvalue()
    for t, report in enumerate(reports):
        assert f"day {t}" in shown
        assert f"loss {report['losses'][-1]:.4f}" in shown
    assert "accuracy 0." in shown
    assert "curvature" in shown
    assert "left" in shown


def test_the_bar_is_left_whole_when_training_fails(monkeypatch):
    terminal, learner = watching(monkeypatch), learner_of(optimizer=optax.sgd(1e38))
    for name in ("first", "again"):
        with pytest.raises(DivergedError):
            learner.observe(*turning(1)[0], name=name)
        assert name in terminal.getvalue()
    # The cursor is shown again.
    assert terminal.getvalue().rstrip().endswith("\x1b[?25h")


def test_nothing_is_shown_where_no_one_looks(capfd):
    assert isinstance(watched("accuracy"), Silent)
    learner_of().observe(*turning(1)[0])
    assert capfd.readouterr() == ("", "")


def test_a_bar_can_be_declined(monkeypatch):
    terminal = watching(monkeypatch)
    assert isinstance(watched("accuracy"), Bar)
    learner_of(progress=False).observe(*turning(1)[0])
    assert terminal.getvalue() == ""
