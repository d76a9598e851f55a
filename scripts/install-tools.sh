#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install-tools.sh BIN [tests|browser]: what `make demo` needs beside Python: a cross compiler and an emulator, by apt
# where that is allowed, else by pip into the virtual environment whose bin/ is BIN (ziglang; unicorn comes with tinyc).
# With `tests`, also what only tests need, with `browser`, what opens pages; without apt those tests skip, and a line says
# which tools they miss.
set -eu
bin=$1
more=${2:-}
. "$(dirname "$0")/apt.sh"

missing=
need() { # need PROGRAM PACKAGE...: the packages that provide the program, unless it is there
    command -v "$1" >/dev/null && return
    shift
    missing="$missing $*"
}

clang_runtime() { # the package of clang's sanitizers, when clang is there without them
    command -v clang >/dev/null || return 0
    for library in "$(clang -print-resource-dir)"/lib/*/libclang_rt.asan*.a; do
        [ -e "$library" ] && return
    done
    echo "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
}

need arm-none-eabi-gcc gcc-arm-none-eabi
need qemu-system-arm qemu-system-arm
need cc gcc libc6-dev
# shellcheck disable=SC2086  # lists of packages, here and below
if [ -n "$missing" ] && ! apt_install $missing; then
    if ! command -v arm-none-eabi-gcc >/dev/null && ! "$bin/python" -c 'import ziglang' 2>/dev/null; then
        echo "no right to use apt: installing the ziglang compiler by pip instead" >&2
        "$bin/python" -m pip install --quiet ziglang
    fi
fi
[ -n "$more" ] || exit 0

[ "$more" != browser ] || {
    command -v chromium >/dev/null || apt_install chromium fonts-dejavu-core ||
        echo "not installed: chromium; the tests that need it skip" >&2
    [ -x "$bin/../tools/explorer/bin/model-explorer" ] || { # with what it asks for: 660 MB
        "$bin/python" -m venv "$bin/../tools/explorer" &&
            "$bin/../tools/explorer/bin/python" -m pip install --quiet ai-edge-model-explorer
    } || echo "not installed: ai-edge-model-explorer; the test that needs it skips" >&2
    exit 0
}

missing=
need clang clang
need g++ g++
need llvm-symbolizer llvm # names the functions in what clang's sanitizers say
need riscv64-unknown-elf-gcc gcc-riscv64-unknown-elf
need qemu-system-riscv32 qemu-system-misc
need cmake cmake
need ld.lld lld
need tcc tcc
need stm32flash stm32flash
[ -e /usr/include/sodium.h ] || missing="$missing libsodium-dev" # checks signatures in C
need arduino-builder arduino-builder arduino-ctags libstdc++-arm-none-eabi-newlib
need cargo cargo
[ -e /usr/share/cargo/registry ] || missing="$missing librust-cc-dev" # the crate cc
for package in $missing; do
    apt_install "$package" || echo "not installed: $package; the tests that need it skip" >&2
done
# Build systems written in Python ask for other versions of what we use: they have an environment of their own.
[ -x "$bin/../tools/bin/pio" ] || {
    "$bin/python" -m venv "$bin/../tools" &&
        "$bin/../tools/bin/python" -m pip install --quiet platformio scons idf-component-manager
} || echo "not installed: platformio, idf-component-manager; the tests that need them skip" >&2
"$bin/../tools/bin/python" -m pip show --quiet esp-idf-kconfig 2>/dev/null ||
    "$bin/../tools/bin/python" -m pip install --quiet esp-idf-kconfig ||
    echo "not installed: esp-idf-kconfig; the tests that need it skip" >&2
# What the formats of other tools are checked with.
[ -x "$bin/../tools/bin/check-jsonschema" ] ||
    "$bin/../tools/bin/python" -m pip install --quiet junitparser sarif-pydantic check-jsonschema ||
    echo "not installed: junitparser, sarif-pydantic, check-jsonschema; the tests that need them skip" >&2
"$bin/../tools/bin/python" -m pip show --quiet ai-edge-model-explorer 2>/dev/null ||
    "$bin/../tools/bin/python" -m pip install --quiet --no-deps ai-edge-model-explorer ||
    echo "not installed: ai-edge-model-explorer; the test that needs it skips" >&2
[ -d "$bin/../tools/node_modules/speedscope" ] ||
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$bin/../tools" speedscope >/dev/null 2>&1 ||
    echo "not installed: speedscope (npm); the test that needs its schema skips" >&2
package=$(clang_runtime)
[ -z "$package" ] || apt_install "$package" || echo "not installed: $package; tests with clang's sanitizers fail" >&2
