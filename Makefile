# Every target makes what it needs: each works as the first command after the clone.

PYTHON ?= python3
VENV := .venv
# What users' targets need: `.[dev]` in VENV is 843 MB.
TOOLKIT := .toolkit
BENCH := .bench
RELEASE := .release
# A plain path to the sources, since every Python that starts, and thousands do in the tests, would load a finder first.
INSTALL := -m pip install --quiet --config-settings editable_mode=compat --editable
SELECTED := -m "not mindspore and not torch and not kill and not rehearsals and not hangs" $(addprefix --ignore=tests/,browser conformance container)
PARALLEL := -n auto --dist worksteal # the number of processes is in tests/conftest.py
OWN_IMAGE := $(or $(IMAGE),ma-boot-training)
REHEARSAL := .rehearsal
CONDA := $(REHEARSAL)/anaconda3
TRAINING := $(CONDA)/envs/mindspore
TORCH := $(REHEARSAL)/torch
OBS := $(REHEARSAL)/obs
IMAGES := $(OBS)/ma-boot-example/cifar-10-batches-bin
EXAMPLE := examples/mindspore_cpu

# The same ranks everywhere: a checkpoint of four resumes on four.
REHEARSE := $(TOOLKIT)/bin/ma_boot --local --nodes 2 --devices-per-node 2 \
	--rendezvous mindspore --rehearsal-dir $(REHEARSAL)/jobs --obs-root $(OBS) --path-mapping $(EXAMPLE)/path_mapping_config.py
ON_HOST := ANACONDA_DIR=$(abspath $(CONDA)) DEFAULT_CONDA_ENV_NAME=mindspore
TRAIN := $(EXAMPLE)/train.py --data data --checkpoints checkpoints

