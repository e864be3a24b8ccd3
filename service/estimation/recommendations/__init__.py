"""Use cases about choosing: many deployments side by side, and which of them to take."""
