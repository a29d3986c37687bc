"""Tokens without seconds: acceptance, hit rates, fan-outs, requests, sampling, theory."""
