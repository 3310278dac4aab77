# Works with make and Python 3.11 or newer alone; everything else is installed into .venv and .venv-core.
#
#   make demo          debug info split off, a field log explained from it, both joined again (without PyTorch)
#   make demo-backend  a part of a model lowered, run by stock PyTorch, profiled, its failures explained
#   make test          every check: lint, format, types, layers, tests; of large matrices a sample
#   make test-all      the same with all cases, in an odd environment; takes twice the time
#   make coverage      the tests once more, and the lines and branches that they reach, room by room
#   make fuzz          changed records, zips, companions and logs for as long as you like: docs/explanation/fuzzing.md
#   make docs          the documentation as a site, checked: build/site/index.html
#   make bench         the measurements that support the claims: writes BENCHMARKS.md
#   make bench-quick   those of new processes, logs and small archives, in a minute
#   make release-check what a release publishes, built and checked: CONTRIBUTING.md, "Release"
#   make fmt           format, and repair what can be repaired
#   make clean         remove everything that make made
#
# Another interpreter: make PYTHON=python3.12 test

PYTHON ?= python3
WORKERS ?= 2
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= ranges handles methods paths bytecode data constants effects plain container companion lookup \
	records windows blocks kinds log joined archive program etdump values executorch safetensors gguf onnx \
	legacy texts diff split migrate

.DEFAULT_GOAL := help
.PHONY: help demo docs demo-backend test test-all lint coverage fuzz bench bench-quick release-check fmt clean python
.DELETE_ON_ERROR:

# The constraints reach the environment that pip builds the package in, too. Torch is taken at its pin only.
install = PIP_CONSTRAINT=constraints.txt $(1)/bin/python -m pip install -qq --disable-pip-version-check \
	--no-input -c constraints.txt
core_sources := $(shell find archive debug_archive.py -name "*.py" 2>/dev/null) LICENSE README.md

# Print a command, then run it with an environment first on the PATH: the core one, unless a target sets another.
venv = .venv-core
show = @printf "\n\$$ %s\n" "$(1)"; PATH="$(CURDIR)/$(venv)/bin:$$PATH" $(1)

help:
	@sed -n "s/^#   //p" Makefile

