// Chat templates from model files: no source and no messages harm the renderer, and a rendered text is UTF-8.
#include "fuzz.h"

#include "base/rng.h"
#include "chat/template.h"
#include "text/unicode.h"

#include <string.h>

// Pieces of templates, one after the other; a body that needs an end has it.
static const char *const pieces[] = {
    "{{ bos_token }}",
    "{% for m in messages %}{{ m.role ~ ': ' ~ m['content'] | trim }}{% if not loop.last %}\n{% endif %}{% endfor %}",
    "{%- set ns = namespace(a=[], b='') -%}{% for m in messages[::-1] %}{% set ns.a = ns.a + [m] %}{% set ns.b = "
    "m.role + ns.b %}{% endfor %}",
    "{% macro f(x, y=2) %}{{ x }}{{ caller() if caller is defined }}{{ varargs }}{% endmacro %}{{ f(1, 2, 3) }}{% call "
    "f(4) %}in{% endcall %}",
    "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list | join(', ') }}",
    "{% if tools is defined and tools %}{{ tools | tojson(indent=2) }}{% elif 1 < 2 <= 3 %}x{% else %}y{% endif %}",
    "{{ 'a b c'.split(' ')[-1] ~ 'xyz'[1:-1:2] }}{{ '%s %5.1f' % ('a', 1.5) }}{{ '{} {x}'.format(1, x=2) }}",
    "{% set text %} block {% endset %}{{ text | upper | replace(' ', '_') | indent(3) }}",
    "{% for k, v in {'a': 1, 'b': [1, (2,)]}.items() recursive %}{{ k }}{{ loop.nextitem }}{{ loop.length }}{% endfor "
    "%}",
    "{% for i in range(5) if i is odd %}{{ loop.index }}{% if i > 3 %}{% break %}{% endif %}{% else %}none{% endfor %}",
    "{{ [3, 1, 2] | sort(reverse=true) | batch(2) | list }}{{ {'b': 1, 'a': 2} | dictsort }}{{ [1, 2] | sum // 2 ** 3 "
    "% 5 }}",
    "{% generation %}{{ messages[0].content[:5] | title }}{% endgeneration %}{# note -#}  {% raw %}{{ }}{% endraw %}",
    "{% with a = 1, b = 'é' %}{{ a }}{{ b * 3 }}{{ b in 'éé' }}{% endwith %}{% filter trim %} x {% endfilter %}",
    "{{ raise_exception('no') if messages | length > 9 }}{{ strftime_now('%d %b %Y') }}{{ nothing | default('d') }}"};
static const char chat[] =
    "[{\"role\": \"system\", \"content\": \"Be \\u00e9.\"}, {\"role\": \"user\", \"content\": \"a\\nb\"},"
    " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": "
    "{\"x\": [1, 2.5]}}}]}]";

// A source, a zero byte, and maybe messages.
size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    rng r = {rng_seed(77, number)};
    size_t length = 0;
    for (uint64_t i = 1 + rng_below(&r, 4); i > 0; i--)
        length += (size_t)snprintf((char *)bytes + length, capacity - length, "%s\n",
                                   pieces[rng_below(&r, sizeof pieces / sizeof *pieces)]);
    if (rng_below(&r, 2) == 0)
        length += 1 + (size_t)snprintf((char *)bytes + length + 1, capacity - length - 1, "%s", chat);
    return length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct tm now = {.tm_year = 126, .tm_mon = 1, .tm_mday = 2};
    const uint8_t *end = memchr(data, 0, size);
    size_t length = end ? (size_t)(end - data) : size, rest = end ? size - length - 1 : 0;
    chat_template *t = NULL;
    braid_error error = {0};
    braid_err err = chat_template_parse((const char *)data, length, &t, &error);
    FUZZ_CHECK((err == BRAID_OK) == (t != NULL));
    FUZZ_CHECK(err == BRAID_OK || error.text[0] != 0);
    if (err) return 0;
    char *messages = malloc(rest + 1), *text = NULL;
    FUZZ_CHECK(messages != NULL);
    if (rest > 0) memcpy(messages, end + 1, rest);
    messages[rest] = 0;
    const chat_input in = {.messages = end ? messages : chat,
                           .tools = "[{\"type\": \"function\"}]",
                           .bos = "<s>",
                           .eos = "</s>",
                           .add_generation_prompt = true,
                           .now = &now};
    err = chat_template_render(t, &in, &text, &length, &error);
    FUZZ_CHECK((err == BRAID_OK) == (text != NULL));
    FUZZ_CHECK(err == BRAID_OK || error.text[0] != 0);
    if (text) FUZZ_CHECK(utf8_valid(text, length) == length && text[length] == 0);
    free(text);
    free(messages);
    chat_template_free(t);
    return 0;
}
