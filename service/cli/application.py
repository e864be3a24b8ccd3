"""The ``headroom`` command with everything that it can do."""

import typer

from service.cli import (
    assistants,
    catalog,
    checkout,
    decisions,
    estimates,
    keys,
    serving,
    upkeep,
)

app = typer.Typer(
    name="headroom",
    help="What an LLM deployment needs and costs before it is bought.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for name, ask in (estimates.commands() | decisions.commands()).items():
    app.command(name)(ask)
app.command()(serving.serve)
app.command()(serving.worker)
app.command()(assistants.mcp)
app.add_typer(catalog.catalog_app, name="catalog")
app.add_typer(keys.keys_app, name="keys")
app.command("migrate")(upkeep.migrate_schema)
for command in (upkeep.openapi, upkeep.validate, upkeep.calibrate):
    app.command()(command)
app.command(context_settings=checkout.PASS_ON)(checkout.test)
app.command()(checkout.lock)
app.add_typer(checkout.bench_app, name="bench")
