"""The application and its client, as the API's own tests have them."""

from tests.api.conftest import app, client

__all__ = ["app", "client"]
