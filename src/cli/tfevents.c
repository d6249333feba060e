#include "cli/tfevents.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_PATH = 4096, MOST_TAG = 64, MOST_EVENT = 256, CRC_ENTRIES = 256 };

struct tfevents {
    FILE *file;
    char path[MOST_PATH];
    uint32_t crc[CRC_ENTRIES];  // CRC-32C of each byte value (RFC 3720, appendix B.4)
};

// Bytes of a message that is put together.
typedef struct proto {
    uint8_t bytes[MOST_EVENT];
    size_t length;
} proto;

// Fields of tensorboard's Event, Summary and Summary.Value, with the wire type in the low bits.
enum {
    EVENT_WALL_TIME = 1 << 3 | 1,  // double
    EVENT_STEP = 2 << 3 | 0,       // varint
    EVENT_FILE_VERSION = 3 << 3 | 2,
    EVENT_SUMMARY = 5 << 3 | 2,
    SUMMARY_VALUE = 1 << 3 | 2,
    VALUE_TAG = 1 << 3 | 2,
    VALUE_SIMPLE = 2 << 3 | 5,  // float
};

static void crc_fill(uint32_t table[CRC_ENTRIES]) {
    for (uint32_t i = 0; i < CRC_ENTRIES; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
        table[i] = c;
    }
}

static uint32_t masked_crc(const tfevents *t, const uint8_t *bytes, size_t count) {
    uint32_t c = 0xffffffffu;
    for (size_t i = 0; i < count; i++) c = t->crc[(c ^ bytes[i]) & 0xffu] ^ c >> 8;
    c ^= 0xffffffffu;
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

// --- messages

static void put_byte(proto *p, unsigned value) {
    BRAID_ASSERT(p->length < sizeof p->bytes);
    p->bytes[p->length++] = (uint8_t)value;
}

static void put_bytes(proto *p, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) put_byte(p, ((const uint8_t *)bytes)[i]);
}

static void put_little(proto *p, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) put_byte(p, (unsigned)(value >> 8 * i & 0xff));
}

static void put_varint(proto *p, uint64_t value) {
    for (; value >= 0x80; value >>= 7) put_byte(p, (unsigned)(value & 0x7f) | 0x80u);
    put_byte(p, (unsigned)value);
}

static void put_nested(proto *p, unsigned field, const void *bytes, size_t count) {
    put_byte(p, field);
    put_varint(p, count);
    put_bytes(p, bytes, count);
}

static void put_time(proto *p, double seconds) {
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    put_byte(p, EVENT_WALL_TIME);
    put_little(p, bits, 8);
}

static void put_record(tfevents *t, const proto *event) {
    proto head = {.length = 0}, tail = {.length = 0};
    put_little(&head, event->length, 8);
    put_little(&head, masked_crc(t, head.bytes, 8), 4);
    put_little(&tail, masked_crc(t, event->bytes, event->length), 4);
    fwrite(head.bytes, 1, head.length, t->file);
    fwrite(event->bytes, 1, event->length, t->file);
    fwrite(tail.bytes, 1, tail.length, t->file);
}

// --- the file

static braid_err fail(const tfevents *t, const char *what, braid_error *error) {
    return braid_fail(error, errno == ENOSPC || errno == EDQUOT ? BRAID_FULL : BRAID_IO, "%s: cannot %s: %s", t->path,
                      what, strerror(errno));
}

// A name of its own for each process, which contains "tfevents", as the readers ask for.
static braid_err create(tfevents *t, const char *directory, double now, braid_error *error) {
    char host[64] = "localhost";
    gethostname(host, sizeof host - 1);
    for (char *c = host; *c; c++)
        if (*c == '/') *c = '-';
    int length = snprintf(t->path, sizeof t->path, "%s/events.out.tfevents.%010.0f.%s.%ld.0", directory, floor(now),
                          host, (long)getpid());
    if (length >= MOST_PATH) return braid_fail(error, BRAID_LIMIT, "the path %.100s... is too long", directory);
    if (mkdir(directory, 0777) != 0 && errno != EEXIST)
        return braid_fail(error, BRAID_IO, "cannot make the directory %s: %s; make its parent directory first",
                          directory, strerror(errno));
    t->file = fopen(t->path, "wbe");
    return t->file ? BRAID_OK : fail(t, "create it", error);
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

braid_err tfevents_open(const char *directory, tfevents **out, braid_error *error) {
    static const char version[] = "brain.Event:2";
    double now = seconds_now();
    *out = NULL;
    tfevents *t = calloc(1, sizeof *t);
    if (!t) return braid_fail(error, BRAID_MEMORY, "no memory for the event file");
    crc_fill(t->crc);
    braid_err err = create(t, directory, now, error);
    if (!err) {
        proto first = {.length = 0};
        put_time(&first, now);
        put_nested(&first, EVENT_FILE_VERSION, version, sizeof version - 1);
        put_record(t, &first);
        err = tfevents_flush(t, error);
    }
    if (err)
        tfevents_close(t);
    else
        *out = t;
    return err;
}

void tfevents_scalar(tfevents *t, double seconds_since_1970, uint64_t step, const char *tag, double value) {
    float narrow = (float)value;
    uint32_t bits;
    proto event = {.length = 0}, summary = {.length = 0}, scalar = {.length = 0};
    if (!isfinite(narrow)) return;
    memcpy(&bits, &narrow, sizeof bits);
    put_nested(&scalar, VALUE_TAG, tag, strnlen(tag, MOST_TAG));
    put_byte(&scalar, VALUE_SIMPLE);
    put_little(&scalar, bits, 4);
    put_nested(&summary, SUMMARY_VALUE, scalar.bytes, scalar.length);
    put_time(&event, seconds_since_1970);
    put_byte(&event, EVENT_STEP);
    put_varint(&event, step);
    put_nested(&event, EVENT_SUMMARY, summary.bytes, summary.length);
    put_record(t, &event);
}

braid_err tfevents_flush(tfevents *t, braid_error *error) {
    errno = 0;
    bool lost = ferror(t->file) != 0;
    lost = fflush(t->file) != 0 || lost;
    if (!lost) return BRAID_OK;
    clearerr(t->file);
    return fail(t, "write", error);
}

void tfevents_close(tfevents *t) {
    if (!t) return;
    if (t->file) fclose(t->file);
    free(t);
}
