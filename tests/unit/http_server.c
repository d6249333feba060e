// The HTTP server over a fake service: shapes of answers and errors, streams, keys, origins, clients
// that leave.
#define _GNU_SOURCE
#include "http/server.h"

#include "fake_service.h"
#include "format/json.h"
#include "http_client.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const char template[] =
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if tools %}<tool_call>{% endif %}{% if add_generation_prompt %}assistant: {% endif %}";
static const http_key keys[] = {{"secret", "alice", 0, 0}, {"limited", "bob", 1, 3}};

typedef struct world {
    fake_service *fake;
    http_server *server;
    uint16_t port;
} world;

static world begin(const char *reply, const http_settings *with) {
    world w = {.fake = fake_service_new(reply, template)};
    http_settings settings = with ? *with : (http_settings){0};
    braid_error error = {0};
    settings.service = &w.fake->base;
    if (http_server_new(&settings, &w.server, &error) != BRAID_OK) fail_msg("%s", error.text);
    w.port = http_server_port(w.server);
    return w;
}

static void end(world *w) {
    http_server_free(w->server);
    service_free(&w->fake->base);
}

static void expect(const http_answer *a, int status, const char *part) {
    if (a->status == status && a->body && strstr(a->body, part)) return;
    fail_msg("status %d instead of %d, or no '%s' in: %s", a->status, status, part, a->body ? a->body : "(no body)");
}

static void check_post(uint16_t port, const char *path, const char *body, int status, const char *part) {
    http_answer a = http_post(port, path, body);
    expect(&a, status, part);
    http_answer_free(&a);
}

static void check_get(uint16_t port, const char *path, int status, const char *part) {
    http_answer a = http_get(port, path);
    expect(&a, status, part);
    http_answer_free(&a);
}

static void test_state(void **state) {
    (void)state;
    world w = begin("hello", NULL);
    check_get(w.port, "/health", 200, "\"ok\"");
    check_get(w.port, "/ready", 200, "\"ready\"");
    fake_hold(w.fake, true);
    check_get(w.port, "/ready", 503, "the fake service is held");
    check_get(w.port, "/v1/models", 200, "\"id\":\"fake/model:1\"");
    check_get(w.port, "/models", 200, "\"id\":\"fake/model:1\"");
    check_get(w.port, "/v1/models/fake%2Fmodel:1", 200, "\"object\":\"model\"");
    check_get(w.port, "/v1/models/other", 404, "model_not_found");
    check_get(w.port, "/v1/models/org%2Fmodel:x%20y", 404, "there is no model 'org/model:x y'");
    check_get(w.port, "/v1/swarm", 200, "\"queue_limit\":1000");
    check_get(w.port, "/tokenizer_info", 200, "\"eos_token\":null");
    check_get(w.port, "/metrics", 200, "braid_http_requests_total{endpoint=\"health\",status=\"2xx\"} 1\n");
    check_get(w.port, "/nothing", 404, "not_found");
    check_get(w.port, "/v1/completions", 405, "needs the method POST");
    check_get(w.port, "//health", 200, "\"ok\"");
    end(&w);
}

