"""Inputs that are wrong in random ways, and a runner that counts those which do not end as they should.

``python -m tests.mutations --count 20000 --seed -1`` from the root of the repository. Every input follows from the seed
and its number: ``--seed 0 --first 4711 --count 1`` makes and runs one again. An input ends as it should with an answer
or with one line that begins with ``error:``; a traceback, a warning of NumPy's or Python's, more than that line, and no
end within the limits of time and memory are failures.
"""
