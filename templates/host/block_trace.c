/* SPDX-License-Identifier: 0BSD */
/* Counts the instructions that an emulated firmware executes: per inference, per step of the model and per
 * basic block. Built on demand as a plugin of QEMU (TC_QEMU_API is the plugin API version) or, without it,
 * as a library that unicorn calls. It changes nothing in the code that it counts.
 *
 * A configuration file has one item per line:
 *     run START END      the model's run function: counting begins when START is entered
 *     inner START END    a function of the model that the run function calls, counted as part of it
 *     return ADDRESS     where it returns to: counting ends
 *     step ADDRESS       where a step's function begins: what is executed from there on belongs to it, until
 *                        the run function or another step is entered
 *     width AT MASK LEAST  an instruction has 4 bytes where byte AT of it, by MASK, is LEAST or more, else 2
 *     limit N            stop an inference that has executed more than N instructions
 *     report FILE
 * The report has
 *     stopped 0|1            1: the limit was reached
 *     slot N                 where execution is: -1 outside, 0 the run function, k the k-th step given
 *     inference N0 N1 ...    executed instructions of each slot, one line per inference
 *     block SLOT ADDRESS BYTES INSTRUCTIONS EXECUTIONS
 *     jump SLOT SOURCE TARGET EXECUTIONS   control went from the instruction at SOURCE, the last of a block, to
 *                            TARGET, which is not the address behind it; SLOT is that of SOURCE
 *
 * and, where memory accesses were watched and one was wrong,
 *     misaligned PC ADDRESS  an LDRD, LDM, STRD, STM or FPU access that is not word aligned: cores fault there, unicorn
 *                            does not
 *
 * Jumps, unlike blocks, do not depend on where the emulator ends its blocks.
 * Counting by blocks is exact while no block is left in its middle, which only a fault or an interrupt does.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define BUCKETS 4096u
#define IT_BITS 0x0600FC00u /* of xPSR */

typedef struct jump {
    struct jump *next;
    uint64_t target, executions;
} jump_t;

typedef struct counter {
    struct counter *next;
    struct block *block;
    int slot;
    uint64_t executions;
    jump_t *jumps; /* the target in use last comes first */
} counter_t;

enum { ROLE_NONE, ROLE_ENTRY, ROLE_RUN, ROLE_RETURN, ROLE_STEP };

typedef struct block {
    struct block *next; /* of the same bucket */
    uint64_t address, last; /* of its first and its last instruction */
    uint32_t bytes, instructions;
    int role, slot;
    counter_t *counters; /* the slot in use last comes first */
} block_t;

static struct {
    uint64_t run_start, run_end, inner_start, inner_end, run_return, limit;
    uint64_t *steps; /* start addresses; slot k is steps[k - 1] */
    int slots;
    unsigned width_at, width_mask, width_least;
    char report[4096];
} config;

static struct {
    block_t *buckets[BUCKETS];
    uint64_t *totals; /* [inference][slot] */
    uint64_t *now;    /* total of the current inference and slot */
    counter_t *previous; /* of the block that ran before, NULL outside */
    int inferences, slot, stopped;
    uint64_t executed; /* of this inference */
    int is_misaligned;
    uint64_t misaligned_pc, misaligned_address;
} state;

static void *must(void *p)
{
    if (p == NULL) {
        fputs("block_trace: out of memory\n", stderr);
        _Exit(70);
    }
    return p;
}

static int configure(const char *path)
{
    char line[4200];
    FILE *f = fopen(path, "r");
    if (f == NULL) return 0;
    memset(&config, 0, sizeof config);
    config.slots = 1;
    while (fgets(line, sizeof line, f) != NULL) {
        unsigned long long a = 0, b = 0;
        if (sscanf(line, "run %llx %llx", &a, &b) == 2) {
            config.run_start = a;
            config.run_end = b;
        } else if (sscanf(line, "inner %llx %llx", &a, &b) == 2) {
            config.inner_start = a;
            config.inner_end = b;
        } else if (sscanf(line, "return %llx", &a) == 1) {
            config.run_return = a;
        } else if (sscanf(line, "step %llx", &a) == 1) {
            config.steps = must(realloc(config.steps, (size_t)config.slots * sizeof *config.steps));
            config.steps[config.slots++ - 1] = a;
        } else if (sscanf(line, "width %u %x %x", &config.width_at, &config.width_mask, &config.width_least) == 3) {
            config.width_at &= 1; /* of the two bytes that every instruction has */
        } else if (sscanf(line, "limit %llu", &a) == 1) {
            config.limit = a;
        } else if (sscanf(line, "report %4095[^\n]", config.report) != 1) {
            fclose(f);
            return 0;
        }
    }
    fclose(f);
    memset(&state, 0, sizeof state);
    state.slot = -1;
    return config.report[0] != 0;
}

