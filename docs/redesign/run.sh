#!/usr/bin/env bash
# Step 1 of the redesign: move the tree to its five floors. Run from the project's root, on a clean checkout.
# Each step stops at the first thing that does not fit any more, such as a line that has changed since.
set -euo pipefail
here=docs/redesign
python3 $here/move.py .
git rm -q -f --ignore-unmatch src/sfumato/steward/__init__.py
rm -rf src/sfumato/steward
echo '"""Floor 1: tables as they are: schemas, engines, files, counting and inspection; no privacy."""' > src/sfumato/data/__init__.py
echo '"""Floor 2: the mathematics of privacy: accounting, noise, mechanisms, estimation, the ledger."""' > src/sfumato/privacy/__init__.py
echo '"""Floor 3: families of private methods, one package each."""' > src/sfumato/methods/__init__.py
echo '"""Floor 4: everything that can be asked of the system, declared once for every door."""' > src/sfumato/operations/__init__.py
python3 $here/after_move.py
python3 $here/arrays.py
python3 $here/fixtures.py
.venv/bin/python docs/guide/floors.py
.venv/bin/ruff check -q --fix --ignore E501 src tests bench docs || true
.venv/bin/ruff format -q src tests bench docs
.venv/bin/ruff check src tests bench docs
.venv/bin/mypy
