"""What every package stands on: errors, checks, kinds of value, options, records, registries, files and intervals."""