static void set_role(block_t *b)
{
    b->role = ROLE_NONE;
    if (b->address == config.run_start) b->role = ROLE_ENTRY;
    else if (b->address > config.run_start && b->address < config.run_end) b->role = ROLE_RUN;
    else if (b->address >= config.inner_start && b->address < config.inner_end) b->role = ROLE_RUN;
    else if (b->address == config.run_return) b->role = ROLE_RETURN;
    for (int slot = 1; slot < config.slots; slot++) {
        if (b->address == config.steps[slot - 1]) {
            b->role = ROLE_STEP;
            b->slot = slot;
        }
    }
}

static block_t **bucket_of(uint64_t address)
{
    return &state.buckets[(address >> 1) % BUCKETS];
}

static block_t *find_block(uint64_t address, uint32_t bytes)
{
    block_t *b = *bucket_of(address);
    while (b != NULL && (b->address != address || b->bytes != bytes)) b = b->next;
    return b;
}

static block_t *add_block(uint64_t address, uint32_t bytes, uint32_t instructions, uint64_t last)
{
    block_t *b = must(calloc(1, sizeof *b));
    b->address = address;
    b->last = last;
    b->bytes = bytes;
    b->instructions = instructions;
    set_role(b);
    b->next = *bucket_of(address);
    *bucket_of(address) = b;
    return b;
}

static counter_t *counter_of(block_t *b, int slot)
{
    counter_t **link = &b->counters, *c;
    while (*link != NULL && (*link)->slot != slot) link = &(*link)->next;
    c = *link;
    if (c != NULL) {
        *link = c->next;
    } else {
        c = must(calloc(1, sizeof *c));
        c->block = b;
        c->slot = slot;
    }
    c->next = b->counters;
    b->counters = c;
    return c;
}

static void count_jump(counter_t *from, uint64_t target)
{
    jump_t **link = &from->jumps, *j;
    while (*link != NULL && (*link)->target != target) link = &(*link)->next;
    j = *link;
    if (j == NULL) {
        j = must(calloc(1, sizeof *j));
        j->target = target;
    } else {
        *link = j->next;
    }
    j->next = from->jumps;
    from->jumps = j;
    j->executions++;
}

static void enter_slot(int slot)
{
    state.slot = slot;
    state.now = slot < 0 ? NULL : state.totals + (size_t)(state.inferences - 1) * (size_t)config.slots + slot;
}

static void begin_inference(void)
{
    size_t count = (size_t)(state.inferences + 1) * (size_t)config.slots;
    state.totals = must(realloc(state.totals, count * sizeof *state.totals));
    memset(state.totals + count - config.slots, 0, (size_t)config.slots * sizeof *state.totals);
    state.inferences++;
    state.executed = 0;
    enter_slot(0);
}

/* To be called whenever a block begins. 1: the limit is reached. */
static int enter_block(block_t *b)
{
    counter_t *from = state.previous;
    if (from != NULL && b->address != from->block->address + from->block->bytes) count_jump(from, b->address);
    state.previous = NULL;
    if (b->role != ROLE_NONE) {
        if (state.slot < 0) {
            if (b->role == ROLE_ENTRY) begin_inference();
        } else if (b->role == ROLE_RETURN) {
            enter_slot(-1);
        } else {
            enter_slot(b->role == ROLE_STEP ? b->slot : 0);
        }
    }
    if (state.slot >= 0) {
        counter_t *c = b->counters;
        if (c == NULL || c->slot != state.slot) c = counter_of(b, state.slot);
        c->executions++;
        state.previous = c;
        *state.now += b->instructions;
        state.executed += b->instructions;
        state.stopped = state.executed > config.limit;
    }
    return state.stopped;
}

