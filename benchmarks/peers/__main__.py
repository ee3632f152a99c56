"""Loads a peer and labels a sentence: what its first answer takes.

python -m benchmarks.peers PyTorch FOLDER Ms Preston left
"""

import sys
from pathlib import Path

from benchmarks import peers

name, folder, *tokens = sys.argv[1:]
print(peers.tagger(name).load(Path(folder)).tag([tokens])[0][0], flush=True)
