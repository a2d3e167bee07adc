# The image of a training job on ModelArts. Every FROM and RUN works with the classic builder and with BuildKit.
#
#   docker build -t my-training .           or, with the check of ModelArts' rules:  ma_boot image build
#
# BASE_IMAGE has perhaps the training's Python, and one of 3.9 or later for the toolkit (TOOLKIT_PYTHON):
#   python:3.11-slim-bookworm                           CPU, x86-64 and aarch64: the default
#   a CANN or MindSpore image of AscendHub, aarch64     NPU, as most Ascend servers of ModelArts are ARM
#   the same, x86-64                                    NPU, Ascend cards in x86-64 servers
#   a CUDA runtime image of NVIDIA with python3         GPU, x86-64; without a driver, ModelArts mounts its own
# Where it has none, TOOLKIT_IMAGE is the image whose Python the toolkit brings along (docs/image.md).
# What the image gets besides is in image/: see image/README.md.
ARG BASE_IMAGE=python:3.11-slim-bookworm
ARG TOOLKIT_IMAGE=${BASE_IMAGE}

# --- the toolkit, in a virtual environment of its own -------------------------------------------------------
FROM ${TOOLKIT_IMAGE} AS toolkit
LABEL ma_boot.stage=toolkit
# Root, here and below: these stages are not the image, whose own user comes last.
# hadolint ignore=DL3002
USER 0
WORKDIR /build
# The index stays in this stage: build arguments reach neither the layers nor the history of the last one.
ARG BASE_IMAGE
ARG TOOLKIT_IMAGE
ARG TOOLKIT_PYTHON=python3
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_TRUSTED_HOST
ARG PIP_NO_INDEX
COPY image/make_toolkit image/carry_python.py image/toolkit.txt image/toolkit-build.txt image/toolkit-carry.txt image/
COPY image/wheels/ image/wheels/
RUN sh image/make_toolkit packages
COPY pyproject.toml README.md LICENSE entrypoint ./
COPY path_mapping/ path_mapping/
COPY ma_boot/ ma_boot/
RUN sh image/make_toolkit install

# --- the training environment, where the base brings none --------------------------------------------------
FROM ${BASE_IMAGE} AS training
LABEL ma_boot.stage=training
# hadolint ignore=DL3002
USER 0
WORKDIR /build
ARG ANACONDA_DIR=/home/ma-user/anaconda3
ARG CONDA_ENV
ARG TRAINING_PYTHON
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_TRUSTED_HOST
ARG PIP_NO_INDEX
# A base that names its environment keeps it: its ENV wins over the ARG of the same name.
ENV ANACONDA_DIR=${ANACONDA_DIR} DEFAULT_CONDA_ENV_NAME=${CONDA_ENV:-${DEFAULT_CONDA_ENV_NAME:-training}}
COPY image/make_environment image/
COPY image/wheels/ image/wheels/
COPY image/environment/ image/environment/
RUN sh image/make_environment /made

# --- the user, by number -----------------------------------------------------------------------------------
FROM ${BASE_IMAGE} AS user
LABEL ma_boot.stage=user
# hadolint ignore=DL3002
USER 0
COPY image/make_user image/try_toolkit /build/
RUN sh /build/make_user
COPY --from=toolkit /opt/ma_boot/ /opt/ma_boot/
RUN sh /build/try_toolkit

# --- the image ---------------------------------------------------------------------------------------------
FROM ${BASE_IMAGE}
USER 0
COPY --from=user /etc/passwd /etc/group /etc/
# 1777: `User ID` of the job form may be any number. Directories of others, and files of theirs that the user cannot
# read, become the user's; all files would double the size of an environment that the base brings.
RUN mkdir -p /home/ma-user && chmod 1777 /home/ma-user \
    && find /home/ma-user -xdev ! -user 1000 \( -type d -o ! -perm -004 \) -exec chown -h 1000:100 {} +
ARG ANACONDA_DIR=/home/ma-user/anaconda3
ARG CONDA_ENV
ENV ANACONDA_DIR=${ANACONDA_DIR} DEFAULT_CONDA_ENV_NAME=${CONDA_ENV:-${DEFAULT_CONDA_ENV_NAME:-training}} \
    PYTHONUNBUFFERED=1
COPY --from=training --chown=1000:100 /made/ ${ANACONDA_DIR}/
COPY --from=toolkit /opt/ma_boot/ /opt/ma_boot/
COPY --from=toolkit /build/entrypoint /usr/local/bin/ma_boot
# The training's pythons, and those that the virtual environments were made with, may be below a closed directory,
# /root, or be links to what is there.
RUN for python in "${ANACONDA_DIR}" "${ANACONDA_DIR}"/envs/*/bin/python "$(command -v python)" "$(command -v python3)" \
        $(sed -n 's#^home = \(.*\)#\1/python3#p' /opt/ma_boot/pyvenv.cfg "${ANACONDA_DIR}"/envs/*/pyvenv.cfg 2>/dev/null); do \
        for place in "$python" "$(readlink -f "$python")"; do \
            while [ "${#place}" -gt 1 ]; do \
                find "$place" -maxdepth 0 -type d ! -perm -001 -exec chmod o+x {} + 2>/dev/null; place=${place%/*}; \
            done; \
        done; \
    done
# The training code comes last: a change of it installs nothing again.
COPY --chown=1000:100 image/code/ /home/ma-user/code/
WORKDIR /home/ma-user
USER 1000:100
# ModelArts runs the boot command, `ma_boot train.py`; an entry point of the base would only stand before it.
ENTRYPOINT []
# That of the base might be another one, which ma_boot would not take for a stop.
STOPSIGNAL SIGTERM
CMD ["ma_boot", "--help"]
