#include "format/text_check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Magic numbers of formats that are not text (file(1), magic(5)).
typedef struct magic {
    const char *bytes;
    uint16_t count, at;
    const char *what, *mend;  // %s in `mend`: the path
} magic;

static const magic magics[] = {
    {"\x1f\x8b", 2, 0, "is gzip-compressed", "decompress it: gunzip %s"},
    {"\x28\xb5\x2f\xfd", 4, 0, "is compressed with zstd", "decompress it: unzstd %s"},
    {"\xfd" "7zXZ", 6, 0, "is compressed with xz", "decompress it: unxz %s"},
    {"1AY&SY", 6, 4, "is compressed with bzip2", "decompress it: bunzip2 %s"},
    {"\x04\x22\x4d\x18", 4, 0, "is compressed with lz4", "decompress it: unlz4 %s"},
    {"\x1f\x9d", 2, 0, "is compressed with compress", "decompress it: uncompress %s"},
    {"PK\x03\x04", 4, 0, "is a zip archive (or a document in one: docx, odt, epub, xlsx)", "take the plain text out of it: unzip %s, or save it as plain text"},
    {"7z\xbc\xaf\x27\x1c", 6, 0, "is a 7z archive", "take the plain text out of it: 7z x %s"},
    {"Rar!\x1a\x07", 6, 0, "is a rar archive", "take the plain text out of it: unrar x %s"},
    {"ustar", 5, 257, "is a tar archive", "take the plain text out of it: tar xf %s"},
    {"%PDF-", 5, 0, "is a PDF document", "make plain text of it: pdftotext %s"},
    {"{\\rtf", 5, 0, "is an RTF document", "save it as plain text"},
    {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 8, 0, "is a document of an office program", "save it as plain text"},
    {"PAR1\x15", 5, 0, "is a Parquet file", "write its column of text to a plain text file"},
    {"SQLite format 3", 16, 0, "is an SQLite database", "write its text to a plain text file"},
    {"\x88\xd8\x34\x01", 4, 0, "is a token file of llm.c", "set data.tokenizer to the tokenizer of its ids"},
    {"\xa1\xd9\x34\x01", 4, 0, "is a token file of llm.c", "set data.tokenizer to the tokenizer of its ids"},
    {"\x93NUMPY", 6, 0, "is a NumPy array", "give the text that it was made of; braid reads plain text, a byte a token"},
    {"\x89PNG", 4, 0, "is an image", "name a plain text file"},
    {"\xff\xd8\xff", 3, 0, "is an image", "name a plain text file"},
    {"\x7f" "ELF", 4, 0, "is a program", "name a plain text file"},
};

static const char to_utf8[] = "convert it: iconv -f %s -t UTF-8 %.160s > text.txt";

static bool refuse(char why[TEXT_WHY], const char *what, const char *mend, const char *path) {
    char how[256];
    const char *place = strstr(mend, "%s");
    if (place) snprintf(how, sizeof how, "%.*s%.160s%s", (int)(place - mend), mend, path, place + 2);
    else snprintf(how, sizeof how, "%s", mend);
    snprintf(why, TEXT_WHY, "%.95s; %.220s", what, how);
    return false;
}

static bool refuse_encoding(char why[TEXT_WHY], const char *name, const char *path) {
    char how[256];
    snprintf(how, sizeof how, to_utf8, name, path);
    snprintf(why, TEXT_WHY, "is encoded as %s; %s", name, how);
    return false;
}

static const char *marked_encoding(const uint8_t *bytes, size_t count) {
    if (count >= 4 && memcmp(bytes, "\xff\xfe\0\0", 4) == 0) return "UTF-32";
    if (count >= 4 && memcmp(bytes, "\0\0\xfe\xff", 4) == 0) return "UTF-32";
    if (count >= 2 && (memcmp(bytes, "\xff\xfe", 2) == 0 || memcmp(bytes, "\xfe\xff", 2) == 0)) return "UTF-16";
    return NULL;
}

typedef struct tally {
    size_t zeros[4];  // indexed by position modulo 4
    size_t all_zeros, controls, malformed;
} tally;

// Control characters that occur in text: tab, line feed, form feed, carriage return, backspace,
// escape (colours in logs).
static bool is_control(uint8_t byte) { return (byte < 0x20 && !strchr("\t\n\f\r\b\x1b", byte)) || byte == 0 || byte == 0x7f; }

// Length of the UTF-8 sequence at this position, 0: malformed. A sequence at the end of the sample
// may be incomplete.
static size_t sequence_bytes(const uint8_t *bytes, size_t count) {
    size_t length = bytes[0] < 0x80 ? 1 : bytes[0] >> 5 == 6 ? 2 : bytes[0] >> 4 == 14 ? 3 : bytes[0] >> 3 == 30 ? 4 : 0;
    for (size_t i = 1; i < length && i < count; i++)
        if (bytes[i] >> 6 != 2) return 0;
    return length < count ? length : length ? count : 0;
}

static void count_bytes(const uint8_t *bytes, size_t count, tally *t) {
    for (size_t i = 0; i < count; i++) {
        t->zeros[i % 4] += bytes[i] == 0;
        t->all_zeros += bytes[i] == 0;
        t->controls += is_control(bytes[i]);
    }
    for (size_t i = 0; i < count;) {
        size_t length = sequence_bytes(bytes + i, count - i);
        t->malformed += length == 0;
        i += length ? length : 1;
    }
}

