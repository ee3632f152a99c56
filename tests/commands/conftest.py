"""Commands run in the process of the tests."""

import pytest


@pytest.fixture
def run(capsys):
    """Runs a command line, and returns its status and what it shows."""
    from jaxner import cli

    def call(*arguments):
        status = 0
        try:
            cli.run([*map(str, arguments)])
        except SystemExit as end:
            status = end.code
        return status, "".join(capsys.readouterr())

    return call
