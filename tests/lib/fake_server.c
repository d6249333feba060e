// The HTTP server over a fake service, for tests with real clients: fake_server REPLY [KEY]. Prints
// its address and ends with its standard input.
#include "fake_service.h"

#include "http/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char chatml[] = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                             "{% if tools %}{{ tools | tojson }}<tool_call>{% endif %}{% if add_generation_prompt "
                             "%}<|im_start|>assistant\n{% endif %}";

int main(int argc, char **argv) {
    fake_service *f = fake_service_new(argc > 1 ? argv[1] : "Hello from the fake model.", chatml);
    const http_key key = {.secret = argc > 2 ? argv[2] : "", .label = "test"};
    const char *slow = getenv("FAKE_STEP_MS");
    const http_settings settings = {.service = &f->base,
                                    .page = true,
                                    .keys = &key,
                                    .key_count = argc > 2 ? 1 : 0,
                                    .certificate = getenv("FAKE_CERTIFICATE"),
                                    .private_key = getenv("FAKE_KEY")};
    http_server *s;
    braid_error error = {0};
    char byte;
    f->step_us = slow ? (unsigned)atoi(slow) * 1000 : 0;
    if (http_server_new(&settings, &s, &error) != BRAID_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    printf("%s\n", http_server_address(s));
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0) continue;
    http_server_free(s);
    service_free(&f->base);
    return 0;
}
