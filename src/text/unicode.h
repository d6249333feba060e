// Characters: UTF-8, and the properties that the libraries under `tokenizers` give them.
#ifndef BRAID_TEXT_UNICODE_H
#define BRAID_TEXT_UNICODE_H

#include "text/buffer.h"

enum {
    UNI_CATEGORY = 31,          // the low bits: enum unicode_category
    UNI_LETTER = 1 << 5,        // \p{L}
    UNI_MARK = 1 << 6,          // \p{M}
    UNI_NUMBER = 1 << 7,        // \p{N}
    UNI_SPACE = 1 << 8,         // White_Space
    UNI_WORD = 1 << 9,          // \w of the crate regex
    UNI_ONIG_WORD = 1 << 10,    // \w of Oniguruma
    UNI_NUMERIC = 1 << 11,      // Rust's is_numeric
    UNI_PUNCTUATION = 1 << 12,  // Punctuation and BertPreTokenizer split here
    UNI_OTHER = 1 << 13,        // clean_text removes these
    UNI_NONSPACING = 1 << 14,   // BertNormalizer's strip_accents removes these
    UNI_COMBINING = 1 << 15     // StripAccents removes these
};

enum { UNI_BLOCK = 128, UNI_BLOCKS = 0x110000 / UNI_BLOCK };
extern uint16_t unicode_stage[UNI_BLOCKS];
extern uint16_t (*unicode_block)[UNI_BLOCK];

// Once before the first unicode_flags; false: no memory. Safe in several threads.
bool unicode_init(void);
static inline unsigned unicode_flags(uint32_t c) { return unicode_block[unicode_stage[c / UNI_BLOCK]][c % UNI_BLOCK]; }

// The character at `text`, which is valid UTF-8; its length in bytes is added to *at.
static inline uint32_t utf8_next(const char *text, size_t *at) {
    const uint8_t *b = (const uint8_t *)text + *at;
    if (b[0] < 0x80) return *at += 1, b[0];
    if (b[0] < 0xe0) return *at += 2, (b[0] & 0x1fu) << 6 | (b[1] & 0x3fu);
    if (b[0] < 0xf0) return *at += 3, (b[0] & 0xfu) << 12 | (b[1] & 0x3fu) << 6 | (b[2] & 0x3fu);
    return *at += 4, (b[0] & 7u) << 18 | (b[1] & 0x3fu) << 12 | (b[2] & 0x3fu) << 6 | (b[3] & 0x3fu);
}
static inline size_t utf8_width(char lead) {
    uint8_t b = (uint8_t)lead;
    return b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}
// The start of the character before `at` > 0.
static inline size_t utf8_before(const char *text, size_t at) {
    do at--;
    while (at > 0 && ((uint8_t)text[at] & 0xc0) == 0x80);
    return at;
}
size_t utf8_put(char *out, uint32_t c);
void buffer_char(buffer *b, uint32_t c);
// Bytes at the beginning that are valid UTF-8.
size_t utf8_valid(const char *text, size_t length);
// Copies with U+FFFD for each maximal part that is no UTF-8 (Unicode 3.9, table 3-8).
void utf8_repair(const char *text, size_t length, buffer *out);

// GPT-2's characters for bytes: each of the 256 bytes as a printable character.
uint32_t byte_char(uint8_t byte);
int char_byte(uint32_t c);  // -1: stands for none

#endif
