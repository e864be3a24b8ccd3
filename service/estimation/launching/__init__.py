"""How a deployment is started: commands and manifests."""
