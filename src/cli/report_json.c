// Events as JSON lines, written and read from one table of fields.
#include "cli/report.h"
#include "format/utf8.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

typedef enum field_kind { FIELD_COUNT, FIELD_REAL, FIELD_SWITCH, FIELD_TEXT, FIELD_FLOWS } field_kind;

typedef struct report_field {
    const char *name;
    field_kind kind;
    size_t offset, size;  // size: of a text field
    uint32_t kinds;       // events with this field
} report_field;

static const char *const kind_names[REPORT_KINDS] = {
    [REPORT_MACHINE] = "machine",
    [REPORT_STARTED] = "started",       [REPORT_READY] = "ready",
    [REPORT_ITERATION] = "iteration",   [REPORT_EVAL] = "eval",
    [REPORT_REPAIR] = "repair",         [REPORT_SUSPECT] = "suspect",
    [REPORT_JOINED] = "joined",         [REPORT_LEFT] = "left",
    [REPORT_EXPELLED] = "expelled",     [REPORT_KILLED] = "killed",
    [REPORT_SPAWNED] = "spawned",       [REPORT_TRANSFER] = "transfer",
    [REPORT_CHECKPOINT] = "checkpoint", [REPORT_NOTE] = "note",
    [REPORT_REFUSED] = "refused",       [REPORT_END] = "end",
    [REPORT_FLOWS] = "flows",           [REPORT_TAKEOVER] = "takeover",
    [REPORT_PROMOTED] = "promoted",     [REPORT_LEADER] = "leader",         [REPORT_AWAITED] = "awaited",
    [REPORT_BACK] = "back",             [REPORT_ROLLED_BACK] = "rolled_back",
    [REPORT_UNFINISHED] = "unfinished", [REPORT_UNLED] = "unled",
};