static int write_report(void)
{
    FILE *f = fopen(config.report, "w");
    if (f == NULL) return 0;
    fprintf(f, "stopped %d\nslot %d\n", state.stopped, state.slot);
    if (state.is_misaligned)
        fprintf(f, "misaligned %llu %llu\n", (unsigned long long)state.misaligned_pc,
                (unsigned long long)state.misaligned_address);
    for (int i = 0; i < state.inferences; i++) {
        fputs("inference", f);
        for (int slot = 0; slot < config.slots; slot++)
            fprintf(f, " %llu", (unsigned long long)state.totals[(size_t)i * (size_t)config.slots + (size_t)slot]);
        fputc('\n', f);
    }
    for (unsigned i = 0; i < BUCKETS; i++)
        for (const block_t *b = state.buckets[i]; b != NULL; b = b->next)
            for (const counter_t *c = b->counters; c != NULL; c = c->next) {
                fprintf(f, "block %d %llu %u %u %llu\n", c->slot, (unsigned long long)b->address, b->bytes,
                        b->instructions, (unsigned long long)c->executions);
                for (const jump_t *j = c->jumps; j != NULL; j = j->next)
                    fprintf(f, "jump %d %llu %llu %llu\n", c->slot, (unsigned long long)b->last,
                            (unsigned long long)j->target, (unsigned long long)j->executions);
            }
    return fclose(f) == 0;
}

static uint32_t instruction_bytes(const uint8_t *code)
{
    return (code[config.width_at] & config.width_mask) >= config.width_least ? 4 : 2;
}

#ifdef TC_QEMU_API

/* The part of QEMU's plugin interface that is used here; the same in API versions 1 and later. */
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t qemu_plugin_id_t;
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
extern uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                                  void (*callback)(qemu_plugin_id_t, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, void (*callback)(unsigned, void *),
                                                 int register_use, void *data);
extern void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*callback)(qemu_plugin_id_t, void *), void *data);

EXPORT int qemu_plugin_version = TC_QEMU_API;

static void on_block(unsigned cpu, void *data)
{
    (void)cpu;
    if (enter_block(data)) {
        write_report();
        _Exit(0);
    }
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    size_t instructions = qemu_plugin_tb_n_insns(tb);
    uint64_t address = qemu_plugin_tb_vaddr(tb), last = address;
    uint32_t bytes = 0;
    block_t *b;
    (void)id;
    for (size_t i = 0; i < instructions; i++) {
        last = address + bytes;
        /* Not qemu_plugin_insn_size: before a page ends QEMU looks at the next instruction too, and adds its bytes. */
        bytes += instruction_bytes(qemu_plugin_insn_data(qemu_plugin_tb_get_insn(tb, i)));
    }
    b = find_block(address, bytes);
    if (b == NULL) b = add_block(address, bytes, (uint32_t)instructions, last);
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, 0, b);
}

static void on_exit_of_qemu(qemu_plugin_id_t id, void *data)
{
    (void)id;
    (void)data;
    write_report();
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
    (void)info;
    if (argc != 1 || strncmp(argv[0], "config=", 7) != 0 || !configure(argv[0] + 7)) return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
    return 0;
}

#else

static struct {
    const uint8_t *code; /* the flash, to tell the instructions of a block */
    uint64_t origin, bytes;
    uint64_t moved_start, moved_end, moved_load; /* code that runs elsewhere than it lies in the flash */
    int (*stop)(void *engine);
    uint64_t pc; /* of the instruction that runs, while accesses are watched */
} host;

/* 1: ready. `code` must stay valid until trace_close. One trace at a time in a process. */
EXPORT int trace_open(const char *path, const uint8_t *code, uint64_t origin, uint64_t bytes, int (*stop)(void *))
{
    host.code = code;
    host.origin = origin;
    host.bytes = bytes;
    host.stop = stop;
    return configure(path);
}

EXPORT void trace_moved(uint64_t start, uint64_t end, uint64_t load)
{
    host.moved_start = start;
    host.moved_end = end;
    host.moved_load = load;
}

/* Where code of an address lies in the flash, counted from its first byte. */
static uint64_t place_in_flash(uint64_t address)
{
    int is_moved = address >= host.moved_start && address < host.moved_end;
    return (is_moved ? host.moved_load + (address - host.moved_start) : address) - host.origin;
}

static uint32_t count_instructions(uint64_t address, uint32_t bytes, uint64_t *last)
{
    uint32_t count = 0;
    for (uint32_t at = 0; at < bytes; count++) {
        uint64_t offset = place_in_flash(address + at);
        *last = address + at;
        at += offset + 1 < host.bytes ? instruction_bytes(host.code + offset) : 2;
    }
    return count;
}

EXPORT void trace_block(void *engine, uint64_t address, uint32_t bytes, void *data)
{
    block_t *b = find_block(address, bytes);
    (void)data;
    if (b == NULL) {
        uint64_t last = address;
        uint32_t instructions = count_instructions(address, bytes, &last);
        b = add_block(address, bytes, instructions, last);
    }
    if (enter_block(b)) host.stop(engine);
}

