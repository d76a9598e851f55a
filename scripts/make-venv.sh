#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make-venv.sh PYTHON FOLDER: a virtual environment, unless it is there. Debian ships venv apart from Python.
set -eu
python=$1
folder=$2

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "tinyc needs Python 3.11 or newer; '$python' is older. Try: make PYTHON=python3.12 ..." >&2
    exit 1
}
[ -x "$folder/bin/pip" ] && exit 0
rm -rf "$folder"
if ! "$python" -m venv "$folder" 2>/dev/null; then
    rm -rf "$folder"
    . "$(dirname "$0")/apt.sh"
    apt_install python3-venv || {
        echo "cannot make a virtual environment; install it with: apt-get install python3-venv" >&2
        exit 1
    }
    "$python" -m venv "$folder"
fi
