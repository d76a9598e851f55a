# SPDX-License-Identifier: Apache-2.0
# make demo   set everything up and compile, prove and measure the example model, then let it hear a recording
# make test   set everything up and run lint, types and the quick tests; test-slow, test-frameworks: the others
# Both may be repeated: what is there is not installed again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROCESSES := $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores < 8 ? cores + 1 : 8)))

# One process more than there are cores, as some tests wait, and at most eight (tests/workers.py).
# Tests start Python hundreds of times: what it has compiled is kept, whatever the surroundings say.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --processes $(PROCESSES)

.PHONY: demo test test-slow test-frameworks test-all fuzz lint bench docs site plot screenshots tools test-tools browser clean

demo: $(VENV)/.installed tools
	$(BIN)/tinyc build examples/kws/kws.onnx --board cortex-m4 -o build/kws --inputs examples/kws/kws.test.npz --samples 0
	$(BIN)/tinyc run examples/kws/kws.onnx --board cortex-m4 --frontend examples/kws/mfcc.toml \
		--wav examples/kws/words.wav --labels examples/kws/kws.test.npz --smooth 5

# Types are checked by one process while tests run in others; what mypy says comes last.
test: $(VENV)/.installed-dev test-tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(BIN)/mypy >$(VENV)/types.txt 2>&1 & types=$$!; echo "$(PYTEST)"; $(PYTEST); tests=$$?; \
		wait $$types; types=$$?; cat $(VENV)/types.txt; exit $$((tests | types))

# The exhaustive part: every kernel, core, compiler and rounding, every input of every model, long fuzzing, an hour or
# more on two cores; `make test-slow CASES=1` runs one case of each slow test, with PART=1/2
# of the first, third, fifth ... of these tests.
test-slow: $(VENV)/.installed-dev test-tools browser
	$(PYTEST) -m "slow and not frameworks" $(if $(CASES),--slow-cases $(CASES)) $(if $(PART),--slow-part $(PART))

# What is compared with PyTorch, torchaudio, JAX and librosa, in an environment of their own: six gigabytes.
test-frameworks: $(VENV)/.installed-dev
	[ -x $(VENV)/frameworks/bin/python ] || $(BIN)/python -m venv $(VENV)/frameworks
	$(VENV)/frameworks/bin/python -m pip install --quiet --editable ".[dev,frameworks]"
	$(VENV)/frameworks/bin/python -m pytest -m frameworks

test-all: test test-slow

# Tries to break tinyc for MINUTES (default 10): `make fuzz MINUTES=60 SEED=1`, of some targets only with
# TARGETS="onnx-files tflite", a number of cases of each with CASES=200, one case again with CASE=networks:17.
fuzz: $(VENV)/.installed-dev test-tools
	$(BIN)/python -m tests.fuzz $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) \
		$(if $(CASES),--cases $(CASES)) $(if $(TARGETS),--targets $(TARGETS)) $(if $(CASE),--case $(CASE))

lint: $(VENV)/.installed-dev test-tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The tables of docs/benchmarks.md, from the models in TINYC_MODELS (default ../shared/models).
bench: $(VENV)/.installed-dev tools
	$(BIN)/python bench/tables.py

# docs/operators.md, docs/options.md, the types of Python's keywords and docs/images/house.svg, from the code.
docs: $(VENV)/.installed-dev
	$(BIN)/python scripts/operator_docs.py
	$(BIN)/python scripts/option_docs.py
	$(BIN)/python scripts/importer_homes.py
	$(BIN)/python scripts/house.py

# The documentation as a site in build/site, strictly: a link that leads nowhere is an error.
site: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[site]"
	$(BIN)/python scripts/docs_site.py

# docs/images/peers.svg, from what `make bench` wrote and bench/peers.toml.
plot: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --editable ".[plot]"
	$(BIN)/python scripts/peer_plot.py

# docs/images/*.png, from the pages that tinyc makes.
screenshots: $(VENV)/.installed-dev tools browser
	$(BIN)/python scripts/screenshots.py

tools: $(VENV)/.installed
	@sh scripts/install-tools.sh $(BIN)

test-tools: $(VENV)/.installed
	@sh scripts/install-tools.sh $(BIN) tests

# What the slow tests of tests/browser/ need beside test-tools.
browser: $(VENV)/.installed
	@sh scripts/install-tools.sh $(BIN) browser
	@$(BIN)/python -m pip install --quiet --editable ".[browser]" || echo "no browser by pip: its tests skip" >&2

$(VENV)/.installed: pyproject.toml
	sh scripts/make-venv.sh $(PYTHON) $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[onnx,proof]"
	touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	$(BIN)/python -m pip install --quiet --editable ".[runtimes]" || echo "no TFLite runtimes: their tests skip"
	touch $@

clean:
	rm -rf $(VENV) build dist
