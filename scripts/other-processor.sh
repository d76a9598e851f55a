#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# other-processor.sh CPU TEST...: tests on an emulated x86 processor: Haswell has AVX2 and no VNNI, so onnxruntime's
# sums of signed bytes saturate; Nehalem has neither AVX nor FMA, so floats round elsewhere. About ten times slower.
set -eu
cpu=$1
shift
. "$(dirname "$0")/apt.sh"
command -v qemu-x86_64 >/dev/null || apt_install qemu-user

# QEMU's AVX2 is wrong in some of NumPy's own loops, and some of OpenBLAS's kernels are beyond it: both do without.
export NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4" OPENBLAS_CORETYPE=Prescott
exec qemu-x86_64 -cpu "$cpu" .venv/bin/python -m pytest -n 0 "$@"
