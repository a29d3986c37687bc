"""Real models: what they write, what they make of an answer, and real loops of speculative decoding (torch).

Nothing is fetched. Beside what it is asked for, huggingface_hub asks its hub of its own accord, unless it is offline.
"""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
