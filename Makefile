# Every target builds the environment that it needs: .venv/, from requirements.lock.
#
#   CAMPAIGN=path     build the page of this campaign only (make report)
#   ARGS="..."        handed on: to servebook build, to pytest, to jupyter lab
#   PYTHON=python3.12 the interpreter to build .venv with (3.11 or newer)

.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
SHELL := /bin/sh
export CAMPAIGN PYTHON A B

BIN := .venv/bin
READY := .venv/ready

.PHONY: help
help: ## list the targets
	@awk '/^[a-z-]+:.*## / { name = $$0; sub(/:.*/, "", name); sub(/.*## /, ""); printf "make %-10s %s\n", name, $$0 }' Makefile

.PHONY: report
report: $(READY) ## build the page of every campaign in data/ (or CAMPAIGN=path) into report/
	@$(BIN)/servebook build $${CAMPAIGN:+"$$CAMPAIGN"} $(ARGS)

.PHONY: data
data: $(READY) ## make the raw dumps of the reconstructed campaigns from their plans
	@$(BIN)/servebook reconstruct $${CAMPAIGN:+"$$CAMPAIGN"} $(ARGS)

.PHONY: lab
lab: $(READY) ## open the notebooks in JupyterLab, on this machine only
	@JUPYTER_PREFER_ENV_PATH=1 $(BIN)/jupyter lab --ServerApp.ip=127.0.0.1 \
		--ServerApp.root_dir=notebooks --LabApp.news_url=None \
		--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate \
		--LabApp.extension_manager=readonly $(ARGS)

.PHONY: test
test: $(READY) ## run the tests, a file at a time on each core (ARGS=-n0: in one process)
	@$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

.PHONY: bench
bench: $(READY) ## measure reading beside other parsers (ARGS=--build: pages as well; ARGS=-h: more)
	@$(BIN)/python benchmarks/bench.py $(ARGS)

.PHONY: lint
lint: $(READY) ## check style, types and notebooks; change nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m servebook.publish.notebook_rules notebooks

.PHONY: format
format: $(READY) ## bring the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# With a campaign its gates are checked; without one, this folder's code.
.PHONY: check
ifeq ($(strip $(CAMPAIGN)),)
check: lint test ## lint and test; with CAMPAIGN=path: hold that campaign to its gates
else
check: $(READY)
	@$(BIN)/servebook check "$$CAMPAIGN" $(ARGS)
endif

.PHONY: diff
diff: $(READY) ## tell what changed between two campaigns or claims.json: A=path B=path
	@test -n "$(A)" -a -n "$(B)" || { echo "make diff: name both sides: A=path B=path" >&2; exit 2; }
	@$(BIN)/servebook diff "$$A" "$$B" $(ARGS)

.PHONY: venv
venv: $(READY) ## build .venv and nothing else

.PHONY: lock
lock: ## write requirements.lock anew, with uv (ARGS=--upgrade takes newer versions)
	@.ci/lock $(ARGS)

.PHONY: clean
clean: ## remove built pages and caches in this folder
	find report -mindepth 1 -maxdepth 1 ! -name template ! -name text -exec rm -rf {} +
	rm -rf dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache
	find servebook tests benchmarks notebooks -name __pycache__ -prune -exec rm -rf {} +
	find notebooks -name .ipynb_checkpoints -prune -exec rm -rf {} +

.PHONY: distclean
distclean: clean ## remove .venv as well, and what was compiled
	rm -rf .venv servebook/read/*.so

# A .venv that was moved, half made, or built with another PYTHON is made again.
ifneq ($(shell PYTHON='$(PYTHON)' .ci/venv --usable),yes)
.PHONY: $(READY)
endif
$(READY): requirements.lock pyproject.toml $(wildcard hatch_build.py servebook/read/*.c)
	@.ci/venv
