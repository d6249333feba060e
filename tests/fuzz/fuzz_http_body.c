// Bodies of requests: fields, messages, tools and prompts of any form end in values or in a mistake
// with a text. Also calls of tools in the text of a model.
#include "fuzz.h"

#include "base/rng.h"
#include "http/constraint.h"
#include "http/prompt.h"
#include "http/sampling.h"
#include "http/tools.h"

#include <string.h>

static const char *const examples[] = {
    ("{\"model\":\"m\",\"prompt\":[\"a\",\"b\"],\"max_tokens\":5,\"temperature\":0.5,\"stop\":[\"x\"],\"logit_bias\":{"
     "\"5\":-100},"
     "\"seed\":-3,\"n\":2}"),
    "{\"prompt\":[[1,2],[3]],\"top_p\":0,\"top_k\":5.0,\"stream\":true}",
    ("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]},{\"role\":\"assistant\","
     "\"content\":null,"
     "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}}]}],\"tools\":[{\"type\":"
     "\"function\","
     "\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}}],\"tool_choice\":\"required\"}"),
    ("<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": [1, \"]\"]}}</tool_call><tool_call>{\"name\": "
     "\"g\"}</tool_call>"),
    "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{}}]",
};

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    rng r = {rng_seed(79, number)};
    return (size_t)snprintf((char *)bytes, capacity, "%s", examples[rng_below(&r, sizeof examples / sizeof *examples)]);
}

static void read_calls(const char *text, size_t length) {
    for (int style = TOOLS_TAGS; style <= (int)TOOLS_BARE; style++) {
        tools_call calls[TOOLS_MAX_CALLS];
        size_t content = 0, visible = tools_visible((tools_style)style, text, length);
        uint32_t count = tools_parse((tools_style)style, text, length, &content, calls);
        FUZZ_CHECK(visible <= length && content <= length && count <= TOOLS_MAX_CALLS);
        tools_free(calls, count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const model_config config = {.vocab = 256, .dim = 4};
    static const char source[] = "{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}{{ tools }}";
    static const service_model model = {.name = "m", .config = &config, .context = 100};
    static http_server server;
    if (!server.model) {
        server.model = &model;
        pthread_mutex_init(&server.lock, NULL);
        FUZZ_CHECK(chat_template_parse(source, sizeof source - 1, &server.chat.template, NULL) == BRAID_OK);
    }
    read_calls((const char *)data, size);
    body b;
    if (body_parse(&b, (const char *)data, size)) {
        sampling s;
        grammar *g = NULL;
        bool calls = false;
        texts_prompt *prompt = NULL;
        uint32_t count = 0;
        sampling_begin(&s, &server);
        sampling_read(&s, &b, b.root);
        prompt_chat chat = {.messages = body_array(&b, b.root, "messages"), .tools = body_array(&b, b.root, "tools")};
        constraint_read(&g, &b);
        constraint_read_tools(&g, &server, &b, &chat, &calls);
        if (chat.messages) {
            prompt_chat_read(&server, &b, &chat, &prompt);
            count = prompt ? 1 : 0;
        } else {
            prompt_read(&server, &b, "prompt", true, &prompt, &count);
        }
        for (uint32_t i = 0; i < count && !b.error.code; i++) FUZZ_CHECK(prompt[i].count > 0);
        prompt_free(prompt, count);
        grammar_free(g);
        sampling_free(&s);
    }
    FUZZ_CHECK(!b.error.code || b.error.text[0] != 0);
    body_free(&b);
    return 0;
}
