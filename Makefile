# Each target sets up .venv by itself. PYTHON chooses the interpreter it is made from.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
DOCS := .venv/.docs
NATIVE := .venv/.native
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help setup demo test test-slow sanitize selection lint check bench wheel sdist docs clean

help:
	@echo "make demo   networks that lose plasticity beside networks that do not, on the bundled digits"
	@echo "make test   the whole test suite; what needs Slurm, Ray, Optuna or a browser where these are installed"
	@echo "make test-slow  what takes half an hour: SAC that learns, Slurm's time limit, kernels for aarch64, installs from archives"
	@echo "make check  ruff, mypy, and the test suite with the docs' examples; .ci/run adds what is not installed, and make docs"
	@echo "make selection  the paper's choice of learning rate and batch size, really run: days; DATA=folder of the data sets"
	@echo "make bench  speed and memory against PyTorch's own layers and a plain loop; writes benchmarks/latest.json"
	@echo "make sanitize  the tests of the native kernels under address and undefined-behaviour sanitizers"
	@echo "make wheel  a wheel for this kind of machine, in dist/"
	@echo "make sdist  the source archive, in dist/"
	@echo "make docs   the documentation as a site, in site/"

setup: $(NATIVE)

# The last step makes .ready: without it, or with older settings, the environment is made anew, so that an interrupted
# set-up repairs itself.
$(READY): pyproject.toml constraints.txt
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(PIP) "torch==2.13.0"
	$(PIP) -e ".[dev,integrations,lab,rl]"
	touch $@

# The native kernels are built with the environment, and again when their sources change.
$(NATIVE): $(READY) $(wildcard src/adalin/native/*.cpp src/adalin/native/*.h) src/adalin/native/CMakeLists.txt
	@$(BIN)/python -m adalin.native || ($(PIP) --no-deps -e . && $(BIN)/python -m adalin.native)
	touch $@

demo: $(NATIVE)
	$(BIN)/adalin demo

test: $(NATIVE)
	$(BIN)/python -m pytest -n 2

# What takes half an hour. A compiler for aarch64 and an emulator are installed where they can be.
test-slow: $(NATIVE)
	$(PIP) -e ".[slurm]"
	@command -v qemu-aarch64 >/dev/null && command -v aarch64-linux-gnu-g++ >/dev/null || \
	  (apt-get update && apt-get install -y g++-aarch64-linux-gnu qemu-user) >/dev/null 2>&1 || \
	  echo "no g++ for aarch64 or no qemu-aarch64: the kernels are not tested there"
	ADALIN_SLOW=1 $(BIN)/python -m pytest -n 2 tests/rl/test_pendulum.py tests/executors/test_slurm.py \
	  tests/native/test_platforms.py tests/native/test_installs.py -k "pendulum or time_limit or native"

# The paper's selection: learning rate x batch size on seeds 0-2, the chosen on seeds 3-5, under both scalings of the inputs. Days; what is stopped goes on.
SELECT := --methods baseline adalin fourier crelu linear scratch l2 shrink-perturb $(if $(DATA),--data $(DATA)) --out runs
selection: $(NATIVE)
	for inputs in unit kumar2023; do \
	  $(BIN)/adalin sweep random-label-mnist $(SELECT) --inputs $$inputs && \
	  $(BIN)/adalin sweep shuffled-label-cifar10 $(SELECT) --inputs $$inputs && \
	  $(BIN)/adalin sweep permuted-mnist --tasks 100 $(SELECT) --inputs $$inputs && \
	  $(BIN)/adalin sweep class-split-cifar100 $(SELECT) --inputs $$inputs || exit 1; done

lint: $(NATIVE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

# The native tests with every access and every operation checked.
sanitize: $(NATIVE)
	$(BIN)/python -m tests.native.sanitize

wheel: $(NATIVE)
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps -w dist .

sdist: $(NATIVE)
	$(BIN)/python -m build --sdist --outdir dist .

bench: $(NATIVE)
	$(BIN)/python -m benchmarks

# Only this target needs what builds the site.
$(DOCS): $(NATIVE)
	$(PIP) -e ".[docs]"
	touch $@

docs: $(DOCS)
	$(BIN)/zensical build --clean --strict
	@echo "open site/index.html; search needs a server: $(BIN)/python -m http.server --directory site"

clean:
	rm -rf .venv .cache site
