#include "node/log_file.h"

#include "base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LOG_CHECK_AT = 12,
    LOG_RUN_AT = 16,
    LOG_START_AT = LOG_RUN_AT + BRAID_ID_BYTES,
    LOG_STORE_AT = LOG_START_AT + 8,
    LOG_HEADER_BYTES = LOG_STORE_AT + 8,            // magic, version, checksum, run, start, store
    LOG_RECORD_BYTES = 4 + 4 + 8,                   // length and the flag log_continues, its complement, checksum
    LOG_FILE_VERSION = 7,                           // raised when an entry's layout or the meaning of `start` changes
    LOG_SHORTEN_BYTES = 64 << 10                    // obsolete bytes are removed once there are this many
};
// Flag in a record's length: earlier records share its sync, so it may reach the disk before them.
static const uint32_t log_continues = UINT32_C(1) << 31;
static const char log_magic[8] = {'B', 'R', 'A', 'I', 'D', 'L', 'O', 'G'};

struct log_file {
    int fd;
    uint64_t written, synced;
    uint64_t base;  // offset of the last LOG_BASE
    uint64_t vote;  // offset of the last LOG_VOTE, 0: none
    struct {        // written since the last sync
        uint64_t base, vote;  // 0: none
        uint32_t state;       // records of that base's state still to be written
    } next;
    bool unkept;  // the log has no file; fd is -1
    char *path;
    uint8_t record[LOG_RECORD_BYTES + WIRE_MAX_CONTROL_BYTES];
};