// Most characters of most languages have a zero byte or two in these encodings; text with one byte
// per character has none.
static const char *guessed_encoding(const tally *t, size_t count) {
    size_t fourth = count / 4, most = fourth - fourth / 8, even = t->zeros[0] + t->zeros[2], odd = t->zeros[1] + t->zeros[3];
    if (fourth == 0 || t->all_zeros > count - fourth / 2) return NULL;
    if (t->zeros[1] >= most && t->zeros[2] >= most && t->zeros[3] >= most) return "UTF-32LE";
    if (t->zeros[0] >= most && t->zeros[1] >= most && t->zeros[2] >= most) return "UTF-32BE";
    if (odd >= count / 5 && even * 20 <= odd) return "UTF-16LE";
    if (even >= count / 5 && odd * 20 <= even) return "UTF-16BE";
    return NULL;
}

// Text in an older 8-bit encoding is malformed UTF-8, but has no more control characters than other
// text.
static bool is_binary(const tally *t, size_t count) { return t->controls * (t->malformed * 50 > count ? 50 : 10) > count; }

bool text_check_bytes(const uint8_t *bytes, size_t count, const char *path, char why[TEXT_WHY]) {
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
        const magic *m = &magics[i];
        if (count >= (size_t)m->at + m->count && memcmp(bytes + m->at, m->bytes, m->count) == 0) return refuse(why, m->what, m->mend, path);
    }
    const char *encoding = marked_encoding(bytes, count);
    if (encoding) return refuse_encoding(why, encoding, path);
    tally t = {{0}, 0, 0, 0};
    if (count > TEXT_SAMPLE_BYTES) count = TEXT_SAMPLE_BYTES;
    count_bytes(bytes, count, &t);
    encoding = guessed_encoding(&t, count);
    if (encoding) return refuse_encoding(why, encoding, path);
    if (is_binary(&t, count)) return refuse(why, "is binary data, not text", "name a plain text file (UTF-8, or any encoding of one byte a character)", path);
    return true;
}

bool text_check_inside(const uint8_t *bytes, size_t count, uint64_t at, const char *path, char why[TEXT_WHY]) {
    char what[96];
    tally t = {{0}, 0, 0, 0};
    count_bytes(bytes, count, &t);
    snprintf(what, sizeof what, "holds binary data, not text, near byte %llu", (unsigned long long)at);
    return !is_binary(&t, count) || refuse(why, what, "restore it, or name another plain text file", path);
}

static bool plain(char why[TEXT_WHY], const char *text) {
    snprintf(why, TEXT_WHY, "cannot be read: %s", text);
    return false;
}

// Reads the file's bytes from `at` on, up to a sample. False: they cannot be read.
static bool read_sample(int fd, uint64_t at, uint8_t sample[TEXT_SAMPLE_BYTES], size_t *count) {
    for (*count = 0; *count < TEXT_SAMPLE_BYTES;) {
        ssize_t n = pread(fd, sample + *count, TEXT_SAMPLE_BYTES - *count, (off_t)(at + *count));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n == 0;
        *count += (size_t)n;
    }
    return true;
}

// Checks later samples, because a text may end in other data: blocks of another file, or zeros
// after a crash.
static bool check_later(int fd, uint64_t bytes, const char *path, char why[TEXT_WHY]) {
    uint8_t sample[TEXT_SAMPLE_BYTES];
    const uint64_t places[] = {bytes / 2, bytes - TEXT_SAMPLE_BYTES};
    for (size_t i = 0; i < 2; i++) {
        size_t count;
        if (!read_sample(fd, places[i], sample, &count)) return plain(why, strerror(errno));
        if (!text_check_inside(sample, count, places[i], path, why)) return false;
    }
    return true;
}

static bool check_regular(int fd, uint64_t bytes, const char *path, char why[TEXT_WHY]) {
    uint8_t sample[TEXT_SAMPLE_BYTES];
    size_t count;
    if (bytes == 0) return refuse(why, "is empty", "name a plain text file", path);
    if (!read_sample(fd, 0, sample, &count)) return plain(why, strerror(errno));
    if (!text_check_bytes(sample, count, path, why)) return false;
    return bytes <= TEXT_SAMPLE_BYTES || check_later(fd, bytes, path, why);
}

static bool check_opened(int fd, const char *path, char why[TEXT_WHY]) {
    struct stat about;
    if (fstat(fd, &about) != 0) return plain(why, strerror(errno));
    if (S_ISDIR(about.st_mode)) return refuse(why, "is a directory", "name the plain text files in it, as a list", path);
    if (S_ISFIFO(about.st_mode)) return refuse(why, "is a pipe, and text is read more than once", "write it to a file first: cat %s > text.txt", path);
    if (!S_ISREG(about.st_mode)) return refuse(why, "is not a regular file", "name a plain text file", path);
    return check_regular(fd, (uint64_t)about.st_size, path, why);
}

bool text_check_file(const char *path, char why[TEXT_WHY]) {
    // O_NONBLOCK, because a pipe would block until a writer opens it
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        snprintf(why, TEXT_WHY, "cannot be read: %s; name a plain text file, relative to the file that describes the run", strerror(errno));
        return false;
    }
    bool good = check_opened(fd, path, why);
    close(fd);
    return good;
}

bool text_check_marked(const char *path) {
    uint8_t first[3];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool marked = fd >= 0 && pread(fd, first, sizeof first, 0) == (ssize_t)sizeof first && memcmp(first, "\xef\xbb\xbf", 3) == 0;
    if (fd >= 0) close(fd);
    return marked;
}
