"""``headroom keys``: API keys, made on the database itself; the first one has no other way."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from service.cli.status import REFUSED, notices, screen
from service.cli.upkeep.database import on_database

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

    from service.access.keys import KeyRecord

keys_app = typer.Typer(help="Create, list and revoke API keys.", no_args_is_help=True)


@keys_app.command("create")
def create_key(
    organisation: Annotated[str, typer.Option(help="Organisation of the key, e.g. acme-corp.")],
    name: Annotated[str, typer.Option(help="Name of the person or system that will use it.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(help="Scope: catalog:write, own:write, keys:write. Repeatable."),
    ] = None,
    days: Annotated[float | None, typer.Option(min=0, help="Days until it expires.")] = 365.0,
    forever: Annotated[bool, typer.Option("--forever", help="It never expires.")] = False,
) -> None:
    """Create a key and print it; it is stored nowhere and cannot be shown again."""
    from service.access.keys import SCOPES, fault_of_organisation, make_key
    from service.access.repository import add_key
    from service.catalog.database.connection import migrate

    fault = fault_of_organisation(organisation)
    if fault is not None:
        raise typer.BadParameter(f"an organisation is {fault}", param_hint="--organisation")
    for one in scope or ():
        if one not in SCOPES:
            known = "; ".join(f"{name}: {meaning}" for name, meaning in SCOPES.items())
            raise typer.BadParameter(
                f"there is no scope {one!r}; choose from {known}", param_hint="--scope"
            )
    key = make_key()

    async def act(engine: AsyncEngine) -> None:
        await migrate(engine)
        async with engine.begin() as connection:
            await add_key(
                connection,
                key,
                organisation=organisation,
                name=name,
                scopes=scope or (),
                expires_at=None if forever else datetime.now(UTC) + timedelta(days=days or 0.0),
                created_by=f"{getpass.getuser()} on the command line",
            )

    on_database(act)
    notices.print(f"The key {key.key_id} of {organisation}, shown only once:")
    print(key.text)


@keys_app.command("list")
def list_keys(
    organisation: Annotated[
        str | None, typer.Option(help="Only keys of this organisation.")
    ] = None,
) -> None:
    """List all keys, without their secrets."""
    from service.access.repository import read_keys
    from service.catalog.database.connection import migrate

    async def act(engine: AsyncEngine) -> list[KeyRecord]:
        await migrate(engine)
        async with engine.connect() as connection:
            return await read_keys(connection, organisation)

    table = Table(Column("id", no_wrap=True), "organisation", "name", "scopes", "made", "ends")
    for record in on_database(act):
        ends = "never" if record.ends_at is None else f"{record.ends_at:%Y-%m-%d %H:%M}"
        made = f"{record.created_at:%Y-%m-%d} by {record.created_by}"
        scopes = ", ".join(sorted(record.scopes))
        table.add_row(record.key_id, record.organisation, record.name, scopes, made, ends)
    screen().print(table)


@keys_app.command("revoke")
def revoke_key(key_id: Annotated[str, typer.Argument(help="The key's id.")]) -> None:
    """Revoke a key immediately and permanently, in all running processes."""
    from service.access.repository import read_keys, time_of
    from service.access.repository import revoke_key as revoke

    async def act(engine: AsyncEngine) -> bool:
        async with engine.begin() as connection:
            known = {record.key_id for record in await read_keys(connection)}
            if key_id in known:
                who = f"{getpass.getuser()} on the command line"
                await revoke(connection, key_id, await time_of(connection), who)
            return key_id in known

    if not on_database(act):
        notices.print(f"There is no key {key_id}.")
        raise typer.Exit(REFUSED)
    notices.print(f"The key {key_id} is revoked.")