static void put32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get32(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void put64(uint8_t *at, uint64_t value) {
    put32(at, (uint32_t)value);
    put32(at + 4, (uint32_t)(value >> 32));
}

static uint64_t get64(const uint8_t *at) { return get32(at) | (uint64_t)get32(at + 4) << 32; }

static braid_err fail_io(const log_file *log, const char *what, braid_error *error) {
    int why = errno;
    const char *mend = why == ENOSPC || why == EDQUOT ? "; free some space there, and restart this peer with the same command line"
                       : why == EFBIG                 ? "; raise the limit on file sizes (ulimit -f)"
                                                      : "";
    return braid_fail(error, BRAID_IO, "the log %s: cannot %s: %s%s", log->path, what, strerror(why), mend);
}

static braid_err write_at(log_file *log, const uint8_t *bytes, size_t count, uint64_t offset, braid_error *error) {
    while (count) {
        ssize_t n = pwrite(log->fd, bytes, count, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return fail_io(log, "write", error);
        bytes += n;
        offset += (uint64_t)n;
        count -= (size_t)n;
    }
    return BRAID_OK;
}

// Returns the bytes read, fewer only at the end of the file; SIZE_MAX on an error.
static size_t read_at(const log_file *log, uint8_t *bytes, size_t count, uint64_t offset) {
    size_t done = 0;
    while (done < count) {
        ssize_t n = pread(log->fd, bytes + done, count - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return SIZE_MAX;
        if (n == 0) break;
        done += (size_t)n;
    }
    return done;
}

static bool sync_directory(const char *path) {
    char directory[4096];
    const char *end = strrchr(path, '/');
    size_t length = end == NULL ? 0 : (size_t)(end - path);
    if (length >= sizeof directory) return false;
    snprintf(directory, sizeof directory, "%.*s", (int)length, path);
    int fd = open(end == NULL ? "." : length == 0 ? "/" : directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) close(fd);
    return good;
}

// Checksum of the header with its own field zero. Never 0, the value of files by programs without
// the checksum.
static uint32_t header_checksum(const uint8_t *header) {
    uint8_t copy[LOG_HEADER_BYTES];
    memcpy(copy, header, sizeof copy);
    put32(copy + LOG_CHECK_AT, 0);
    uint32_t check = (uint32_t)sha256_short(copy, sizeof copy);
    return check ? check : 1;
}

static void header_make(const braid_hash *run, uint64_t start, uint64_t store, uint8_t *header) {
    memset(header, 0, LOG_HEADER_BYTES);
    memcpy(header, log_magic, sizeof log_magic);
    put32(header + 8, LOG_FILE_VERSION);
    memcpy(header + LOG_RUN_AT, run->bytes, BRAID_ID_BYTES);
    put64(header + LOG_START_AT, start);
    put64(header + LOG_STORE_AT, store);
    put32(header + LOG_CHECK_AT, header_checksum(header));
}

static braid_err header_write(log_file *log, const braid_hash *run, uint64_t start, log_file_found *found, braid_error *error) {
    uint8_t header[LOG_HEADER_BYTES];
    if (getrandom(&found->store, sizeof found->store, 0) != sizeof found->store) return fail_io(log, "create an id for it", error);
    header_make(run, start, found->store, header);
    braid_err err = write_at(log, header, sizeof header, 0, error);
    if (err) return err;
    log->written = LOG_HEADER_BYTES;
    err = log_file_sync(log, error);
    // Without a synced directory entry a power cut may lose the whole log. Some systems cannot sync
    // it.
    if (!err) sync_directory(log->path);
    return err;
}

static braid_err header_check(log_file *log, const braid_hash *run, uint64_t *start, uint64_t *store, braid_error *error) {
    uint8_t header[LOG_HEADER_BYTES];
    if (read_at(log, header, sizeof header, 0) != sizeof header) return fail_io(log, "read", error);
    if (memcmp(header, log_magic, sizeof log_magic) != 0)
        return braid_fail(error, BRAID_FORMAT, "%s is not a log of braid; name another file for the log", log->path);
    if (get32(header + 8) != LOG_FILE_VERSION)
        return braid_fail(error, BRAID_FORMAT, "the log %s has version %u, and this program reads version %d; remove it or name another file", log->path,
                          get32(header + 8), LOG_FILE_VERSION);
    // A wrong start would set aside acknowledged entries; a wrong store name would make this
    // another voter.
    uint32_t check = get32(header + LOG_CHECK_AT);
    if (check && check != header_checksum(header))
        return braid_fail(error, BRAID_FORMAT, "the log %s is damaged in its first %d bytes; restore it or name another file", log->path, LOG_HEADER_BYTES);
    if (memcmp(header + LOG_RUN_AT, run->bytes, BRAID_ID_BYTES) != 0)
        return braid_fail(error, BRAID_FORMAT, "the log %s is of another run; remove it or name another file", log->path);
    *store = get64(header + LOG_STORE_AT);
    *start = get64(header + LOG_START_AT);
    return BRAID_OK;
}

// False: the bytes are not a record's head.
static bool head_read(const uint8_t *head, uint32_t *length) {
    *length = get32(head) & ~log_continues;
    return get32(head) == ~get32(head + 4) && *length > 0 && *length <= WIRE_MAX_CONTROL_BYTES;
}

static void head_write(uint8_t *head, uint32_t length, bool continues) {
    uint32_t word = continues ? length | log_continues : length;
    put32(head, word);
    put32(head + 4, ~word);
}

// False: the record is torn or absent. Otherwise it is in log->record.
static bool record_whole(log_file *log, uint64_t offset, uint64_t *bytes) {
    uint8_t *r = log->record;
    uint32_t length;
    if (read_at(log, r, LOG_RECORD_BYTES, offset) != LOG_RECORD_BYTES || !head_read(r, &length)) return false;
    if (read_at(log, r + LOG_RECORD_BYTES, length, offset + LOG_RECORD_BYTES) != length) return false;
    if (sha256_short(r + LOG_RECORD_BYTES, length) != get64(r + 8)) return false;
    *bytes = LOG_RECORD_BYTES + length;
    return true;
}

static bool record_read(log_file *log, uint64_t offset, log_entry *entry, uint64_t *bytes) {
    return record_whole(log, offset, bytes) && log_entry_decode(log->record + LOG_RECORD_BYTES, *bytes - LOG_RECORD_BYTES, entry);
}

// Whether an intact record follows a damaged one. A power cut damages only records of one sync, of
// which any page may be missing. So an intact first record of a later sync means a damaged disk,
// and one that cannot be decoded another program. Cutting there would lose decisions that other
// peers have acted on.
static bool whole_record_from(log_file *log, uint64_t bad, uint64_t size) {
    uint64_t bytes;
    uint32_t length;
    uint8_t head[8];
    for (uint64_t at = bad; at + LOG_RECORD_BYTES <= size; at++) {
        if (read_at(log, head, sizeof head, at) != sizeof head) return false;
        bool begins = head_read(head, &length) && (at == bad || (get32(head) & log_continues) == 0);
        if (begins && record_whole(log, at, &bytes)) return true;
    }
    return false;
}

// Computes where a state of `entries` records that begins at `at` ends. False: it is incomplete.
static bool base_whole(log_file *log, uint64_t at, uint32_t entries, uint64_t size, uint64_t *end) {
    log_entry entry;
    uint64_t bytes;
    for (; entries > 0; entries--, at += bytes)
        if (at >= size || !record_read(log, at, &entry, &bytes)) return false;
    *end = at;
    return true;
}

// Finds the last base and the end of the intact records.
static void log_scan(log_file *log, uint64_t size, log_file_found *found) {
    log_entry entry;
    uint64_t at = LOG_HEADER_BYTES, bytes, end;
    log->base = LOG_HEADER_BYTES;
    for (; at < size && record_read(log, at, &entry, &bytes); at = end) {
        end = at + bytes;
        if (entry.kind == LOG_BASE) {
            if (!base_whole(log, end, entry.u.base.entries, size, &end)) break;
            log->base = at;
        }
        if (entry.kind == LOG_VOTE) log->vote = at;
        found->entries++;
        found->last_index = entry.index;
    }
    log->written = at;
}

void log_file_recall(log_file *log, log_file_entry_fn each, void *context) {
    log_entry entry;
    uint64_t bytes;
    for (uint64_t at = LOG_HEADER_BYTES; at < log->written && record_read(log, at, &entry, &bytes); at += bytes)
        if ((at >= log->base || entry.kind == LOG_VOTE) && !each(context, &entry)) return;
}

static braid_err log_replay(log_file *log, uint64_t size, log_file_found *found, braid_error *error) {
    log_entry entry;
    uint64_t bytes;
    log_scan(log, size, found);
    uint64_t bad = log->written;
    while (bad < size && record_read(log, bad, &entry, &bytes)) bad += bytes;  // records of an incomplete state
    if (bad < size && whole_record_from(log, bad, size))
        return braid_fail(error, BRAID_FORMAT, "the log %s is damaged, or not of this program, at byte %llu; restore it or name another file",
                          log->path, (unsigned long long)bad);
    found->cut_bytes = size - log->written;
    if (found->cut_bytes && ftruncate(log->fd, (off_t)log->written) != 0) return fail_io(log, "cut a torn record", error);
    return log_file_sync(log, error);
}

// Whether the path still leads to the open file: the previous owner of the lock may have replaced
// it by a shortened log.
static bool is_at_its_path(const log_file *log) {
    struct stat here, there;
    return fstat(log->fd, &here) == 0 && stat(log->path, &there) == 0 && here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

static braid_err log_lock(log_file *log, braid_error *error) {
    if (flock(log->fd, LOCK_EX | LOCK_NB) == 0 && is_at_its_path(log)) return BRAID_OK;
    return braid_fail(error, BRAID_STATE, "the log %s is in use by another peer; stop that one first", log->path);
}

braid_err log_file_retire(const char *path, braid_error *error) {
    size_t bytes = strlen(path) + sizeof ".old";
    char *old = malloc(bytes);
    if (!old) return braid_fail(error, BRAID_MEMORY, "no memory for the log");
    snprintf(old, bytes, "%s.old", path);
    int failed = rename(path, old);
    free(old);
    return failed ? braid_fail(error, BRAID_IO, "the log %s: cannot rename it to %s.old: %s", path, path, strerror(errno)) : BRAID_OK;
}

// Renames the log of another start; its lock is held until then.
static braid_err log_set_aside(log_file *log, braid_error *error) {
    braid_err err = log_file_retire(log->path, error);
    if (err) return err;
    close(log->fd);
    log->fd = open(log->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return log->fd < 0 ? fail_io(log, "open", error) : log_lock(log, error);
}

// Refuses a device or a pipe, which stores nothing.
static braid_err check_plain(const log_file *log, braid_error *error) {
    struct stat status;
    if (fstat(log->fd, &status) != 0) return fail_io(log, "read its status", error);
    return S_ISREG(status.st_mode) ? BRAID_OK : braid_fail(error, BRAID_FORMAT, "%s is not a plain file; name another file for the log", log->path);
}

static braid_err log_begin(log_file *log, const braid_hash *run, uint64_t start, log_file_found *found, braid_error *error) {
    uint64_t lies = start;
    struct stat status;
    braid_err err = check_plain(log, error);
    if (!err) err = log_lock(log, error);
    if (err) return err;
    if (fstat(log->fd, &status) != 0) return fail_io(log, "read its status", error);
    uint64_t size = (uint64_t)status.st_size;
    if (size < LOG_HEADER_BYTES) {  // new, or torn before the first entry was acknowledged
        found->cut_bytes = size;
        return header_write(log, run, start, found, error);
    }
    err = header_check(log, run, &lies, &found->store, error);
    if (err || lies == start) return err ? err : log_replay(log, size, found, error);
    err = log_set_aside(log, error);
    return err ? err : header_write(log, run, start, found, error);
}

static log_file *log_new(const char *path) {
    log_file *log = calloc(1, sizeof *log);
    if (!log || (log->path = strdup(path))) return log;
    free(log);
    return NULL;
}

braid_err log_file_open(const char *path, const braid_hash *run, uint64_t start, log_file **out, log_file_found *found, braid_error *error) {
    log_file_found ignored;
    if (!found) found = &ignored;
    memset(found, 0, sizeof *found);
    log_file *log = log_new(path);
    if (!log) return braid_fail(error, BRAID_MEMORY, "no memory for the log");
    log->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    braid_err err = log->fd < 0 ? fail_io(log, "open", error) : log_begin(log, run, start, found, error);
    if (err) {
        log_file_close(log);
        return err;
    }
    *out = log;
    return BRAID_OK;
}

braid_err log_file_look(const char *path, const braid_hash *run, bool *there, uint64_t *start, braid_error *error) {
    struct stat status;
    uint64_t store;
    *there = false;
    log_file *log = log_new(path);
    if (!log) return braid_fail(error, BRAID_MEMORY, "no memory for the log");
    log->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // opening a named pipe would block
    braid_err err = log->fd < 0 && errno != ENOENT ? fail_io(log, "open", error) : BRAID_OK;
    if (log->fd >= 0) err = check_plain(log, error);
    if (log->fd >= 0 && !err && fstat(log->fd, &status) == 0 && (uint64_t)status.st_size >= LOG_HEADER_BYTES) {
        err = header_check(log, run, start, &store, error);
        *there = err == BRAID_OK;
    }
    log_file_close(log);
    return err;
}

braid_err log_file_open_unkept(log_file **out, log_file_found *found, braid_error *error) {
    memset(found, 0, sizeof *found);
    log_file *log = log_new("without a file");
    if (!log) return braid_fail(error, BRAID_MEMORY, "no memory for the log");
    log->unkept = true;
    log->fd = -1;
    if (getrandom(&found->store, sizeof found->store, 0) != sizeof found->store) {
        log_file_close(log);
        return braid_fail(error, BRAID_STATE, "the system provides no random numbers");
    }
    *out = log;
    return BRAID_OK;
}

bool log_file_is_kept(const log_file *log) { return !log->unkept; }

void log_file_close(log_file *log) {
    if (!log) return;
    if (log->fd >= 0) close(log->fd);
    free(log->path);
    free(log);
}

// Records since the last sync were never acknowledged. They are cut, so that a later append starts
// after an intact record.
static braid_err log_roll_back(log_file *log, braid_err err) {
    if (ftruncate(log->fd, (off_t)log->synced) == 0) log->written = log->synced;
    memset(&log->next, 0, sizeof log->next);
    return err;
}

// ---- removing obsolete records
// ------------------------------------------------------------------------------------

static bool copy_to(log_file *log, int fd, uint64_t from, uint64_t end, uint64_t *at) {
    while (from < end) {
        size_t room = sizeof log->record, count = end - from < room ? (size_t)(end - from) : room;
        if (read_at(log, log->record, count, from) != count || pwrite(fd, log->record, count, (off_t)*at) != (ssize_t)count) return false;
        from += count;
        *at += count;
    }
    return true;
}

// The copy is synced as a whole before it is used, so no record in it shares a later record's sync.
static bool copy_records(log_file *log, int fd, uint64_t from, uint64_t end, uint64_t *at) {
    uint64_t bytes;
    for (; from < end; from += bytes, *at += bytes) {
        if (!record_whole(log, from, &bytes)) return false;
        head_write(log->record, (uint32_t)(bytes - LOG_RECORD_BYTES), false);
        if (pwrite(fd, log->record, bytes, (off_t)*at) != (ssize_t)bytes) return false;
    }
    return true;
}

// Copies the header, the last vote if it precedes the base, and everything from the base on. The
// copy is locked like the original.
static bool copy_rest(log_file *log, int fd, uint64_t *vote, uint64_t *base) {
    log_entry entry;
    uint64_t at = 0, bytes;
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0 || !copy_to(log, fd, 0, LOG_HEADER_BYTES, &at)) return false;
    *vote = 0;
    if (log->vote != 0 && log->vote < log->base) {
        *vote = at;
        if (!record_read(log, log->vote, &entry, &bytes) || !copy_records(log, fd, log->vote, log->vote + bytes, &at)) return false;
    }
    *base = at;
    return copy_records(log, fd, log->base, log->written, &at) && fdatasync(fd) == 0;
}

// Replaces the log once the copy is on the disk. A crash leaves the old or the new file, and both
// are valid. Without space for a copy, or without a way to sync a directory, the long log stays in
// use.
static braid_err log_shorten(log_file *log, braid_error *error) {
    char other[4096];
    uint64_t vote = 0, base = 0;
    bool fits = snprintf(other, sizeof other, "%s.new", log->path) < (int)sizeof other;
    int fd = fits ? open(other, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    bool whole = copy_rest(log, fd, &vote, &base);
    if (!whole || !sync_directory(log->path) || rename(other, log->path) != 0) {
        if (fd >= 0) unlink(other);
        if (fd >= 0) close(fd);
        return BRAID_OK;
    }
    close(log->fd);
    log->fd = fd;
    log->vote = log->vote > log->base ? log->vote - log->base + base : vote;
    log->synced = log->written = log->written - log->base + base;
    log->base = base;
    return sync_directory(log->path) ? BRAID_OK : fail_io(log, "sync its directory", error);
}

// A base is valid only with all of its state.
static braid_err take_base(log_file *log, braid_error *error) {
    if (log->next.vote != 0) log->vote = log->next.vote;
    bool newer = log->next.base != 0 && log->next.state == 0;
    if (newer) log->base = log->next.base;
    if (newer || log->next.base == 0) memset(&log->next, 0, sizeof log->next);
    return newer && log->base - LOG_HEADER_BYTES >= LOG_SHORTEN_BYTES ? log_shorten(log, error) : BRAID_OK;
}

static void note_record(log_file *log, const log_entry *entry) {
    if (entry->kind == LOG_VOTE) {
        log->next.vote = log->written;
    } else if (entry->kind == LOG_BASE) {
        log->next.base = log->written;
        log->next.state = entry->u.base.entries;
    } else if (log->next.state > 0) {
        log->next.state--;
    }
}

braid_err log_file_append(log_file *log, const log_entry *entry, braid_error *error) {
    if (log->unkept) return BRAID_OK;
    uint8_t *r = log->record;
    size_t length = log_entry_encode(entry, r + LOG_RECORD_BYTES, WIRE_MAX_CONTROL_BYTES);
    BRAID_ASSERT(length > 0);
    head_write(r, (uint32_t)length, log->written > log->synced);
    put64(r + 8, sha256_short(r + LOG_RECORD_BYTES, length));
    braid_err err = write_at(log, r, LOG_RECORD_BYTES + length, log->written, error);
    if (err) return log_roll_back(log, err);
    note_record(log, entry);
    log->written += LOG_RECORD_BYTES + length;
    return BRAID_OK;
}

braid_err log_file_sync(log_file *log, braid_error *error) {
    if (log->unkept) return BRAID_OK;
    if (fdatasync(log->fd) != 0) return log_roll_back(log, fail_io(log, "sync", error));
    log->synced = log->written;
    return take_base(log, error);
}
