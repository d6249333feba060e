#define _GNU_SOURCE  // pipe2
#include "node/stop.h"

#include "node/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    _Atomic uint64_t first_ns;  // when the first request came, 0: none
    _Atomic int signal;         // ... and its signal
    atomic_bool again;          // a second request came
    atomic_bool save;
    // Set before the first handler is installed.
    bool supervised;
    unsigned limit_s;
    int pipe[2];
    char late[256], ended[128];  // the messages of SIGALRM
} stop = {.pipe = {-1, -1}};

static void say(const char *text) {
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;  // a closed standard error leaves no way to report
}

static void on_alarm(int number) {
    (void)number;
    say(atomic_load(&stop.again) ? stop.ended : stop.late);
    _exit(1);
}

static void wake(void) {
    ssize_t written = write(stop.pipe[1], "", 1);
    (void)written;  // a full pipe wakes the reader as well
}

static void request(int number) {
    uint64_t now = clock_now_ns(), none = 0;
    if (atomic_compare_exchange_strong(&stop.first_ns, &none, now)) {
        atomic_store(&stop.signal, number);
        if (!stop.supervised) alarm(stop.limit_s);
    } else if (!stop.supervised && now >= none + STOP_AGAIN_MS * UINT64_C(1000000) && !atomic_exchange(&stop.again, true)) {
        alarm(STOP_AT_ONCE_S);
    }
}

static void on_signal(int number) {
    int kept = errno;
    if (number == SIGUSR1) atomic_store(&stop.save, true);
    else request(number);
    wake();
    errno = kept;
}

static bool handle(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    return sigaction(number, &action, NULL) == 0;
}

static bool is_ignored(int number) {
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

braid_err stop_watch(const stop_config *config, braid_error *error) {
    uint64_t within_s = (config->within_ns + 999999999) / 1000000000;
    stop.supervised = config->supervised;
    stop.limit_s = (unsigned)(within_s < INT32_MAX ? within_s : INT32_MAX) + STOP_GRACE_S;
    snprintf(stop.late, sizeof stop.late, "braid: %s: did not end within %llu s (--stop-within), so it ends now; resume from the newest complete checkpoint\n", config->verb,
             (unsigned long long)within_s);
    snprintf(stop.ended, sizeof stop.ended, "braid: %s: a second request, so it ends at once\n", config->verb);
    if (pipe2(stop.pipe, O_CLOEXEC | O_NONBLOCK) != 0) return braid_fail(error, BRAID_STATE, "cannot watch for signals: %s", strerror(errno));
    void (*parent_decides)(int) = config->supervised ? SIG_IGN : on_signal;
    bool good = handle(SIGALRM, on_alarm) && handle(SIGTERM, on_signal) && handle(SIGINT, parent_decides) && handle(SIGUSR1, parent_decides);
    if (good && !is_ignored(SIGHUP)) good = handle(SIGHUP, parent_decides);
    return good ? BRAID_OK : braid_fail(error, BRAID_STATE, "cannot watch for signals: %s", strerror(errno));
}

static void end_now(int number) { _exit(128 + number); }

void stop_watch_as_first(void) {
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    if (getpid() != 1) return;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (!is_ignored(ends[i])) handle(ends[i], end_now);
}

void stop_limit(void) { alarm(stop.limit_s); }

int stop_requested(void) {
    if (atomic_load(&stop.first_ns) == 0) return 0;
    int number = atomic_load(&stop.signal);
    return number ? number : SIGTERM;  // the handler is between its two stores
}

const char *stop_signal_name(int number) {
    return number == SIGINT ? "SIGINT" : number == SIGHUP ? "SIGHUP" : number == SIGUSR1 ? "SIGUSR1" : "SIGTERM";
}

bool stop_at_once(void) { return atomic_load(&stop.again); }

bool stop_take_save(void) { return atomic_exchange(&stop.save, false); }

uint64_t stop_finish_ns(uint64_t within_ns) {
    uint64_t most = STOP_FINISH_MS * UINT64_C(1000000);
    return within_ns / 4 < most ? within_ns / 4 : most;
}

int stop_descriptor(void) { return stop.pipe[0]; }

void stop_clear(void) {
    char bytes[64];
    while (read(stop.pipe[0], bytes, sizeof bytes) > 0) {
    }
}
