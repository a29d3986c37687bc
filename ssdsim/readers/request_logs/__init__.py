"""Logs of requests: traces of services, and benchmarks that kept a line a request."""
