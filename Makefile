# SPDX-License-Identifier: Apache-2.0
# `make` alone prints the targets.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Tests that run at the same time.
JOBS   ?= auto
# The seed of everything random is 1, of `make soak` a fresh one, unless SEED=n is given.
FRESH  := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
test coverage bench: SEED ?= 1
soak: SEED ?= $(FRESH)
# Hostile frames at each of five widths, with as many good ones between them: ten million in all, about
# ten minutes of two cores. `make test` sends 20,000 at each width.
soak: FRAMES ?= 2000000
# Sums held against SoftFloat: a minute or two. `make test` takes a million.
soak: VECTORS ?= 100000000

.DEFAULT_GOAL := help
.SILENT:
.DELETE_ON_ERROR:

.PHONY: help
help: ## print this list
	awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt
	echo "Setting up $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

.PHONY: demo
demo: $(STAMP) ## run 8-rank AllReduce traffic through the RTL and report what trimming saves
	mkdir -p build/demo
	$(BIN)/python scripts/demo_traffic.py build/demo
	$(BIN)/flytrim sim build/demo/allreduce8.pcap --flows build/demo/flows.toml --out build/demo/out

.PHONY: test
test: $(STAMP) ## run the regression; SEED=n takes another seed
	echo "Running the tests with SEED=$(SEED)"
	SEED=$(SEED) $(BIN)/python -m pytest --quiet -n $(JOBS) --dist worksteal

$(VENV)/.tools: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,tools]'
	touch $@

.PHONY: soak
# With a space before it a value would be taken for a path, as options of ours are not known yet.
soak: $(STAMP) ## the same at every width, with a fresh seed, ten million hostile frames and 100 million sums
	echo "Running the tests with SEED=$(SEED)"
	SEED=$(SEED) $(BIN)/python -m pytest --quiet -n $(JOBS) --dist worksteal --widths=64,128,256,512,1024 \
		--frames=$(FRAMES) --vectors=$(VECTORS)

.PHONY: lint
lint: $(VENV)/.tools ## check the Python sources, and the Verilog of every top at every width
	$(BIN)/ruff check hdl tb scripts
	$(BIN)/python scripts/lint_verilog.py

.PHONY: coverage
coverage: $(STAMP) ## count the lines, branches and toggles of the Verilog that the coverage plan reaches
	mkdir -p build/coverage
	SEED=$(SEED) PYTHONPATH=tb $(BIN)/python scripts/line_coverage.py build/coverage

.PHONY: bench
bench: $(STAMP) ## measure line rate and latency at every width and of a switch, speed of a replay, accuracy of sums
	SEED=$(SEED) PYTHONPATH=tb:tb/system $(BIN)/python scripts/benchmark.py
	SEED=$(SEED) $(BIN)/python scripts/switch_rate.py
	SEED=$(SEED) $(BIN)/python scripts/sum_accuracy.py

.PHONY: synth
synth: $(VENV)/.tools ## depth, loads and cost of the 512-bit device, cost of flows, cost and speed of sums
	$(BIN)/flytrim synth nic --max-levels 7 --max-loads 64
	$(BIN)/python scripts/flow_cost.py
	$(BIN)/python scripts/arithmetic_cost.py

.PHONY: registers
registers: $(VENV)/.tools ## write what is made from the register description; pages in build/registers
	$(BIN)/python scripts/register_files.py --html build/registers

.PHONY: formal
formal: $(VENV)/.tools ## prove the blocks, reach every cover, catch every planted fault
	$(BIN)/python tb/formal/run.py

.PHONY: mutants
mutants: $(STAMP) ## plant faults in the hardware and show which test catches each (an hour or two)
	$(BIN)/python scripts/mutants.py

.PHONY: clean
clean: ## remove everything that make has made
	rm -rf build $(VENV)
