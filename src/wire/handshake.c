#include "wire/handshake.h"

#include "wire/codec.h"

#include <string.h>

// The first fields of HELLO, WELCOME and REFUSE, the same in every version.
static void code_start(codec *c, uint16_t *version) {
    uint32_t magic = HANDSHAKE_MAGIC;
    codec_u32(c, &magic);
    codec_require(c, magic == HANDSHAKE_MAGIC);
    codec_u16(c, version);
}

static void code_hello(codec *c, handshake_hello *hello) {
    codec_hash(c, &hello->run);
    codec_u64(c, &hello->generation);
    codec_hash(c, &hello->kernels);
    codec_u8_below(c, &hello->kind, MEMBER_KIND_COUNT);
    codec_text(c, hello->address, sizeof hello->address);
    codec_text(c, hello->software, sizeof hello->software);
}

static void code_description(codec *c, handshake_welcome *welcome) {
    uint32_t length = codec_reads(c) ? 0 : (uint32_t)welcome->description_bytes;
    codec_require(c, welcome->description_bytes <= WIRE_MAX_DESCRIPTION_BYTES);
    uint32_t count = codec_count32(c, &length, WIRE_MAX_DESCRIPTION_BYTES);
    codec_require(c, count <= c->size - c->at);
    if (c->failed || count == 0) return;
    const uint8_t *text = codec_reads(c) ? c->in + c->at : (const uint8_t *)welcome->description;
    codec_require(c, text != NULL && memchr(text, '\0', count) == NULL);
    if (codec_reads(c)) {
        welcome->description = (const char *)text;
        welcome->description_bytes = count;
        c->at += count;
    } else {
        codec_bytes(c, (uint8_t *)welcome->description, count);
    }
}

static void code_welcome(codec *c, handshake_welcome *welcome) {
    codec_hash(c, &welcome->run);
    codec_u64(c, &welcome->generation);
    codec_hash(c, &welcome->kernels);
    codec_u8_below(c, &welcome->kind, MEMBER_KIND_COUNT);
    codec_text(c, welcome->address, sizeof welcome->address);
    codec_text(c, welcome->software, sizeof welcome->software);
    codec_id(c, &welcome->leader);
    codec_text(c, welcome->leader_address, sizeof welcome->leader_address);
    code_description(c, welcome);
}

static void code_refuse(codec *c, handshake_refuse *refuse) {
    codec_u8(c, &refuse->code);
    codec_text(c, refuse->sentence, sizeof refuse->sentence);
}

size_t handshake_hello_encode(const handshake_hello *hello, uint8_t *bytes, size_t capacity) {
    codec c = codec_writer(bytes, capacity);
    uint16_t version = WIRE_VERSION;
    code_start(&c, &version);
    code_hello(&c, (handshake_hello *)hello);  // writing assigns no field
    return codec_written(&c);
}

size_t handshake_welcome_encode(const handshake_welcome *welcome, uint8_t *bytes, size_t capacity) {
    codec c = codec_writer(bytes, capacity);
    uint16_t version = WIRE_VERSION;
    code_start(&c, &version);
    code_welcome(&c, (handshake_welcome *)welcome);  // writing assigns no field
    return codec_written(&c);
}

size_t handshake_refuse_encode(const handshake_refuse *refuse, uint8_t *bytes, size_t capacity) {
    codec c = codec_writer(bytes, capacity);
    uint16_t version = WIRE_VERSION;
    code_start(&c, &version);
    code_refuse(&c, (handshake_refuse *)refuse);  // writing assigns no field
    return codec_written(&c);
}

handshake_result handshake_hello_decode(const uint8_t *bytes, size_t count, handshake_hello *hello) {
    codec c = codec_reader(bytes, count);
    *hello = (handshake_hello){0};
    code_start(&c, &hello->version);
    if (c.failed) return HANDSHAKE_MALFORMED;
    if (hello->version != WIRE_VERSION) return HANDSHAKE_OTHER_VERSION;
    code_hello(&c, hello);
    return codec_finished(&c) ? HANDSHAKE_OK : HANDSHAKE_MALFORMED;
}

handshake_result handshake_welcome_decode(const uint8_t *bytes, size_t count, handshake_welcome *welcome) {
    codec c = codec_reader(bytes, count);
    *welcome = (handshake_welcome){0};
    code_start(&c, &welcome->version);
    if (c.failed) return HANDSHAKE_MALFORMED;
    if (welcome->version != WIRE_VERSION) return HANDSHAKE_OTHER_VERSION;
    code_welcome(&c, welcome);
    return codec_finished(&c) ? HANDSHAKE_OK : HANDSHAKE_MALFORMED;
}

handshake_result handshake_refuse_decode(const uint8_t *bytes, size_t count, handshake_refuse *refuse) {
    codec c = codec_reader(bytes, count);
    *refuse = (handshake_refuse){0};
    code_start(&c, &refuse->version);
    code_refuse(&c, refuse);
    return codec_finished(&c) ? HANDSHAKE_OK : HANDSHAKE_MALFORMED;
}

const char *handshake_refusal_text(uint8_t code) {
    switch (code) {
#define X(name, text) \
    case REFUSE_##name: return text;
        HANDSHAKE_REFUSALS(X)
#undef X
    default: return "it gave a reason that this version does not know";
    }
}
