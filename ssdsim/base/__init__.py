"""The base of every package: errors, checks, kinds of value, options, records, registries, files, intervals."""
