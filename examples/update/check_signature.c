/* SPDX-License-Identifier: 0BSD */
/* New weights for code that stays: checked with libsodium, then attached. On a device the two files are places in
 * flash; here they are named on the command line:
 *
 *     cc -I build/kws -DMODEL_H='"kws.h"' -D'MODEL(x)=kws_##x' check_signature.c build/kws/kws.c -lsodium -o check
 *     ./check PUBLIC_KEY FILE.blob
 *
 * PUBLIC_KEY: 32 bytes, the end of what `openssl pkey -in key.pem -pubout -outform DER` writes.
 */
#include MODEL_H

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIGNATURE_BYTES = 64, MOST_BYTES = 1 << 24 };

static size_t read_file(const char *name, unsigned char *to, size_t most)
{
    FILE *file = fopen(name, "rb");
    const size_t bytes = file != NULL ? fread(to, 1, most, file) : 0;

    if (file != NULL) {
        fclose(file);
    }
    return bytes;
}

/* The order matters: nothing of a blob is used before its signature was checked. */
static const char *attach(void *arena, const unsigned char *blob, size_t bytes, const unsigned char *key)
{
    if (bytes <= SIGNATURE_BYTES) {
        return "the file is too short";
    }
    if (crypto_sign_verify_detached(blob + bytes - SIGNATURE_BYTES, blob, bytes - SIGNATURE_BYTES, key) != 0) {
        return "the signature is wrong";
    }
    return MODEL(attach)(arena, blob, bytes) == 0 ? NULL : "it is not for this code";
}

int main(int argc, char **argv)
{
    static MODEL(arena_t) arena;
    static unsigned char key[32];
    unsigned char *blob = aligned_alloc(8, MOST_BYTES);
    const char *problem;

    if (argc != 3 || blob == NULL || sodium_init() < 0 || read_file(argv[1], key, sizeof key) != sizeof key) {
        printf("usage: check PUBLIC_KEY FILE.blob\n");
        return 2;
    }
    problem = attach(&arena, blob, read_file(argv[2], blob, MOST_BYTES), key);
    if (problem != NULL) {
        printf("refused: %s\n", problem);
        return 1;
    }
    printf("attached: version %u\n", (unsigned)MODEL(weights_version)(&arena));
    free(blob);
    return 0;
}
