"""Every verb that writes, killed, interrupted, without room on the disk, and beside another one: what is lost by it.

``python -m tests.faults --trials 3`` from the root of the repository prints the table, a row for each verb and fault.
"""