static void test_completions(void **state) {
    (void)state;
    world w = begin("hello world", NULL);
    check_post(w.port, "/v1/completions", "{\"prompt\":\"ab\",\"model\":\"fake/model:1\"}", 200,
               "\"choices\":[{\"index\":0,\"text\":\"hello world\",\"logprobs\":null,\"finish_reason\":\"stop\"}],"
               "\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":12,\"total_tokens\":14,"
               "\"prompt_tokens_details\":{\"cached_tokens\":1}}");
    check_post(w.port, "/v1/completions", "{\"prompt\":\"ab\",\"max_tokens\":4,\"temperature\":null,\"seed\":null}",
               200, "\"text\":\"hell\",\"logprobs\":null,\"finish_reason\":\"length\"");
    check_post(w.port, "/v1/completions", "{\"prompt\":\"ab\",\"stop\":\"o w\"}", 200,
               "\"text\":\"hell\",\"logprobs\":null,\"finish_reason\":\"stop\"");
    check_post(w.port, "/completions", "{\"prompt\":[97,98],\"stop\":[\"x\",\"o\"],\"echo\":true}", 200,
               "\"text\":\"abhell\"");
    check_post(w.port, "/v1/completions", "{\"prompt\":[\"a\",\"bc\"],\"max_tokens\":1,\"echo\":true,\"n\":2}", 200,
               "{\"index\":2,\"text\":\"bch\"");
    check_post(w.port, "/v1/completions", "{\"prompt\":[[97],[98,99]],\"max_tokens\":1,\"echo\":true}", 200,
               "{\"index\":1,\"text\":\"bch\"");
    check_post(w.port, "/v1/completions", "{\"prompt\":\"ab\",\"max_tokens\":0,\"echo\":true}", 200, "\"text\":\"ab\"");
    end(&w);
}

// OpenAIEmbeddings of LangChain sends token ids, and openai asks for base64 unless told otherwise.
static void test_embeddings(void **state) {
    (void)state;
    world w = begin("hello", NULL);
    check_post(w.port, "/v1/embeddings", "{\"input\":[[97,98],[99]],\"encoding_format\":\"float\"}", 200,
               "\"data\":[{\"object\":\"embedding\",\"index\":0,\"embedding\":[");
    check_post(w.port, "/v1/embeddings", "{\"input\":[[97,98],[99]],\"encoding_format\":\"base64\"}", 200,
               "{\"object\":\"embedding\",\"index\":1,\"embedding\":\"");
    check_post(w.port, "/v1/embeddings", "{\"input\":\"ab\",\"encoding_format\":null}", 200,
               "\"usage\":{\"prompt_tokens\":2,");
    check_post(w.port, "/v1/embeddings", "{\"input\":[]}", 400, "\"param\":\"input\"");
    end(&w);
}

// As lm-eval asks: the prompt's tokens and exactly one more.
static void test_likelihood(void **state) {
    (void)state;
    world w = begin("hello", NULL);
    check_post(
        w.port, "/v1/completions",
        "{\"prompt\":[[97,98]],\"temperature\":0,\"max_tokens\":1,\"logprobs\":1,\"seed\":1234,\"echo\":true}", 200,
        "\"text\":\"abh\",\"logprobs\":{\"tokens\":[\"a\",\"b\",\"h\"],\"token_logprobs\":[null,-0.5,-0.5],"
        "\"top_logprobs\":[null,{\"b\":-0.5},{\"h\":-0.5}],\"text_offset\":[0,1,2]},\"finish_reason\":\"length\"");
    assert_int_equal(w.fake->last_sampler.seed, 1234);
    assert_true(w.fake->last_sampler.repetition_penalty == 1);  // so temperature 0 takes the likeliest token
    // offsets count characters, not bytes; the second byte of a character is behind it
    check_post(w.port, "/v1/completions", "{\"prompt\":\"\xc3\xa9z\",\"max_tokens\":1,\"logprobs\":1,\"echo\":true}",
               200, "\"text_offset\":[0,1,1,2]");
    // also where that token is the end of the text
    fake_set_reply(w.fake, "");
    check_post(w.port, "/v1/completions", "{\"prompt\":\"ab\",\"max_tokens\":1,\"logprobs\":1,\"echo\":true}", 200,
               "\"token_logprobs\":[null,-0.5,-0.5]");
    check_post(w.port, "/v1/completions", "{\"prompt\":\"ab\",\"max_tokens\":1,\"logprobs\":2}", 200,
               "\"top_logprobs\":[{\"bytes:\\\\x00\":-0.5,");
    end(&w);
}