CONTEXT := $(REHEARSAL)/context
SOURCES := Dockerfile .dockerignore entrypoint pyproject.toml README.md LICENSE image ma_boot path_mapping
SCRIPTS := entrypoint .ci/run image/try_toolkit $(wildcard image/make_* ma_boot/desk/image/*.sh)
EXAMPLE_IMAGE := ma-boot-example

.PHONY: help image image-check push push-values test-container setup rehearse resume rehearse-docker quick test test-conformance test-browser test-mindspore test-torch test-rehearsals test-hangs test-kill soak fuzz mutants bench bench-large bench-sync bench-scale bench-image docs pictures guard check release-check clean
.DELETE_ON_ERROR:

help: ## show the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

setup: $(VENV)/made ## make the toolkit's virtual environment

$(TOOLKIT)/made: pyproject.toml
	@echo "installing ma_boot with the SDK of Docker into $(TOOLKIT)"
	$(PYTHON) -m venv $(TOOLKIT)
	$(TOOLKIT)/bin/python $(INSTALL) '.[image]'
	touch $@

$(VENV)/made: pyproject.toml
	@echo "installing ma_boot with the tools of developers into $(VENV): 843 MB"
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python $(INSTALL) '.[dev]'
	touch $@

$(TRAINING)/made: $(EXAMPLE)/make_env.py $(EXAMPLE)/requirements.txt
	$(PYTHON) $(EXAMPLE)/make_env.py $(CONDA) mindspore
	touch $@

$(REHEARSAL)/images.made: $(EXAMPLE)/make_images.py
	$(PYTHON) $(EXAMPLE)/make_images.py $(IMAGES)
	touch $@

rehearse: $(TOOLKIT)/made $(TRAINING)/made $(REHEARSAL)/images.made ## train with MindSpore on two simulated nodes, from OBS and back
	rm -rf $(OBS)/ma-boot-example/checkpoints
	$(ON_HOST) $(REHEARSE) $(TRAIN)

resume: $(TOOLKIT)/made $(TRAINING)/made $(REHEARSAL)/images.made ## resume from the checkpoints that `make rehearse` left in OBS
	$(ON_HOST) $(REHEARSE) $(TRAIN) --epochs 4

rehearse-docker: $(TOOLKIT)/made $(REHEARSAL)/images.made $(if $(IMAGE),,$(REHEARSAL)/image.made) ## the same in two containers, of IMAGE or of one that it builds
	rm -rf $(OBS)/ma-boot-example/checkpoints
	$(REHEARSE) --runner docker --image $(or $(IMAGE),$(EXAMPLE_IMAGE)) $(TRAIN)

$(REHEARSAL)/image.made: $(TOOLKIT)/made $(EXAMPLE)/requirements.txt $(EXAMPLE)/base.Dockerfile $(shell find $(SOURCES) -type f -not -name '*.pyc')
	rm -rf $(CONTEXT) && mkdir -p $(CONTEXT) && cp -r $(SOURCES) $(CONTEXT)
	cp $(EXAMPLE)/requirements.txt $(CONTEXT)/image/environment/
	docker build --tag $(EXAMPLE_IMAGE)-base $(if $(BASE_IMAGE),--build-arg BASE_IMAGE=$(BASE_IMAGE)) - <$(EXAMPLE)/base.Dockerfile || \
		{ echo "make: name a base image that docker has or can pull: make rehearse-docker BASE_IMAGE=NAME" >&2; exit 69; }
	$(TOOLKIT)/bin/ma_boot image build --tag $(EXAMPLE_IMAGE) --build-arg BASE_IMAGE=$(EXAMPLE_IMAGE)-base \
		--build-arg CONDA_ENV=mindspore $(CONTEXT)
	touch $@

# What `make image NAME=value` passes on to the Dockerfile, by name, so that no login is in a command line. Of the
# environment, not what a shell's conda has set.
BUILD_ARGUMENTS := BASE_IMAGE TOOLKIT_IMAGE TOOLKIT_PYTHON TRAINING_PYTHON ANACONDA_DIR CONDA_ENV \
	PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST PIP_NO_INDEX
IGNORED = $(if $(filter environment,$(origin $(1))),$(filter ANACONDA_DIR CONDA_ENV,$(1)))
BUILD_OPTIONS = $(foreach name,$(BUILD_ARGUMENTS),$(if $($(name)),$(if $(call IGNORED,$(name)),,--build-arg $(name)))) \
	$(if $(PLATFORM),--platform $(PLATFORM)) $(if $(ARCH),--arch $(ARCH))

image: $(TOOLKIT)/made ## build the image of a job as IMAGE, from BASE_IMAGE (TOOLKIT_IMAGE, PLATFORM, ...: image/README.md), and check it
	$(TOOLKIT)/bin/ma_boot image build . --tag $(OWN_IMAGE) $(BUILD_OPTIONS)

image-check: $(TOOLKIT)/made $(if $(IMAGE),,image) ## check IMAGE against ModelArts' rules, or one that it builds
	$(TOOLKIT)/bin/ma_boot image check $(OWN_IMAGE) $(if $(ARCH),--arch $(ARCH))

push: push-values $(TOOLKIT)/made $(if $(IMAGE),,image) ## push IMAGE to SWR: REGION=cn-north-4 ORGANIZATION=yours, or REGISTRY=HOST
	$(TOOLKIT)/bin/ma_boot image push $(OWN_IMAGE) --region $(REGION) --organization $(ORGANIZATION) \
		$(if $(REGISTRY),--registry $(REGISTRY)) $(if $(ARCH),--arch $(ARCH))

push-values:
	@[ -n "$(REGION)" ] && [ -n "$(ORGANIZATION)" ] || \
		{ echo "make push: expected REGION and ORGANIZATION: make push REGION=cn-north-4 ORGANIZATION=yours" >&2; exit 64; }

# A process per core, since these tests compute more than they wait. Left out: 10,000 schedules of the restart protocol,
# and imports of the toolkit in processes of their own.
quick: export PYTHONDONTWRITEBYTECODE :=
quick: $(VENV)/made ## the fast tests, which need no package of the system: under a minute on two cores
	$(VENV)/bin/python -m pytest -q -n $(shell nproc) --dist worksteal --hypothesis-profile=quick \
		--ignore=tests/unit/launch/test_restart_protocol.py --ignore=tests/unit/image/test_toolkit_imports.py \
		tests/unit tests/functional/boot/test_boot.py tests/functional/cli/test_first_hour.py tests/functional/cli/test_help.py

test: $(VENV)/compiled ## all tests but those that have a target of their own
	@echo "About four minutes on two cores. Tests that take longer, or need more, have targets of their own: make help"
	$(VENV)/bin/python -m pytest $(PARALLEL) $(SELECTED)

# Once, and kept whatever the environment says: else each of the processes that run the tests would compile all of them.
# What is wrong with one is said by the run.
test $(VENV)/compiled: export PYTHONDONTWRITEBYTECODE :=
$(VENV)/compiled: $(VENV)/made $(shell find tests -name '*.py')
	$(VENV)/bin/python -m pytest --collect-only -qq $(SELECTED) >/dev/null || true
	touch $@

test-conformance: $(VENV)/made ## the tests that compare with another server of S3 and its clients: need ceph-mon, ceph-osd, radosgw, ceph-common
	$(VENV)/bin/python -m pytest $(PARALLEL) -m "not kill" tests/conformance

test-browser: $(VENV)/made ## the tests that open pages: need chromium
	$(VENV)/bin/python -m pytest tests/browser

test-container: $(VENV)/made ## the tests that build images and run them: need root, docker.io, docker-registry, debootstrap
	$(VENV)/bin/python -m pytest -m container

test-mindspore: $(VENV)/made $(TRAINING)/made ## the tests that train with MindSpore
	$(VENV)/bin/python -m pytest -m "mindspore and not kill"

test-rehearsals: $(VENV)/made ## every fault in a rehearsal of its own, and a job of 32 nodes with 8 ranks each
	$(VENV)/bin/python -m pytest $(PARALLEL) -m rehearsals --durations=0

test-torch: $(VENV)/made $(TORCH)/made ## the tests that train with PyTorch, its launchers, and Ray
	$(VENV)/bin/python -m pytest -m "torch and not kill"

$(TORCH)/made: tests/functional/torch-requirements.txt
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

test-hangs: $(VENV)/made $(TORCH)/made ## 64 seeded hangs and failures over 4 to 32 simulated nodes, 32 of PyTorch and Open MPI that use CPU, 24 healthy jobs: is the right rank named, and no other?
	$(VENV)/bin/python -m pytest -s -m hangs tests/functional/channel tests/functional/observe

test-kill: $(VENV)/made $(TRAINING)/made $(TORCH)/made ## transfers killed at 400 points, jobs with checkpoints at 400 (of MindSpore, of PyTorch), seeded faults that they survive, and a minute of `make soak`; SEED=N
	SEED=$(SEED) $(VENV)/bin/python -m pytest -m kill

soak: $(VENV)/made ## random faults, kills, renewals, rotations, two writers and mox.file, beside a model: SECONDS=1800 SEED=N
	SOAK_SECONDS=$(or $(SECONDS),1800) SEED=$(SEED) $(VENV)/bin/python -m pytest -s -m kill tests/conformance/soak

docs: $(VENV)/made ## the documents as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --quiet

pictures: $(VENV)/made ## the pictures of the documents, from rehearsals and benchmarks: need chromium, bubblewrap, fonts-wqy-zenhei
	$(VENV)/bin/python -m tests.pictures

fuzz: $(VENV)/made ## 200,000 random and mutated rank tables, of every writer
	$(VENV)/bin/python -m pytest tests/unit/rank_table -k "breaks_the_library or break_the_library" --hypothesis-profile=fuzz --timeout=0

# In a copy of the tree, which mutmut configures by its setup.cfg. The tests are those whose folder has the room's name.
MUTATED = $(wildcard ma_boot/$(ROOM) path_mapping/$(ROOM))
mutants: ROOM ?= rank_table
mutants: TESTS ?= $(wildcard tests/unit/$(ROOM) tests/unit/path_mapping/$(ROOM) tests/functional/$(ROOM))
mutants: $(VENV)/made ## breaks the code of a room in many places, and looks whether its tests notice: ROOM=rank_table TESTS='tests/...'
	@[ -n "$(MUTATED)" ] && [ -n "$(TESTS)" ] || { echo "make mutants: expected ROOM, a folder of the product, and TESTS" >&2; exit 64; }
	$(VENV)/bin/python $(INSTALL) ".[dev,mutation]"
	rm -rf .mutants/$(ROOM)/* && mkdir -p .mutants/$(ROOM)
	git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t .mutants/$(ROOM)
	printf '%s\n' '[mutmut]' source_paths= '  ma_boot' '  path_mapping' 'only_mutate=$(MUTATED)/*' \
		pytest_add_cli_args= '  --hypothesis-profile=mutants' pytest_add_cli_args_test_selection= $(TESTS:%='  %') >.mutants/$(ROOM)/setup.cfg
	cd .mutants/$(ROOM) && { nice -n 10 $(abspath $(VENV))/bin/mutmut run; $(abspath $(VENV))/bin/mutmut results; }

bench: $(BENCH)/made ## the benchmarks, beside their peers (7 minutes)
	$(BENCH)/bin/python -m pip install --quiet --no-deps --force-reinstall .
	$(BENCH)/bin/python benchmarks/rank_table.py
	$(BENCH)/bin/python benchmarks/launch.py
	$(BENCH)/bin/python benchmarks/where.py
	$(BENCH)/bin/python benchmarks/metrics.py

bench-large: $(BENCH)/made ## install the peers that are large, torchrun and msrun, for `make bench`
	$(BENCH)/bin/python -m pip install --quiet '.[bench,bench-large]'

$(BENCH)/made: pyproject.toml
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet '.[bench]'
	touch $@

bench-sync: $(BENCH)/made ## transfers beside rclone, s5cmd, aws, awscrt, boto3, obstore, opendal and the SDK, also over TLS by nginx and to radosgw (hours, 30 GB), or ROWS='A down,plan'
	$(BENCH)/bin/python -m pip install --quiet --no-deps --force-reinstall .
	$(BENCH)/bin/python benchmarks/sync.py $(if $(ROWS),--rows '$(ROWS)')
	$(if $(ROWS),,$(BENCH)/bin/python benchmarks/workers.py)
	$(if $(ROWS),,$(BENCH)/bin/python benchmarks/stages.py)

bench-scale: $(VENV)/made ## failures, hangs, restarts and reports and checkpoint agreements of jobs with up to 2,048 nodes (five minutes)
	$(VENV)/bin/python benchmarks/scale.py
	$(VENV)/bin/python benchmarks/agreement.py

bench-image: $(VENV)/made ## size of the image, time of builds and of the check; as root, with docker.io and debootstrap
	$(VENV)/bin/python benchmarks/image.py $(BASE_IMAGE)

guard: $(VENV)/made ## whether a start, a stop or a transfer costs more than its budget (a minute)
	$(VENV)/bin/python benchmarks/guard.py

check: $(VENV)/made ## ruff, mypy, codespell, shellcheck, hadolint
	@! git ls-files --stage | grep ^120000 # a link in the repository leads to one machine's directories
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	@git ls-files -z | xargs -0 $(VENV)/bin/codespell --quiet-level 2
	$(VENV)/bin/shellcheck $(SCRIPTS)
	$(VENV)/bin/hadolint --no-color Dockerfile $(EXAMPLE)/base.Dockerfile

release-check: ## build sdist and wheel of HEAD, and test the wheel in an environment that has nothing else
	rm -rf $(RELEASE) && mkdir -p $(RELEASE)/source $(RELEASE)/tree
	git archive HEAD | tar -x -C $(RELEASE)/source
	$(PYTHON) -m venv $(RELEASE)/build
	$(RELEASE)/build/bin/python -m pip install --quiet build twine
	$(RELEASE)/build/bin/python -m build --outdir $(RELEASE)/dist $(RELEASE)/source
	$(RELEASE)/build/bin/python -m twine check --strict $(RELEASE)/dist/*
	tar -x -C $(RELEASE)/tree --strip-components=1 -f $(RELEASE)/dist/*.tar.gz
	rm -r $(RELEASE)/tree/ma_boot $(RELEASE)/tree/path_mapping # so that only the wheel's can be imported
	$(PYTHON) -m venv $(RELEASE)/venv
	$(RELEASE)/venv/bin/python -m pip install --quiet "$$(echo $(RELEASE)/dist/*.whl)[dev]"
	cd $(RELEASE)/tree && $(abspath $(RELEASE))/venv/bin/python -m pytest $(PARALLEL) $(SELECTED)

clean: ## remove all that these targets made
	rm -rf $(VENV) $(TOOLKIT) $(BENCH) $(REHEARSAL) $(RELEASE) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
