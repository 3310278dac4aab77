"""Proxies of everything that a captured call can change, and of the hooks of modules that it calls."""