static void test_chat(void **state) {
    (void)state;
    world w = begin("Sch\xc3\xb6n", NULL);
    check_post(w.port, "/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", 200,
               "\"message\":{\"role\":\"assistant\",\"content\":\"Sch\xc3\xb6n\",\"refusal\":null},\"logprobs\":null,"
               "\"finish_reason\":\"stop\"");
    assert_int_equal(w.fake->last_prompt, strlen("user: hi\nassistant: "));
    // a list of parts, and the role of newer clients
    check_post(w.port, "/v1/chat/completions",
               "{\"messages\":[{\"role\":\"developer\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
               "{\"type\":\"text\",\"text\":\"b\"}]}],\"max_completion_tokens\":2,\"max_tokens\":5}",
               200, "\"content\":\"Sc\"");
    assert_int_equal(w.fake->last_prompt, strlen("system: ab\nassistant: "));
    check_post(
        w.port, "/v1/chat/completions",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"logprobs\":true,\"top_logprobs\":1,\"max_tokens\":1}",
        200,
        "\"logprobs\":{\"content\":[{\"token\":\"S\",\"logprob\":-0.5,\"bytes\":[83],\"top_logprobs\":"
        "[{\"token\":\"S\",\"logprob\":-0.5,\"bytes\":[83]}]}],\"refusal\":null}");
    check_post(w.port, "/v1/chat/completions",
               "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}", 400, "image_url");
    end(&w);
}

static void test_stream(void **state) {
    (void)state;
    world w = begin("h\xc3\xa9", NULL);
    http_answer a = http_post(w.port, "/v1/chat/completions",
                              "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"stream\":true,"
                              "\"stream_options\":{\"include_usage\":true}}");
    assert_int_equal(a.status, 200);
    assert_non_null(strcasestr(a.head, "content-type: text/event-stream"));
    static const char *const parts[] = {
        "\"object\":\"chat.completion.chunk\"",
        ("\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
         "\"logprobs\":null,\"finish_reason\":null}]}\n\n"),
        "\"delta\":{\"content\":\"h\"}",
        "\"delta\":{\"content\":\"\xc3\xa9\"}",
        "\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}]}\n\n",
        "\"choices\":[],\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":4,",
        "data: [DONE]\n\n"};
    const char *at = a.body;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *found = strstr(at, parts[i]);
        if (!found) fail_msg("no '%s' in: %s", parts[i], at);
        at = found + 1;
    }
    // each line is an event with data, or empty (facts about clients: no id, no comment, no other line)
    char *rest = NULL, *line = strtok_r(a.body, "\n", &rest);
    for (; line; line = strtok_r(NULL, "\n", &rest)) assert_int_equal(strncmp(line, "data: ", 6), 0);
    http_answer_free(&a);
    check_post(w.port, "/v1/completions", "{\"prompt\":\"ab\",\"stream\":true,\"n\":2}", 200,
               "{\"index\":1,\"text\":\"h\"");
    check_post(w.port, "/v1/completions", "{\"prompt\":\"ab\",\"stream\":true,\"echo\":true,\"logprobs\":0}", 200,
               "\"text\":\"ab\",\"logprobs\":{\"tokens\":[\"a\",\"b\"],\"token_logprobs\":[null,-0.5]");
    end(&w);
}

