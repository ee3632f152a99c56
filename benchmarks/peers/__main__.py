"""Loads a peer and labels a sentence, or takes a first training step.

python -m benchmarks.peers PyTorch FOLDER Ms Preston left
python -m benchmarks.peers PyTorch --train FILE.json 10
"""

import json
import sys
from pathlib import Path

from benchmarks import peers

name, source, *rest = sys.argv[1:]
if source == "--train":
    path, batch = rest
    text = json.loads(Path(path).read_text(encoding="utf-8"))
    peer = peers.build(name, [peers.Labelled(*sentence) for sentence in text])
    peer.first_step(int(batch))
    print("#mark first step", flush=True)  # as benchmarks.startup expects
else:
    print(peers.tagger(name).load(Path(source)).tag([rest])[0][0], flush=True)
