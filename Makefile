# make demo: set up, then train, score, report, index and search the bundled sample
# make test: set up, then all checks and tests; as root on Debian also installs chromium, for tests in a browser
# make check: ruff, mypy and the layer test only;  make bench [QUICK=1]: the benchmarks;  make lock: renew constraints.txt
# make fuzz [RUNS=2100000]: fuzz every parser and the HTTP edge;  make faults: full disks, flipped bits, kills (as root)
# make cluster: Ray, Spark (needs Java) and torchrun on two hosts (as root)
# make coverage: what the tests of the last make test did not run, by file; make test ends with it and fails below the bounds
# make mutation [MUTANTS=0]: change codes, labels, scores, hash table and BQP in small ways and see whether a test notices
# make docs: build the documentation into build/site;  make dist: build the wheel and the source archive
# make tables: write the tables and figures of results/ into README and docs
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
TEST_WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test browser check bench fuzz cluster faults coverage mutation docs dist tables lock clean

help:
	@sed -n 's/^# //p' Makefile

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "ddsh needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || { rm -rf .venv; echo "Python's venv module is missing: install it (Debian: apt-get install python3-venv)"; exit 2; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0 -e '.[all,docs,dev]'
	@touch $(READY)

demo: $(READY)
	@$(BIN)/ddsh demo --out build/demo

test: browser check
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --cov --cov-report=
	@$(MAKE) --no-print-directory coverage

browser:
	@! command -v chromium >/dev/null && test "$$(id -u)" = 0 && command -v apt-get >/dev/null && timeout 300 sh -c \
		'apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y chromium' >/dev/null 2>&1 </dev/null || true

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

bench: $(READY)
	@test -d "$(DDSH_DATA)/ddsh-author-codes" || { echo "make bench needs the authors' codes: DDSH_DATA=FOLDER WITH ddsh-author-codes make bench"; exit 2; }
	@rm -rf build/bench-index && mkdir -p build
	$(BIN)/python benchmarks/large_index.py build/bench-index $(DDSH_DATA)/ddsh-author-codes $(if $(QUICK),100000,1000000)
	@missed=0; quick="$(if $(QUICK),--quick)"; codes="$(DDSH_DATA)/ddsh-author-codes"; \
		test -n "$(QUICK)" || for file in scaled_codes look_codes; do \
			$(BIN)/python benchmarks/$$file.py $$(test $$file = look_codes || echo $$codes) || missed=1; done; \
		for file in kernels evaluate; do $(BIN)/python benchmarks/$$file.py $$codes $$quick || missed=1; done; \
		for file in startup service; do $(BIN)/python benchmarks/$$file.py $$codes $$quick --index build/bench-index || missed=1; done; \
		$(BIN)/python benchmarks/report.py results $$quick || missed=1; \
		for file in train encode; do $(BIN)/python benchmarks/$$file.py $$quick || missed=1; done; \
		test -n "$(QUICK)" || for file in bqp index; do $(BIN)/python benchmarks/$$file.py || missed=1; done; \
		test -n "$(QUICK)" || $(BIN)/python benchmarks/speed_table.py; rm -rf build/bench-index; exit $$missed

fuzz: $(READY)
	$(BIN)/python tests/fuzz/fuzz.py $(or $(RUNS),2100000)

cluster: $(READY)
	$(BIN)/python -m pytest -q -m cluster

faults: $(READY)
	$(BIN)/python tests/faults/full_disk.py
	$(BIN)/python tests/faults/flipped_bits.py 200
	$(BIN)/python tests/faults/power_loss.py
	$(BIN)/python tests/faults/kills.py 200

coverage: $(READY)
	@echo "Branch coverage, which must be 95% in all:"
	@$(BIN)/coverage report --fail-under=95
	@echo "Of codes, labels, storage, scores and index, which must be 100%:"
	@$(BIN)/coverage report --fail-under=100 --include='*/ddsh/codes.py,*/ddsh/labels.py,*/ddsh/storage.py,*/ddsh/evaluation/*,*/ddsh/index/*'

mutation: $(READY)
	$(BIN)/python tests/mutation/mutants.py $(or $(MUTANTS),0)

docs: $(READY)
	$(BIN)/mkdocs build --strict

dist: $(READY)
	$(BIN)/python -m build --no-isolation --outdir dist

tables: $(READY)
	$(BIN)/python docs/fill_tables.py
	$(BIN)/ddsh report --out build/report
	for figure in docs/figures/*; do cp build/report/figures/$$(basename $$figure) docs/figures/; done

lock:
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet torch==2.13.0 '.[all,docs,dev]'
	{ echo "# Every package that ddsh is tested with; renewed by: make lock"; build/lock/bin/python -m pip freeze --exclude ddsh | sed 's/+cpu$$//'; } > constraints.txt

clean:
	rm -rf .venv build dist