static void test_mistakes(void **state) {
    (void)state;
    static const struct {
        const char *body, *part;
    } cases[] = {{"{\"prompt\":", "not valid JSON"},
                 {"[1]", "no JSON object"},
                 {"{}", "\"param\":\"prompt\""},
                 {"{\"prompt\":5}", "\"param\":\"prompt\""},
                 {"{\"prompt\":[300]}", "whole number below 256"},
                 {"{\"prompt\":[]}", "has no token"},
                 {"{\"prompt\":\"a\",\"max_tokens\":\"x\"}", "\"param\":\"max_tokens\""},
                 {"{\"prompt\":\"a\",\"max_tokens\":-1}", "\"param\":\"max_tokens\""},
                 {"{\"prompt\":\"a\",\"temperature\":-0.1}", "\"param\":\"temperature\""},
                 {"{\"prompt\":\"a\",\"n\":0}", "\"param\":\"n\""},
                 {"{\"prompt\":\"a\",\"stop\":[\"\"]}", "\"param\":\"stop\""},
                 {"{\"prompt\":\"a\",\"stop\":7}", "\"param\":\"stop\""},
                 {"{\"prompt\":\"a\",\"stream\":1}", "\"param\":\"stream\""},
                 {"{\"prompt\":\"a\",\"logit_bias\":{\"x\":1}}", "\"param\":\"logit_bias\""},
                 {"{\"prompt\":\"a\",\"logprobs\":1000}", "\"param\":\"logprobs\""},
                 {"{\"prompt\":\"a\",\"suffix\":\"b\"}", "\"param\":\"suffix\""},
                 {"{\"prompt\":\"a\",\"response_format\":{\"type\":\"xml\"}}", "\"param\":\"response_format\""},
                 {"{\"prompt\":\"a\",\"grammar\":\"root ::= root\"}", "begins with itself"},
                 {"{\"prompt\":\"\xff\"}", "malformed string"}};
    world w = begin("hello", NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_post(w.port, "/v1/completions", cases[i].body, 400, cases[i].part);
    check_post(w.port, "/v1/completions", "{\"prompt\":\"a\",\"model\":\"other\"}", 404,
               "\"code\":\"model_not_found\"");
    check_post(w.port, "/v1/chat/completions", "{\"messages\":[]}", 400, "'messages' is empty");
    check_post(w.port, "/v1/chat/completions",
               "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tool_choice\":\"required\"}", 400,
               "there are no 'tools'");
    check_post(w.port, "/v1/completions", "{\"prompt\":\"a\",\"logit_bias\":{\"256\":1}}", 400,
               "\"param\":\"logit_bias\"");
    check_post(w.port, "/v1/chat/completions", "{\"messages\":[{\"content\":\"a\"}]}", 400, "'role'");
    char *body = malloc(6000);
    memset(body, 'a', 5999);
    memcpy(body, "{\"prompt\":\"", 11);
    strcpy(body + 5000, "\"}");
    check_post(w.port, "/v1/completions", body, 400, "\"code\":\"context_length_exceeded\"");
    free(body);
    w.fake->refuse = BRAID_NETWORK;
    check_post(w.port, "/v1/completions", "{\"prompt\":\"a\"}", 503, "\"type\":\"server_error\"");
    // openai takes a stream that is answered by plain JSON with 200 for an empty one
    check_post(w.port, "/v1/completions", "{\"prompt\":\"a\",\"stream\":true}", 503, "\"type\":\"server_error\"");
    w.fake->refuse = BRAID_OK;
    w.fake->fail = BRAID_NETWORK;
    check_post(w.port, "/v1/completions", "{\"prompt\":\"a\"}", 503, "\"code\":\"not_ready\"");
    w.fake->fail_after = 2;
    check_post(w.port, "/v1/completions", "{\"prompt\":\"a\",\"stream\":true}", 200,
               "data: {\"error\":{\"message\":\"the fake service fails\"");
    end(&w);
}

static void test_queue(void **state) {
    (void)state;
    world w = begin("hi", NULL);
    w.fake->queue_limit = 0;
    http_answer a = http_post(w.port, "/v1/completions", "{\"prompt\":\"a\"}");
    expect(&a, 429, "\"code\":\"queue_full\"");
    assert_non_null(strcasestr(a.head, "\r\nretry-after: 1\r\n"));
    http_answer_free(&a);
    // a request of many texts waits for its own ones
    w.fake->queue_limit = 3;
    check_post(w.port, "/v1/completions", "{\"prompt\":\"a\",\"n\":50}", 200, "{\"index\":49,\"text\":\"hi\"");
    assert_int_equal(fake_count(w.fake, &w.fake->submitted), 50);
    end(&w);
}

static void test_body_limit(void **state) {
    (void)state;
    const http_settings small = {.max_body_bytes = 1000};
    world w = begin("hi", &small);
    char body[3001];
    memset(body, ' ', 3000);
    body[3000] = 0;
    check_post(w.port, "/v1/completions", body, 413, "larger than the 1000 bytes");
    int fd = http_connect(w.port);
    static const char head[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                               "Content-Length: 99999999\r\n\r\n";
    assert_true(http_send(fd, head, sizeof head - 1));
    http_answer a = http_receive(fd);
    expect(&a, 413, "request_too_large");
    http_answer_free(&a);
    close(fd);
    end(&w);
}

static void check_with(uint16_t port, const char *path, const char *headers, const char *body, int status,
                       const char *part) {
    http_answer a = http_ask_with(port, body[0] ? "POST" : "GET", path, headers, body);
    expect(&a, status, part);
    http_answer_free(&a);
}

static void test_keys(void **state) {
    (void)state;
    const http_settings with = {.keys = keys, .key_count = 2};
    world w = begin("hi", &with);
    static const char alice[] = "authorization: Bearer secret\r\n", bob[] = "Authorization: bearer limited\r\n";
    check_with(w.port, "/health", "", "", 200, "ok");
    check_with(w.port, "/metrics", "", "", 200, "braid_ready 1");
    check_with(w.port, "/v1/models", "", "", 401, "Authorization: Bearer KEY");
    check_with(w.port, "/v1/models", "Authorization: Bearer \r\n", "", 401, "invalid_api_key");
    check_with(w.port, "/v1/models", "Authorization: Bearer secre\r\n", "", 401, "authentication_error");
    check_with(w.port, "/v1/models", "Authorization: Bearer secretsecret\r\n", "", 401, "authentication_error");
    check_with(w.port, "/v1/models", alice, "", 200, "fake/model");
    for (int i = 0; i < 3; i++) check_with(w.port, "/v1/completions", bob, "{\"prompt\":\"a\"}", 200, "\"hi\"");
    http_answer a = http_ask_with(w.port, "POST", "/v1/completions", bob, "{\"prompt\":\"a\"}");
    expect(&a, 429, "the key 'bob' is at its limit");
    assert_non_null(strcasestr(a.head, "\r\nretry-after: "));
    http_answer_free(&a);
    check_with(w.port, "/v1/completions", alice, "{\"prompt\":\"a\"}", 200, "\"hi\"");
    end(&w);
}

static void test_origins(void **state) {
    (void)state;
    const char *const allowed[] = {"https://friend.example"};
    const http_settings with = {.origins = allowed, .origin_count = 1, .page = true};
    world w = begin("hi", &with);
    check_with(w.port, "/v1/completions", "Origin: https://evil.example\r\n", "{\"prompt\":\"a\"}", 403,
               "wrong_origin");
    check_with(w.port, "/v1/completions", "Origin: null\r\n", "{\"prompt\":\"a\"}", 403, "wrong_origin");
    check_with(w.port, "/v1/models", "Origin: http://127.0.0.1\r\n", "", 200, "fake");
    assert_int_equal(fake_count(w.fake, &w.fake->submitted), 0);
    http_answer a = http_ask_with(w.port, "OPTIONS", "/v1/completions", "Origin: https://friend.example\r\n", "");
    assert_int_equal(a.status, 204);
    assert_non_null(strcasestr(a.head, "access-control-allow-origin: https://friend.example"));
    http_answer_free(&a);
    a = http_ask_with(w.port, "OPTIONS", "/v1/completions", "Origin: https://evil.example\r\n", "");
    assert_int_equal(a.status, 403);
    http_answer_free(&a);
    // a name of another site that resolves to this machine
    int fd = http_connect(w.port);
    static const char rebound[] = "GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_true(http_send(fd, rebound, sizeof rebound - 1));
    a = http_receive(fd);
    expect(&a, 403, "wrong_host");
    http_answer_free(&a);
    close(fd);
    a = http_get(w.port, "/");
    expect(&a, 200, "<!doctype html>");
    assert_non_null(strcasestr(a.head, "content-security-policy: default-src 'none'"));
    http_answer_free(&a);
    end(&w);
}

static void wait_for(fake_service *f, const size_t *of, size_t value) {
    while (fake_count(f, of) < value) usleep(1000);
}

static void test_clients_that_leave(void **state) {
    (void)state;
    world w = begin("hello", NULL);
    fake_hold(w.fake, true);
    static const char *const bodies[] = {"{\"prompt\":\"a\"}", "{\"prompt\":\"a\",\"stream\":true}",
                                         "{\"prompt\":\"a\",\"n\":3}"};
    for (int i = 0; i < 3; i++) {
        int fd = http_connect(w.port);
        assert_true(http_send_request(fd, "POST", "/v1/completions", "", bodies[i]));
        wait_for(w.fake, &w.fake->submitted, (size_t)i + (i == 2 ? 3 : 1));
        close(fd);
    }
    wait_for(w.fake, &w.fake->cancelled, 5);
    // others do not notice, and a server that ends cancels its texts
    fake_hold(w.fake, false);
    check_post(w.port, "/v1/completions", "{\"prompt\":\"a\"}", 200, "hello");
    fake_hold(w.fake, true);
    int fd = http_connect(w.port);
    assert_true(http_send_request(fd, "POST", "/v1/completions", "", bodies[0]));
    wait_for(w.fake, &w.fake->submitted, 7);
    http_server_free(w.server);
    assert_int_equal(fake_count(w.fake, &w.fake->cancelled), 6);
    close(fd);
    service_free(&w.fake->base);
}

static int descriptors(void) {
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

static void wait_for_descriptors(int most) {
    int left = 5000;
    while (descriptors() > most && left-- > 0) usleep(1000);
    if (descriptors() > most) fail_msg("%d descriptors are open, not %d", descriptors(), most);
}

static void close_with_reset(int fd) {
    const struct linger off = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof off);
    close(fd);
}

// Clients that leave inside a request or a stream keep no descriptor, also beside an older connection.
static void test_descriptors(void **state) {
    (void)state;
    static const char part[] = "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\n{";
    char reply[1001];
    memset(reply, 'x', 1000);
    reply[1000] = 0;
    world w = begin(reply, NULL);
    w.fake->step_us = 100;
    int idle = http_connect(w.port);
    check_get(w.port, "/health", 200, "ok");  // the idle connection is accepted, too
    int before = descriptors();
    for (size_t i = 0; i < 40; i++) {
        int fd = http_connect(w.port);
        assert_true(http_send(fd, part, sizeof part - 1 - (i % 4) * 20));
        close(fd);
    }
    wait_for_descriptors(before);
    for (size_t i = 0; i < 20; i++) {
        char first;
        int fd = http_connect(w.port);
        fake_hold(w.fake, false);
        assert_true(http_send_request(fd, "POST", "/v1/completions", "",
                                      "{\"prompt\":\"a\",\"stream\":true,\"max_tokens\":1000}"));
        assert_int_equal(recv(fd, &first, 1, 0), 1);
        fake_hold(w.fake, true);  // nothing is written when the client leaves
        close_with_reset(fd);
    }
    wait_for(w.fake, &w.fake->cancelled, 20);
    wait_for_descriptors(before);
    close(idle);
    end(&w);
}

// openai's client closes its connection at "[DONE]": its text was not cancelled.
static void test_close_at_done(void **state) {
    (void)state;
    world w = begin("hello", NULL);
    for (int i = 0; i < 10; i++) {
        char got[4096] = "";
        size_t length = 0;
        int fd = http_connect(w.port);
        assert_true(http_send_request(fd, "POST", "/v1/completions", "", "{\"prompt\":\"a\",\"stream\":true}"));
        while (!strstr(got, "[DONE]")) {
            ssize_t n = recv(fd, got + length, sizeof got - 1 - length, 0);
            assert_true(n > 0);
            got[length += (size_t)n] = 0;
        }
        close_with_reset(fd);
    }
    check_get(w.port, "/metrics", 200, "braid_http_clients_left_total 0\n");
    assert_int_equal(fake_count(w.fake, &w.fake->cancelled), 0);
    end(&w);
}

// A service that is not ready: the answer begins with a sign of life, and each further one is an
// empty piece, since clients count neither comments nor other lines.
static void test_keep_alive(void **state) {
    (void)state;
    const http_settings soon = {.keep_alive_ns = 1000};
    world w = begin("hello", &soon);
    fake_hold(w.fake, true);
    int fd = http_connect(w.port);
    assert_true(http_send_request(fd, "POST", "/v1/chat/completions", "",
                                  "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"stream\":true}"));
    char got[4096];
    size_t length = 0, signs = 0;
    while (signs < 2) {
        ssize_t n = recv(fd, got + length, sizeof got - 1 - length, 0);
        assert_true(n > 0);
        got[length += (size_t)n] = 0;
        signs = 0;
        for (const char *at = got; (at = strstr(at, "\"delta\":{\"content\":\"\"}")); at++) signs++;
    }
    assert_non_null(strstr(got, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}"));
    fake_hold(w.fake, false);
    http_answer a = http_receive(fd);
    assert_non_null(strstr(a.head, "data: [DONE]\n\n"));
    http_answer_free(&a);
    close(fd);
    end(&w);
}

// A reader that reads nothing: its text ends when the unsent part reaches its maximum.
static void test_slow_reader(void **state) {
    (void)state;
    char *reply = malloc(100001);
    memset(reply, 'x', 100000);
    reply[100000] = 0;
    world w = begin(reply, NULL);
    free(reply);
    int fd = http_connect(w.port), small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    assert_true(http_send_request(fd, "POST", "/v1/completions", "",
                                  "{\"prompt\":\"a\",\"stream\":true,\"max_tokens\":100000}"));
    wait_for(w.fake, &w.fake->cancelled, 1);
    close(fd);
    end(&w);
}

static void test_constraint(void **state) {
    (void)state;
    world w = begin("zzz", NULL);
    check_post(w.port, "/v1/completions",
               "{\"prompt\":\"a\",\"max_tokens\":20,\"grammar\":\"root ::= \\\"yes\\\" | \\\"no\\\" [xy]{2}\"}", 200,
               "\"text\":\"nox");
    check_post(
        w.port, "/v1/chat/completions",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":200,\"response_format\":{\"type\":"
        "\"json_schema\",\"json_schema\":{\"name\":\"x\",\"schema\":{\"type\":\"object\",\"properties\":{\"a\":{"
        "\"enum\":"
        "[\"q\"]}},\"required\":[\"a\"]}}}}",
        200, "\\\"q\\\"");
    end(&w);
}

static void test_tools(void **state) {
    (void)state;
    world w = begin("Well. <tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>", NULL);
    static const char request[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"tools\":[{\"type\":\"function\","
        "\"function\":{\"name\":\"f\",\"parameters\":{}}}]%s}";
    char body[512];
    snprintf(body, sizeof body, request, "");
    check_post(w.port, "/v1/chat/completions", body, 200, "\"content\":\"Well.\"");
    check_post(
        w.port, "/v1/chat/completions", body, 200,
        "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}}]},\"logprobs\":null,"
        "\"finish_reason\":\"tool_calls\"");
    snprintf(body, sizeof body, request, ",\"stream\":true");
    check_post(w.port, "/v1/chat/completions", body, 200, "\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_");
    snprintf(body, sizeof body, request, ",\"tool_choice\":\"none\"");
    check_post(w.port, "/v1/chat/completions", body, 200, "\"content\":\"Well. <tool_call>");
    end(&w);
}

static void test_tokenize(void **state) {
    (void)state;
    world w = begin("hi", NULL);
    check_post(w.port, "/tokenize", "{\"prompt\":\"ab\",\"add_special_tokens\":false}", 200,
               "{\"count\":2,\"max_model_len\":4096,\"tokens\":[97,98]}");
    check_post(w.port, "/detokenize", "{\"tokens\":[97,98,255]}", 200, "{\"prompt\":\"ab\xef\xbf\xbd\"}");
    check_post(w.port, "/detokenize", "{\"tokens\":[256]}", 400, "\"param\":\"tokens\"");
    check_post(w.port, "/tokenize", "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", 200, "\"count\":19");
    end(&w);
}

static void test_settings(void **state) {
    (void)state;
    fake_service *f = fake_service_new("hi", template);
    http_server *s;
    braid_error error = {0};
    const http_settings bad[] = {{.service = &f->base, .host = "0.0.0.0"},
                                 {.service = &f->base, .certificate = "x"},
                                 {.service = &f->base, .host = "not an address"},
                                 {.service = &f->base, .origins = &(const char *){"foo"}, .origin_count = 1},
                                 {.service = &f->base, .origins = &(const char *){"http://a/"}, .origin_count = 1}};
    for (int i = 0; i < 5; i++) assert_int_equal(http_server_new(&bad[i], &s, &error), BRAID_CONFIG);
    const http_settings broken = {.service = &f->base, .chat_template = "{% if %}"};
    assert_int_equal(http_server_new(&broken, &s, &error), BRAID_FORMAT);
    const http_settings six = {.service = &f->base, .host = "::1"};
    if (http_server_new(&six, &s, &error) == BRAID_OK) {  // where the machine has IPv6
        assert_non_null(strstr(http_server_address(s), "http://[::1]:"));
        http_server_free(s);
    }
    http_keys k;
    static const char good[] = "# comment\nalice s3cret concurrent=2 per-minute=60\nbob other\n";
    assert_int_equal(http_keys_parse(good, sizeof good - 1, "keys", &k, &error), BRAID_OK);
    assert_int_equal(k.count, 2);
    assert_int_equal(k.at[0].per_minute, 60);
    assert_string_equal(k.at[1].secret, "other");
    http_keys_free(&k);
    static const char *const wrong[] = {"alice\n", "a b concurrent=x\n", "a b\nc b\n", "", "a b c=1\n"};
    for (int i = 0; i < 5; i++)
        assert_int_equal(http_keys_parse(wrong[i], strlen(wrong[i]), "keys", &k, &error), BRAID_CONFIG);
    service_free(&f->base);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_state),
                                       cmocka_unit_test(test_completions),
                                       cmocka_unit_test(test_likelihood),
                                       cmocka_unit_test(test_chat),
                                       cmocka_unit_test(test_stream),
                                       cmocka_unit_test(test_mistakes),
                                       cmocka_unit_test(test_queue),
                                       cmocka_unit_test(test_body_limit),
                                       cmocka_unit_test(test_keys),
                                       cmocka_unit_test(test_origins),
                                       cmocka_unit_test(test_clients_that_leave),
                                       cmocka_unit_test(test_descriptors),
                                       cmocka_unit_test(test_close_at_done),
                                       cmocka_unit_test(test_embeddings),
                                       cmocka_unit_test(test_keep_alive),
                                       cmocka_unit_test(test_slow_reader),
                                       cmocka_unit_test(test_constraint),
                                       cmocka_unit_test(test_tools),
                                       cmocka_unit_test(test_tokenize),
                                       cmocka_unit_test(test_settings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
