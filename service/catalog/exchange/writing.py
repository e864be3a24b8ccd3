"""The catalog as a file that can be brought in again."""

from __future__ import annotations

from collections.abc import Collection

import orjson
import yaml

from service.catalog.entries.checks import Schemas
from service.catalog.entries.documents import Canonical, DocumentSet
from service.catalog.exchange.reading import Form
from service.catalog.exchange.tables import table_of


def catalog_file(
    documents: DocumentSet, form: Form, collections: Collection[str], schemas: Schemas
) -> str:
    """Entries of some collections, by collection and id.

    Raises
    ------
    ValueError
        If a table is asked of more than one collection.
    """
    lists = {
        name: [documents[name][entry_id] for entry_id in sorted(documents.get(name, {}))]
        for name in collections
    }
    if form == "csv":
        if len(lists) != 1:
            raise ValueError("a table has entries of one collection only")
        ((name, listed),) = lists.items()
        return table_of(listed, schemas[name])
    if form == "json":
        return orjson.dumps(lists, option=orjson.OPT_INDENT_2).decode() + "\n"
    return yaml.dump(lists, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


class _Dumper(yaml.CSafeDumper):
    """YAML without anchors, quoting what the 1.1 resolvers would take for something else."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the library calls it
        return True


_Dumper.add_representer(Canonical, yaml.representer.SafeRepresenter.represent_dict)
