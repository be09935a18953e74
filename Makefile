# Each target sets up what it needs: on a fresh machine `make test` alone does everything.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-peers
PEERS_READY := $(PEERS)/.ready
BENCHMARKS := suite build memory budget bands optimise gradients cold_start cpu_nets cpu_kernels cpu_small cpu_products

# Tests start many processes: those that read compiled Python take a third of the time to begin.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo test test-gpu lint style types docs bench clean

setup: $(READY)

$(READY): pyproject.toml
	test -x $(BIN)/python || python3 -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $(READY)

demo: setup
	$(BIN)/tawny bench --json bench.json --picture bench.png

test: setup lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

# On a machine with an NVIDIA GPU; without one, all of it is skipped, and it says so.
test-gpu: setup
	TAWNY_TEST_DEVICE=cuda $(BIN)/python -m pytest -q -rs -k "gpu or cuda or nvptx" tests
	TAWNY_TEST_DEVICE=cuda TAWNY_LARGE_TESTS=1 $(BIN)/python -m pytest -q -rs tests/test_gpu_tables.py

lint: setup
	$(MAKE) --no-print-directory --jobs=2 types style

types: setup
	$(BIN)/pyright

style: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

docs: setup
	$(BIN)/python docs/generate.py

# Peers whose dependencies exclude ours: PyTensor needs an older LLVM.
$(PEERS_READY):
	test -x $(PEERS)/bin/python || python3 -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --upgrade pip
	$(PEERS)/bin/python -m pip install --quiet "pytensor>=3"
	touch $(PEERS_READY)

bench: setup $(PEERS_READY)
	$(BIN)/python -m pip install --quiet --editable ".[bench,dask]" "torch==2.13.0"
	$(foreach name,$(BENCHMARKS),$(BIN)/python benchmarks/$(name).py &&) true

clean:
	rm -rf $(VENV) $(PEERS) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