python:
	@command -v "$(PYTHON)" >/dev/null || { \
	    echo "make: no $(PYTHON) here; name a Python 3.11 or newer: make PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c "import sys; sys.exit(sys.version_info < (3, 11))" || { \
	    echo "make: $(PYTHON) is $$("$(PYTHON)" --version 2>&1 | head -n 1), needed is 3.11 or newer: make PYTHON=python3.12" >&2; exit 1; }

.venv-core/.ready: pyproject.toml constraints.txt $(core_sources) | python
	@echo "installing debug-archive (without PyTorch) into .venv-core …"
	@"$(PYTHON)" -m venv .venv-core
	@$(call install,.venv-core) .
	@touch $@

# Of silero-vad its archive alone is used, in tests; what it depends on, torchaudio above all, is not.
.venv/.ready: pyproject.toml constraints.txt | python
	@echo "installing debug-archive, PyTorch and the development tools into .venv …"
	@"$(PYTHON)" -m venv .venv
	@$(call install,.venv) -e ".[dev,fleet,server,torch]"
	@$(call install,.venv) --no-deps silero-vad
	@touch $@

.venv/.bench-ready: .venv/.ready
	@echo "installing what the benchmarks need besides into .venv …"
	@$(call install,.venv) -e ".[bench,torch]"
	@touch $@

demo: .venv-core/.ready
	$(call show,debug-archive inspect fixtures/oracles/plain_stack.ptl)
	$(call show,debug-archive symbolicate fixtures/oracles/plain_stack.ptl 1445)
	@mkdir -p build
	$(call show,debug-archive split fixtures/oracles/plain_unicode.ptl -o build/device.ptl -c build/model.ptdbg --handles keep --force)
	$(call show,cat fixtures/oracles/plain_unicode.stripped.txt)
	$(call show,debug-archive symbolicate build/model.ptdbg < fixtures/oracles/plain_unicode.stripped.txt)
	$(call show,debug-archive join build/device.ptl -c build/model.ptdbg -o build/joined.ptl --force)
	$(call show,debug-archive shrink fixtures/oracles/traced_stack.ptl -o build/compact.ptl --force)
	$(call show,debug-archive migrate fixtures/releases/torch-1.9.0/unicode.ptl -o build/latest.ptl --to latest --force)
	$(call show,debug-archive report fixtures/oracles/plain_stack.ptl -o build/report.html --force)
	@printf "\nOpen in a browser: %s\n" "$(CURDIR)/build/report.html"

demo-backend: venv = .venv
demo-backend: .venv/.ready
	@mkdir -p build
	$(call show,debug-archive demo --backend -o build/backend --force)

# Bytecode is written: tests start hundreds of processes, which would compile all modules again.
pytest = PYTHONDONTWRITEBYTECODE= .venv/bin/python -m pytest -q -n $(WORKERS) --dist worksteal
# Little is as usual here: no home, another language, clock, width and order of sets, colours, no buffers, a CI's variables.
odd = env -i PATH="$$PATH" HOME=/proc/none LANG=C LC_ALL=C TZ=Pacific/Kiritimati PYTHONHASHSEED=random PYTHONUNBUFFERED=1 \
	COLUMNS=40 FORCE_COLOR=1 TERM=xterm CI=true GITHUB_ACTIONS=true

test: lint
	@$(pytest)

test-all: lint
	@$(odd) $(pytest) --all

lint: .venv/.ready
	@.venv/bin/ruff check --quiet
	@.venv/bin/ruff format --check --quiet
	@.venv/bin/mypy --num-workers $(WORKERS) || { [ $$? -eq 2 ] && .venv/bin/mypy; } # if a worker does not start in time
	@PYTHONPATH=. .venv/bin/lint-imports

.venv/.fuzz-ready: .venv/.ready
	@echo "installing atheris into .venv …"
	@$(call install,.venv) -e ".[fuzz,torch]"
	@touch $@

# Each target for FUZZ_SECONDS, guided by the branches that it reaches.
fuzz: .venv/.fuzz-ready
	@for target in $(FUZZ_TARGETS); do .venv/bin/python -m tools.fuzz_guided $$target $(FUZZ_SECONDS) || exit 1; done

coverage: .venv/.ready
	@rm -rf build/coverage
	@mkdir -p build/coverage
	@PYTHONDONTWRITEBYTECODE= .venv/bin/python -m coverage run -m pytest -q -n $(WORKERS) --dist worksteal --all
	@.venv/bin/python -m coverage combine -q
	@.venv/bin/python -m coverage json -q
	@.venv/bin/python -m tools.coverage_rooms

bench: .venv/.bench-ready
	@.venv/bin/python -m tools.bench --write BENCHMARKS.md

bench-quick: .venv/.bench-ready
	@.venv/bin/python -m tools.bench --quick

docs: .venv/.ready
	@.venv/bin/python -m tools.site

# In an environment of its own; builds into dist/, and installs the wheel into empty environments. Needs an index.
.venv-release/.ready: pyproject.toml constraints.txt | python
	@echo "installing the tools of a release into .venv-release …"
	@"$(PYTHON)" -m venv .venv-release
	@.venv-release/bin/python -c "import tomllib; \
	    print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['release'], sep='\n')" \
	    > .venv-release/wanted
	@$(call install,.venv-release) -r .venv-release/wanted
	@touch $@

release-check: .venv-release/.ready
	@.venv-release/bin/python -m tools.release $(RELEASE)

fmt: .venv/.ready
	@.venv/bin/ruff check --fix-only --quiet
	@.venv/bin/ruff format

clean:
	rm -rf .venv .venv-core .venv-release build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find archive tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