#define IN(kind) (1u << REPORT_##kind)
#define WAITING  (IN(AWAITED) | IN(BACK) | IN(UNFINISHED))
#define MEMBERS  (IN(JOINED) | IN(LEFT) | IN(EXPELLED) | IN(PROMOTED))
#define FIELD(member, field_kind, events) \
    { #member, field_kind, offsetof(report_event, member), sizeof(((report_event *)0)->member), events }
#define WORK_FIELD(member, field_kind) \
    { #member, field_kind, offsetof(report_event, work.member), sizeof(((report_event *)0)->work.member), IN(ITERATION) | IN(END) }

// Numbers first: a text that does not fit is cut, and the fields after it are left out.
// clang-format off
static const report_field fields[] = {
    FIELD(iteration, FIELD_COUNT, IN(STARTED) | IN(ITERATION) | IN(EVAL) | IN(REPAIR) | IN(CHECKPOINT) | IN(END) | IN(KILLED) | IN(TAKEOVER) | IN(ROLLED_BACK) | WAITING | MEMBERS),
    FIELD(of, FIELD_COUNT, IN(STARTED) | IN(ITERATION) | IN(END)),
    FIELD(loss, FIELD_REAL, IN(ITERATION) | IN(EVAL) | IN(END)),
    FIELD(tokens, FIELD_COUNT, IN(STARTED) | IN(ITERATION) | IN(EVAL) | IN(END)),
    FIELD(microbatches, FIELD_COUNT, IN(STARTED) | IN(ITERATION) | IN(TAKEOVER) | WAITING),
    FIELD(left_out, FIELD_COUNT, IN(ITERATION)),
    FIELD(tokens_per_second, FIELD_REAL, IN(ITERATION)),
    FIELD(norm, FIELD_REAL, IN(ITERATION)),
    FIELD(learning_rate, FIELD_REAL, IN(ITERATION)),
    FIELD(skip, FIELD_SWITCH, IN(ITERATION)),
    FIELD(stages, FIELD_COUNT, IN(STARTED)),
    FIELD(parameters, FIELD_COUNT, IN(STARTED)),
    FIELD(processors, FIELD_COUNT, IN(MACHINE)),
    FIELD(present, FIELD_COUNT, IN(MACHINE)),
    FIELD(memory, FIELD_COUNT, IN(MACHINE)),
    FIELD(files, FIELD_COUNT, IN(MACHINE)),
    FIELD(microbatch, FIELD_COUNT, IN(REPAIR)),
    FIELD(stage, FIELD_COUNT, IN(FLOWS) | IN(REPAIR) | IN(SUSPECT) | IN(KILLED) | IN(TRANSFER) | IN(ROLLED_BACK) | MEMBERS),
    FIELD(member, FIELD_COUNT, IN(FLOWS) | IN(REPAIR) | IN(SUSPECT) | IN(TAKEOVER) | MEMBERS),
    FIELD(gone, FIELD_COUNT, IN(TAKEOVER)),
    FIELD(changes, FIELD_COUNT, IN(FLOWS)),
    FIELD(process, FIELD_COUNT, IN(READY) | IN(KILLED) | IN(SPAWNED)),
    FIELD(done, FIELD_COUNT, IN(TRANSFER) | IN(UNLED)),
    FIELD(total, FIELD_COUNT, IN(TRANSFER) | IN(ROLLED_BACK) | IN(UNLED)),
    FIELD(generation, FIELD_COUNT, IN(ROLLED_BACK)),
    FIELD(seconds, FIELD_REAL, IN(END) | IN(AWAITED) | IN(BACK)),
    FIELD(repairs, FIELD_COUNT, IN(END)),
    WORK_FIELD(wasted, FIELD_COUNT),
    WORK_FIELD(carried, FIELD_COUNT),
    WORK_FIELD(carried_bytes, FIELD_COUNT),
    WORK_FIELD(tensor_bytes, FIELD_COUNT),
    WORK_FIELD(message_bytes, FIELD_COUNT),
    WORK_FIELD(memory_bytes, FIELD_COUNT),
    WORK_FIELD(computed_seconds, FIELD_REAL),
    WORK_FIELD(wasted_seconds, FIELD_REAL),
    FIELD(failed, FIELD_SWITCH, IN(CHECKPOINT) | IN(END)),
    FIELD(stopped, FIELD_SWITCH, IN(END)),
    FIELD(flow, FIELD_FLOWS, IN(FLOWS)),
    FIELD(weights, FIELD_TEXT, IN(END)),
    FIELD(phase, FIELD_TEXT, IN(REPAIR) | IN(KILLED)),
    FIELD(role, FIELD_TEXT, IN(JOINED) | IN(LEFT) | IN(EXPELLED) | IN(SPAWNED)),
    FIELD(peer, FIELD_TEXT, IN(FLOWS) | IN(READY) | IN(REPAIR) | IN(SUSPECT) | IN(KILLED) | IN(TRANSFER) | IN(TAKEOVER) | IN(LEADER) | IN(UNLED) | WAITING | MEMBERS),
    FIELD(name, FIELD_TEXT, IN(STARTED)),
    FIELD(address, FIELD_TEXT, IN(READY) | IN(LEADER) | IN(UNLED)),
    FIELD(ticket, FIELD_TEXT, IN(READY) | IN(LEADER)),
    FIELD(reason, FIELD_TEXT, IN(EXPELLED) | IN(LEFT) | IN(END)),
    FIELD(path, FIELD_TEXT, IN(CHECKPOINT) | IN(END)),
    FIELD(text, FIELD_TEXT, IN(MACHINE) | IN(CHECKPOINT) | IN(NOTE) | IN(REFUSED) | IN(UNLED) | IN(END)),
};
// clang-format on
enum { FIELDS = sizeof fields / sizeof *fields };

const char *report_kind_name(report_kind kind) { return kind < REPORT_KINDS ? kind_names[kind] : "unknown"; }

// ---- writing ----

typedef struct json_writer {
    char *line;
    size_t length, limit;
} json_writer;

static bool put(json_writer *w, const char *text, size_t length) {
    if (w->length + length > w->limit) return false;
    memcpy(w->line + w->length, text, length);
    w->length += length;
    return true;
}

// One character of a text, escaped (RFC 8259, section 7); returns how many bytes of it were taken.
static size_t put_character(json_writer *w, const char *text, size_t length, bool *fits) {
    char escaped[8];
    size_t bytes = utf8_bytes(text, length);
    unsigned char c = (unsigned char)*text;
    if (bytes == 0)
        *fits = put(w, "?", 1);  // a path may contain any bytes, JSON may not
    else if (c == '"' || c == '\\')
        *fits = put(w, (char[]){'\\', (char)c}, 2);
    else if (c < 0x20 || c == 0x7f)
        *fits = put(w, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", c));
    else
        *fits = put(w, text, bytes);
    return bytes == 0 ? 1 : bytes;
}

static void put_text(json_writer *w, const char *name, const char *text, size_t length) {
    char head[48];
    size_t head_bytes = (size_t)snprintf(head, sizeof head, ",\"%s\":\"", name);
    if (w->length + head_bytes + 1 > w->limit) return;
    put(w, head, head_bytes);
    w->limit--;  // room for the closing quote
    bool fits = true;
    for (size_t i = 0; i < length && fits;) i += put_character(w, text + i, length - i, &fits);
    w->limit++;
    put(w, "\"", 1);
}

static void put_flows(json_writer *w, const char *name, const report_event *event) {
    char text[160];
    size_t flows = event->flows <= REPORT_MAX_FLOWS ? event->flows : 0;
    int length = snprintf(text, sizeof text, ",\"%s\":[", name);
    put(w, text, (size_t)length);
    for (size_t i = 0; i < flows; i++) {
        const report_flow *f = &event->flow[i];
        length = snprintf(text, sizeof text, "%s{\"to\":%llu,\"source\":%llu,\"units\":%llu,\"cost_us\":%llu}", i > 0 ? "," : "",
                          (unsigned long long)f->to, (unsigned long long)f->source, (unsigned long long)f->units, (unsigned long long)f->cost_us);
        put(w, text, (size_t)length);
    }
    put(w, "]", 1);
}

static void put_field(json_writer *w, const report_event *event, const report_field *f) {
    const char *place = (const char *)event + f->offset;
    char text[96];
    int length = 0;
    if (f->kind == FIELD_TEXT) {
        put_text(w, f->name, place, strnlen(place, f->size));
        return;
    }
    if (f->kind == FIELD_FLOWS) {
        put_flows(w, f->name, event);
        return;
    }
    if (f->kind == FIELD_COUNT)
        length = snprintf(text, sizeof text, ",\"%s\":%llu", f->name,
                          (unsigned long long)*(const uint64_t *)(const void *)place);
    if (f->kind == FIELD_SWITCH)
        length = snprintf(text, sizeof text, ",\"%s\":%s", f->name, *(const bool *)place ? "true" : "false");
    if (f->kind == FIELD_REAL) {
        double value = *(const double *)(const void *)place;
        // "-0" would be read as the integer 0
        length = isfinite(value) ? snprintf(text, sizeof text, ",\"%s\":%.17g%s", f->name, value, value == 0 && signbit(value) ? ".0" : "")
                                 : snprintf(text, sizeof text, ",\"%s\":null", f->name);
    }
    put(w, text, (size_t)length);
}

size_t report_to_json(const report_event *event, char line[REPORT_MAX_LINE]) {
    BRAID_ASSERT(event->kind < REPORT_KINDS);
    json_writer w = {.line = line, .limit = REPORT_MAX_LINE - 2};  // room for the brace and the terminator
    w.length = (size_t)snprintf(line, w.limit, "{\"event\":\"%s\"", kind_names[event->kind]);
    for (size_t i = 0; i < FIELDS; i++) {
        if (fields[i].kinds & (1u << event->kind)) put_field(&w, event, &fields[i]);
    }
    line[w.length++] = '}';
    line[w.length] = 0;
    return w.length;
}

// ---- reading ----

static bool read_count(const json_t *object, const char *name, uint64_t *out) {
    const json_t *value = json_object_get(object, name);
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static bool read_flows(const json_t *list, report_event *event) {
    if (!json_is_array(list) || json_array_size(list) > REPORT_MAX_FLOWS) return false;
    event->flows = json_array_size(list);
    bool good = true;
    for (size_t i = 0; i < event->flows; i++) {
        const json_t *object = json_array_get(list, i);
        report_flow *f = &event->flow[i];
        good &= read_count(object, "to", &f->to) && read_count(object, "source", &f->source) && read_count(object, "units", &f->units) &&
                read_count(object, "cost_us", &f->cost_us);
    }
    return good;
}

static braid_err read_field(const json_t *value, const report_field *f, report_event *event, braid_error *error) {
    char *place = (char *)event + f->offset;
    bool fits = false;
    if (f->kind == FIELD_COUNT && json_is_integer(value) && json_integer_value(value) >= 0) {
        *(uint64_t *)(void *)place = (uint64_t)json_integer_value(value);
        fits = true;
    } else if (f->kind == FIELD_REAL && (json_is_number(value) || json_is_null(value))) {
        *(double *)(void *)place = json_is_null(value) ? NAN : json_number_value(value);
        fits = true;
    } else if (f->kind == FIELD_SWITCH && json_is_boolean(value)) {
        *(bool *)place = json_is_true(value);
        fits = true;
    } else if (f->kind == FIELD_FLOWS) {
        fits = read_flows(value, event);
    } else if (f->kind == FIELD_TEXT && json_is_string(value) && json_string_length(value) < f->size) {
        memcpy(place, json_string_value(value), json_string_length(value) + 1);
        fits = true;
    }
    return fits ? BRAID_OK
                : braid_fail(error, BRAID_FORMAT, "event '%s': the value of '%s' has the wrong type", kind_names[event->kind],
                             f->name);
}

static braid_err read_kind(const json_t *root, report_kind *kind, braid_error *error) {
    const char *name = json_string_value(json_object_get(root, "event"));
    if (name == NULL) return braid_fail(error, BRAID_FORMAT, "a line without an 'event'");
    for (*kind = REPORT_STARTED; *kind < REPORT_KINDS; ++*kind) {
        if (strcmp(name, kind_names[*kind]) == 0) return BRAID_OK;
    }
    return braid_fail(error, BRAID_FORMAT, "unknown event '%.40s'", name);
}

braid_err report_from_json(const char *line, size_t length, report_event *event, braid_error *error) {
    json_error_t why;
    *event = (report_event){.kind = REPORT_KINDS};
    if (length > REPORT_MAX_LINE)
        return braid_fail(error, BRAID_LIMIT, "a line of more than %d bytes", REPORT_MAX_LINE);
    json_t *root = json_loadb(line, length, JSON_REJECT_DUPLICATES, &why);
    if (root == NULL) return braid_fail(error, BRAID_FORMAT, "not a JSON line: %.120s", why.text);
    braid_err code = read_kind(root, &event->kind, error);
    for (size_t i = 0; i < FIELDS && code == BRAID_OK; i++) {
        const json_t *value = fields[i].kinds & (1u << event->kind) ? json_object_get(root, fields[i].name) : NULL;
        if (value != NULL) code = read_field(value, &fields[i], event, error);
    }
    json_decref(root);
    return code;
}
