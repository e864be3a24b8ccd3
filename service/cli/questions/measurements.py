"""``headroom measurements import``: files of benchmarks, trainers and meters, as measurements."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from service.cli.questions.asking import client_for, tell
from service.cli.questions.bodies import misused, put, read_json, value_of
from service.cli.status import EPILOG, REFUSED, UNREACHABLE, notices, screen
from service.client.estimator import EstimatorClient, NotReached, Refused
from service.estimation.formatting import megabytes

measurements_app = typer.Typer(help="Measurements of your own.", no_args_is_help=True)

#: Of a file; a service may read less.
_MOST_BYTES = 64_000_000


@measurements_app.command("import", epilog=EPILOG)
def import_files(
    files: Annotated[
        list[Path], typer.Argument(exists=True, dir_okay=False, help="Files that tools wrote.")
    ],
    deployment: Annotated[
        list[str] | None,
        typer.Option(
            "--deployment",
            "-d",
            help="What the files do not say: a JSON object, @FILE with one, or FIELD=VALUE, e.g. "
            "accelerator=h100 or serving.engine=vllm. Repeatable; wins over the files.",
        ),
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", help="Id of the format; default: by the content.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what was understood.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(help="File to write the measurements to, one JSON document a line."),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(envvar="HEADROOM_SERVER", help="Store the measurements with this service."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            envvar="HEADROOM_KEY",
            help="API key for the service; others of this machine see it here, not in the "
            "variable.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole answers.")] = False,
) -> None:
    """Read what benchmarks, trainers and meters wrote, complete it, and store or write it.

    vLLM, SGLang, AIPerf, GuideLLM, trtllm-bench, llama-bench, MLPerf, PyTorch memory snapshots,
    trainer_state.json, Megatron-LM, torchtitan, nvidia-smi, DCGM, Zeus and CodeCarbon. All of the
    files or nothing.
    """
    body = {"deployment": _deployment(deployment or ()), "dry_run": True}
    bodies = [_body(file, form) | body for file in files]
    client = client_for(server, key)
    answers = [_imported(client, one) for one in bodies]
    faults = [fault for answer in answers for fault in answer["faults"]]
    if not faults and server and not dry_run:
        answers = [_imported(client, one | {"dry_run": False}) for one in bodies]
    whole = not faults and not dry_run
    if as_json:
        print(json.dumps(answers, indent=2, ensure_ascii=False))
    else:
        for file, answer in zip(files, answers, strict=True):
            _show(file, answer)
    if whole and output is not None:
        lines = (json.dumps(one["document"]) for each in answers for one in each["documents"])
        output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        notices.print(f"Wrote {output}.")
    if whole and output is None and not server:
        notices.print("Nothing was stored: give --server or --output.")
    if faults:
        notices.print("Nothing was stored or written.", style="red")
        raise typer.Exit(REFUSED)


def _imported(client: EstimatorClient, body: Mapping[str, Any]) -> dict[str, Any]:
    """The answer for one file; what an organisation sends twice is stored once.

    Raises
    ------
    typer.Exit
        If the file is refused or the service is not reached, after saying why.
    """
    key = sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    try:
        return asyncio.run(client.import_file(body, key))
    except Refused as refused:
        tell(refused.problem, str(body["name"]))
        raise typer.Exit(REFUSED) from None
    except NotReached as error:
        notices.print(str(error), style="red")
        raise typer.Exit(UNREACHABLE) from None


def _body(file: Path, form: str | None) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise misused(f"{file}: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise misused(f"{file}: larger than {megabytes(_MOST_BYTES)}")
    named = {"name": file.name[:300], "format": form}
    try:
        return named | {"content": data.decode()}
    except UnicodeDecodeError:
        return named | {"content_base64": base64.b64encode(data).decode()}


def _deployment(given: Sequence[str]) -> dict[str, Any]:
    """Objects and single fields, later ones over earlier ones."""
    deployment: dict[str, Any] = {}
    for text in given:
        if text.startswith("@"):
            deployment |= read_json(text[1:], "--deployment")
        elif text.lstrip().startswith("{"):
            parsed = value_of(text)
            if not isinstance(parsed, dict):
                raise misused("--deployment: is not a JSON object")
            deployment |= parsed
        else:
            place, equals, value = text.partition("=")
            if not place or not equals:
                raise misused(f"--deployment {text}: must be FIELD=VALUE, JSON or @FILE")
            put(deployment, tuple(place.split(".")), value_of(value), f"--deployment {place}")
    return deployment


def _origin(part: Mapping[str, Any]) -> str:
    match part["origin"]:
        case "deployment":
            return "you"
        case "inferred":
            return f"inferred: {part['place']}"
        case _:
            return str(part["place"])


def _show(file: Path, answer: Mapping[str, Any]) -> None:
    """What was understood of a file, as people read it."""
    console = screen()
    count = len(answer["documents"])
    console.print(f"{file.name}: {answer['title']}, {count} {'run' if count == 1 else 'runs'}")
    for document in answer["documents"]:
        console.print(f"  {document['place']}")
        table = Table("part", "value", "from", show_edge=False, pad_edge=False)
        for part in document["parts"]:
            name = part["pointer"].removeprefix("/request/").replace("/", ".")
            table.add_row(name, json.dumps(part["value"]), _origin(part))
        console.print(table)
        figures = Table("figure", "measured", "estimated", "from", show_edge=False, pad_edge=False)
        estimates = {one["metric"]: one["estimate"] for one in document["figures"]}
        for figure in document["measured"]:
            estimate = estimates.get(figure["metric"])
            told = "" if estimate is None else f"{estimate:.4g}"
            figures.add_row(figure["metric"], f"{figure['value']:.4g}", told, figure["place"])
        console.print(figures)
        for warning in document["warnings"]:
            console.print(f"  warning: {warning['message']}")
    for warning in answer["warnings"]:
        console.print(f"  warning: {warning['message']}")
    for fault in answer["faults"]:
        place = fault["pointer"].removeprefix("/").replace("/", ".")
        notices.print(f"  {place}: {fault['detail']}", style="red")
    if answer["stored"]:
        numbers = ", ".join(map(str, answer["stored"][:20]))
        console.print(f"  stored as {numbers}")
