#!/usr/bin/env bash
# Installs PyTorch (and NumPy, without which it warns) into a Python environment of its own, build/peers, where it is not there yet.  pip's own configuration
# (index, proxy, certificates, folders of wheels) is honoured: with an index of packages for processors only, 0.2 GB come
# instead of the 3 GB with the libraries for GPUs that PyPI's package needs on x86-64.
set -euo pipefail
cd "$(dirname "$0")/../.."
. cmake/common.sh

python=build/peers/bin/python
has_torch() { [ -x $python ] && $python -c 'import numpy, torch' 2>/dev/null; }

if has_torch; then exit 0; fi
python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages python3 python3-venv
say "Installing PyTorch into build/peers, up to 3 GB to download (log: build/log/peers.log)"
if ! { python3 -m venv build/peers && $python -m pip install --no-cache-dir --retries 3 torch numpy; } >"$logs/peers.log" 2>&1; then
  die_with_log "PyTorch could not be installed: is there a network, or a folder of wheels (PIP_FIND_LINKS)?" "$logs/peers.log"
fi
has_torch || die "PyTorch was installed into build/peers, but it cannot be imported:" "$($python -c 'import numpy, torch' 2>&1 | tail -n 3)"
say "Ready: PyTorch $($python -c 'import torch; print(torch.__version__)') in build/peers"
