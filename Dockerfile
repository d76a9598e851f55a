# SPDX-License-Identifier: Apache-2.0
# tinyc with compilers and emulators: docker build -t tinyc . && docker run --rm -v "$PWD:/work" tinyc build model.onnx
FROM python:3.12-slim
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev gcc-arm-none-eabi libnewlib-arm-none-eabi \
    gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf qemu-system-arm qemu-system-misc && rm -rf /var/lib/apt/lists/*
COPY . /tmp/tinyc
RUN pip install --no-cache-dir "/tmp/tinyc[all]" && rm -rf /tmp/tinyc
WORKDIR /work
ENTRYPOINT ["tinyc"]
