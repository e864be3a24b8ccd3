"""The ``headroom`` command with everything that it can do."""

import inspect

import typer
from pydantic import ValidationError

from service.cli.questions import (
    anything,
    decisions,
    detect,
    estimates,
    measurements,
    plans,
    reports,
    sweeps,
)
from service.cli.server import serving
from service.cli.status import EPILOG, MISUSED, notices
from service.cli.upkeep import (
    assistants,
    backups,
    catalog,
    checkout,
    configuration,
    equations,
    keys,
    learning,
    rollback,
    trusting,
)
from service.cli.upkeep import validation as upkeep
from service.estimation.faults import fault
from service.settings import Settings, variable_of

app = typer.Typer(
    name="headroom",
    help="What an LLM deployment needs and costs before it is bought.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for name, ask in (estimates.commands() | decisions.commands() | plans.commands()).items():
    app.command(name)(ask)
app.command("ask", epilog=EPILOG)(anything.ask)
app.command("sweep", epilog=EPILOG)(sweeps.sweep)
app.command(epilog=EPILOG)(detect.detect)
app.add_typer(measurements.measurements_app, name="measurements")
for name, run in (
    ("list", reports.list_reports),
    ("report", reports.report),
    ("withdraw", reports.withdraw),
):
    measurements.measurements_app.command(name, epilog=EPILOG)(run)
app.command()(serving.serve)
app.command()(serving.worker)
app.command()(assistants.mcp)
app.add_typer(catalog.catalog_app, name="catalog")
catalog.catalog_app.command("rollback")(rollback.roll_back)
app.add_typer(keys.keys_app, name="keys")
app.command("migrate")(upkeep.migrate_schema)
app.command()(backups.backup)
app.command()(backups.restore)
for command in (
    configuration.settings,
    equations.equations,
    upkeep.openapi,
    upkeep.validate,
    upkeep.calibrate,
    learning.learning,
):
    app.command()(command)
app.command(context_settings=checkout.PASS_ON)(checkout.test)
app.command(context_settings=checkout.PASS_ON)(checkout.docs)
app.command()(checkout.lock)
for command in (trusting.fuzz, trusting.sbom, trusting.audit):
    app.command()(command)
app.add_typer(checkout.bench_app, name="bench")


def _unfold(commands: typer.Typer) -> None:
    """Let help fill its lines: of what follows the first paragraph, typer keeps the line breaks."""
    for each in commands.registered_commands:
        paragraphs = inspect.cleandoc(each.callback.__doc__ or "").split("\n\n")
        each.help = "\n\n".join(" ".join(one.split()) for one in paragraphs)
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            _unfold(group.typer_instance)


_unfold(app)


def main() -> None:
    """Run the command that the terminal names; settings that are wrong end it in words."""
    try:
        app(prog_name="headroom")
    except ValidationError as error:
        if error.title != Settings.__name__:
            raise
        for one in error.errors(include_url=False, include_input=False):
            named = str(one["loc"][0])
            variable = variable_of(named) if named in Settings.model_fields else named
            # What was given may be a secret.
            notices.print(f"{variable}: {fault({**one, 'input': ''})}", style="red")
        raise SystemExit(MISUSED) from None