/* To be called for every instruction, while accesses are watched: the engine's own program counter may lag behind. */
EXPORT void trace_instruction(void *engine, uint64_t address, uint32_t bytes, void *data)
{
    (void)engine;
    (void)bytes;
    (void)data;
    host.pc = address;
}

/* LDM, STM, LDRD, STRD, PUSH, POP, exclusive accesses, and those of the FPU: word aligned, whatever the core. */
static int must_be_aligned(const uint8_t *code)
{
    unsigned half = code[0] | (unsigned)code[1] << 8;
    return (half & 0xF000) == 0xC000 || (half & 0xF600) == 0xB400 || (half & 0xFE00) == 0xE800 ||
           (half & 0xFE00) == 0xEC00;
}

/* unicorn 2.1 leaves the state of an IT block behind when a hook sees an access inside it: the next block's first instructions are
 * then skipped. What the core itself needs of that state is in its translation; so it is cleared here. */
static struct {
    int (*read)(void *engine, int id, void *value);
    int (*write)(void *engine, int id, const void *value);
    int status; /* the id of xPSR */
} registers;

EXPORT void registers_open(int (*read)(void *, int, void *), int (*write)(void *, int, const void *), int status)
{
    registers.read = read;
    registers.write = write;
    registers.status = status;
}

static void forget_it_block(void *engine)
{
    uint32_t status = 0;
    if (registers.read == NULL || registers.read(engine, registers.status, &status) != 0) return;
    if ((status & IT_BITS) == 0) return;
    status &= ~IT_BITS;
    registers.write(engine, registers.status, &status);
}

/* To be called for every access to memory. */
EXPORT void trace_access(void *engine, int type, uint64_t address, int bytes, int64_t value, void *data)
{
    uint64_t pc = host.pc;
    (void)type;
    (void)value;
    (void)data;
    forget_it_block(engine);
    if (address % 4 == 0 || bytes < 4 || state.is_misaligned) return;
    if (place_in_flash(pc) + 2 > host.bytes || !must_be_aligned(host.code + place_in_flash(pc))) return;
    state.is_misaligned = 1;
    state.misaligned_pc = pc;
    state.misaligned_address = address;
    host.stop(engine);
}

/* Watching accesses alone, in a program of anybody's: how many have an address that is no multiple of their size, or of 4,
 * and where the first is that a core refuses. */
static struct {
    int (*stop)(void *engine);
    int (*read)(void *engine, uint64_t address, void *data, uint64_t bytes);
    uint64_t pc, unaligned, refused_address;
    int is_refused;
} watch;

EXPORT void watch_open(int (*stop)(void *), int (*read)(void *, uint64_t, void *, uint64_t))
{
    memset(&watch, 0, sizeof watch);
    watch.stop = stop;
    watch.read = read;
}

EXPORT void watch_instruction(void *engine, uint64_t address, uint32_t bytes, void *data)
{
    (void)engine;
    (void)bytes;
    (void)data;
    watch.pc = address;
}

EXPORT void watch_access(void *engine, int type, uint64_t address, int bytes, int64_t value, void *data)
{
    uint8_t code[2];
    (void)type;
    (void)value;
    (void)data;
    forget_it_block(engine);
    if (address % (bytes < 4 ? (uint64_t)bytes : 4) == 0) return; /* two words at once need no more than one */
    watch.unaligned++;
    if (bytes < 4 || address % 4 == 0 || watch.read(engine, watch.pc, code, 2) != 0 || !must_be_aligned(code)) return;
    watch.is_refused = 1;
    watch.refused_address = address;
    watch.stop(engine);
}

/* Accesses that were not aligned so far. */
EXPORT uint64_t watch_unaligned(void)
{
    return watch.unaligned;
}

/* Accesses that were not aligned; *address: of the one that was refused, else 2^64 - 1. */
EXPORT uint64_t watch_close(uint64_t *address)
{
    *address = watch.is_refused ? watch.refused_address : UINT64_MAX;
    return watch.unaligned;
}

EXPORT int trace_close(void)
{
    int written = write_report();
    for (unsigned i = 0; i < BUCKETS; i++) {
        for (block_t *b = state.buckets[i], *next_block; b != NULL; b = next_block) {
            next_block = b->next;
            for (counter_t *c = b->counters, *next_counter; c != NULL; c = next_counter) {
                next_counter = c->next;
                for (jump_t *j = c->jumps, *next_jump; j != NULL; j = next_jump) {
                    next_jump = j->next;
                    free(j);
                }
                free(c);
            }
            free(b);
        }
    }
    free(state.totals);
    free(config.steps);
    memset(&state, 0, sizeof state);
    memset(&config, 0, sizeof config);
    return written;
}

#endif
