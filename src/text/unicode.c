#include "text/unicode.h"

#include "text/unicode_category.h"
#include "text/unicode_data.inc"

#include <pthread.h>

uint16_t unicode_stage[UNI_BLOCKS];
uint16_t (*unicode_block)[UNI_BLOCK];

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint16_t byte_chars[256];
static int16_t char_bytes[512];

static uint16_t of_category(unsigned category) {
    unsigned flags = category;
    if (category >= UNICODE_LL && category <= UNICODE_LU) flags |= UNI_LETTER | UNI_WORD | UNI_ONIG_WORD;
    if (category >= UNICODE_MC && category <= UNICODE_MN) flags |= UNI_MARK | UNI_WORD | UNI_ONIG_WORD | UNI_COMBINING;
    if (category == UNICODE_MN) flags |= UNI_NONSPACING;
    if (category >= UNICODE_ND && category <= UNICODE_NO) flags |= UNI_NUMBER | UNI_NUMERIC;
    if (category == UNICODE_ND || category == UNICODE_NL) flags |= UNI_WORD | UNI_ONIG_WORD;
    if (category == UNICODE_PC) flags |= UNI_WORD | UNI_ONIG_WORD;
    if (category >= UNICODE_PC && category <= UNICODE_PS) flags |= UNI_PUNCTUATION;
    if (category <= UNICODE_CS) flags |= UNI_OTHER;
    return (uint16_t)flags;
}

static void flip(uint16_t *all, const uint32_t *pairs, size_t count, unsigned flag) {
    for (size_t i = 0; i + 1 < count; i += 2)
        for (uint32_t c = pairs[i]; c <= pairs[i + 1] && c < 0x110000; c++) all[c] = (uint16_t)(all[c] ^ flag);
}

static void set_flags(uint16_t *all) {
    size_t n = sizeof unicode_category_starts / sizeof *unicode_category_starts;
    for (size_t i = 0; i < n; i++) {
        uint32_t end = i + 1 < n ? unicode_category_starts[i + 1] >> 8 : 0x110000;
        for (uint32_t c = unicode_category_starts[i] >> 8; c < end; c++)
            all[c] = of_category(unicode_category_starts[i] & 0xff);
    }
    for (uint32_t c = 0x21; c < 0x7f; c++) {
        bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!alphanumeric) all[c] |= UNI_PUNCTUATION;
    }
    static const uint16_t spaces[] = {9,      10,     11,     12,     13,     32,     0x85,   0xa0,   0x1680,
                                      0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
                                      0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) all[spaces[i]] |= UNI_SPACE;
    static const uint16_t kept[] = {0, 9, 10, 13};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) all[kept[i]] &= (uint16_t)~UNI_OTHER;
#define FLIP(name, flag) flip(all, unicode_not_##name, sizeof unicode_not_##name / sizeof(uint32_t), flag)
    FLIP(word, UNI_WORD);
    FLIP(onig_word, UNI_ONIG_WORD);
    FLIP(numeric, UNI_NUMERIC);
    FLIP(punctuation, UNI_PUNCTUATION);
    FLIP(other, UNI_OTHER);
    FLIP(nonspacing, UNI_NONSPACING);
    FLIP(combining, UNI_COMBINING);
#undef FLIP
}

// Equal blocks are kept once.
static void fold(const uint16_t *all) {
    unsigned used = 0;
    for (unsigned b = 0; b < UNI_BLOCKS; b++) {
        const uint16_t *block = all + b * UNI_BLOCK;
        unsigned same = used;
        while (same > 0 && memcmp(unicode_block[same - 1], block, sizeof *unicode_block) != 0) same--;
        if (same == 0) {
            memcpy(unicode_block[used], block, sizeof *unicode_block);
            same = ++used;
        }
        unicode_stage[b] = (uint16_t)(same - 1);
    }
    void *fitting = realloc(unicode_block, used * sizeof *unicode_block);
    if (fitting) unicode_block = fitting;
}

static void make_byte_chars(void) {
    unsigned next = 256;
    memset(char_bytes, 0xff, sizeof char_bytes);
    for (unsigned b = 0; b < 256; b++) {
        bool itself = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        byte_chars[b] = (uint16_t)(itself ? b : next++);
        char_bytes[byte_chars[b]] = (int16_t)b;
    }
}

static void make_tables(void) {
    make_byte_chars();
    uint16_t *all = malloc(0x110000 * sizeof *all);
    unicode_block = malloc(UNI_BLOCKS * sizeof *unicode_block);
    if (all && unicode_block) {
        set_flags(all);
        fold(all);
    } else {
        free(unicode_block);
        unicode_block = NULL;
    }
    free(all);
}

bool unicode_init(void) {
    pthread_once(&once, make_tables);
    return unicode_block != NULL;
}

size_t utf8_put(char *out, uint32_t c) {
    if (c < 0x80) return out[0] = (char)c, 1;
    size_t more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    out[0] = (char)(lead[more] | c >> (6 * more));
    for (size_t i = 1; i <= more; i++) out[i] = (char)(0x80 | (c >> (6 * (more - i)) & 0x3f));
    return more + 1;
}

void buffer_char(buffer *b, uint32_t c) {
    char bytes[4];
    buffer_add(b, bytes, utf8_put(bytes, c));
}

// Bytes of the sequence at `b` that fit UTF-8 so far; *whole: it is a character.
static size_t sequence(const uint8_t *b, size_t length, bool *whole) {
    *whole = b[0] < 0x80;
    if (b[0] < 0xc2 || b[0] > 0xf4) return 1;
    size_t bytes = b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : 2, n = 1;
    uint8_t least = b[0] == 0xe0 ? 0xa0 : b[0] == 0xf0 ? 0x90 : 0x80;
    uint8_t most = b[0] == 0xed ? 0x9f : b[0] == 0xf4 ? 0x8f : 0xbf;
    while (n < bytes && n < length && b[n] >= least && b[n] <= most) {
        n++;
        least = 0x80;
        most = 0xbf;
    }
    *whole = n == bytes;
    return n;
}

size_t utf8_valid(const char *text, size_t length) {
    const uint8_t *b = (const uint8_t *)text;
    size_t at = 0;
    while (at < length) {
        uint64_t word;
        if (length - at >= 8 && (memcpy(&word, b + at, 8), (word & 0x8080808080808080u) == 0)) {
            at += 8;
            continue;
        }
        bool whole;
        size_t n = sequence(b + at, length - at, &whole);
        if (!whole) return at;
        at += n;
    }
    return at;
}

void utf8_repair(const char *text, size_t length, buffer *out) {
    for (size_t at = 0; at < length;) {
        size_t valid = utf8_valid(text + at, length - at);
        buffer_add(out, text + at, valid);
        at += valid;
        if (at == length) return;
        bool whole;
        at += sequence((const uint8_t *)text + at, length - at, &whole);
        buffer_add(out, "\xef\xbf\xbd", 3);
    }
}

uint32_t byte_char(uint8_t byte) { return byte_chars[byte]; }
int char_byte(uint32_t c) { return c < 512 ? char_bytes[c] : -1; }
