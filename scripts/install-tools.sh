#!/bin/sh
# install-tools.sh BIN: a cross compiler and an emulator, by apt where that is allowed, else by pip into
# the virtual environment whose bin/ is BIN (ziglang; unicorn comes with tinyc).
set -eu
bin=$1
. "$(dirname "$0")/apt.sh"

missing=
command -v arm-none-eabi-gcc >/dev/null || missing="$missing gcc-arm-none-eabi"
command -v qemu-system-arm >/dev/null || missing="$missing qemu-system-arm"
command -v cc >/dev/null || missing="$missing gcc libc6-dev"
command -v clang >/dev/null || missing="$missing clang"
[ -z "$missing" ] && exit 0

# shellcheck disable=SC2086  # a list of packages
apt_install $missing && exit 0
command -v arm-none-eabi-gcc >/dev/null && exit 0
"$bin/python" -c 'import ziglang' 2>/dev/null && exit 0
echo "no right to use apt: installing the ziglang compiler by pip instead" >&2
"$bin/python" -m pip install --quiet ziglang
