"""Plans over years, days and sites, made of estimates of single deployments."""
