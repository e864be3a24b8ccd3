"""The page about the method shows every formula as it is."""

from typer.testing import CliRunner

from service.cli.application import app
from service.cli.upkeep.equations import with_equations
from service.settings import INSTALLATION
from tests.equations import registered


def test_the_equations_of_the_page_are_current():
    page = (INSTALLATION / "docs" / "methodology.md").read_text()
    assert page == with_equations(page), "run ./headroom equations --write-docs"
    assert CliRunner().invoke(app, ["equations"]).stdout == page
    missing = {
        formula.name for formula in registered() if f"| `{formula.expression}` |" not in page
    }
    assert missing == set()
