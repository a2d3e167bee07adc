#!/bin/sh
# Makes a training environment with MindSpore, laid out as conda lays out its own:
#   make_env.sh CONDA_DIR NAME    ->    CONDA_DIR/envs/NAME
# PYTHON names the interpreter; by default the first on PATH that MindSpore has wheels for.
set -eu

root=$1
name=$2
here=$(dirname "$0")
env=$root/envs/$name

fits() { "$1" -c 'import sys; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 11))' 2>/dev/null; }

python=
for candidate in ${PYTHON:-python3 python3.11 python3.10 python3.9}; do
    if fits "$candidate"; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "make_env.sh: no Python that MindSpore 2.7.1 has wheels for (3.9, 3.10, 3.11) was found;" >&2
    echo "  looked at: ${PYTHON:-python3 python3.11 python3.10 python3.9}" >&2
    echo "  python3 is $(python3 --version 2>&1 || true); name a fitting one: PYTHON=/path/to/python3.11" >&2
    exit 1
fi

"$python" -m venv "$env"
echo "installing MindSpore into $env (about 1 GB to download)"
"$env/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"

# What makes it an environment for conda, and a variable as `conda env config vars set` keeps it:
# MindSpore's log at errors only.
mkdir -p "$env/conda-meta"
: >"$env/conda-meta/history"
printf '{"version": 1, "env_vars": {"GLOG_v": "3"}}\n' >"$env/conda-meta/state"
