// braid plot: a picture of a run.
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/plot_data.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char examples[] = "braid up RUN.yaml --events run.jsonl && braid plot run.jsonl\n"
                               "braid plot run.jsonl --out run.png --time\n"
                               "braid train --solo RUN.yaml --json | braid plot - --out run.svg\n";

enum { MOST_PATH = 4096 };

extern char **environ;

static bool ends_with(const char *path, const char *ending) {
    size_t length = strlen(path), tail = strlen(ending);
    return length > tail && strcmp(path + length - tail, ending) == 0;
}

static braid_err write_svg(const plot_data *d, const char *path, braid_error *error) {
    FILE *out = fopen(path, "we");
    if (!out) return braid_fail(error, BRAID_IO, "cannot write %s: %s", path, strerror(errno));
    plot_svg(d, out);
    bool lost = ferror(out) != 0;
    lost = fclose(out) != 0 || lost;
    return lost ? braid_fail(error, BRAID_IO, "cannot write %s: %s", path, strerror(errno)) : BRAID_OK;
}

// Converts by rsvg-convert, a program that may be missing.
static braid_err convert(const char *svg, const char *png, braid_error *error) {
    char program[] = "rsvg-convert", zoom[] = "--zoom=2", output[] = "--output";
    char *arguments[] = {program, zoom, output, (char *)(uintptr_t)png, (char *)(uintptr_t)svg, NULL};
    pid_t child;
    int status = 0;
    if (posix_spawnp(&child, program, NULL, NULL, arguments, environ) != 0)
        return braid_fail(
            error, BRAID_NOT_FOUND,
            "a PNG needs the program rsvg-convert (package librsvg2-bin); install it, or name a file.svg");
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0
               ? BRAID_OK
               : braid_fail(error, BRAID_IO, "rsvg-convert could not write %s", png);
}

static braid_err write_png(const plot_data *d, const char *path, braid_error *error) {
    char svg[] = "/tmp/braid-plot-XXXXXX";
    int file = mkstemp(svg);
    if (file < 0) return braid_fail(error, BRAID_IO, "cannot write into /tmp: %s", strerror(errno));
    close(file);
    braid_err err = write_svg(d, svg, error);
    if (!err) err = convert(svg, path, error);
    unlink(svg);
    return err;
}

// "run.jsonl" becomes "run.svg".
static braid_err default_path(const char *events, char path[MOST_PATH], braid_error *error) {
    size_t length = strlen(events);
    if (ends_with(events, ".jsonl")) length -= strlen(".jsonl");
    bool fits = snprintf(path, MOST_PATH, "%.*s.svg", (int)length, strcmp(events, "-") == 0 ? "run" : events) <
                MOST_PATH;
    return fits ? BRAID_OK : braid_fail(error, BRAID_LIMIT, "the path is too long; give a shorter one by --out");
}

static braid_err plot(const char *events, const char *out, plot_axis axis, braid_error *error) {
    static plot_data data;  // large, one per process
    char own[MOST_PATH];
    bool piped = strcmp(events, "-") == 0;
    braid_err err = out ? BRAID_OK : default_path(events, own, error);
    if (err) return err;
    if (!out) out = own;
    FILE *in = piped ? stdin : fopen(events, "re");
    if (!in) return braid_fail(error, BRAID_IO, "cannot open %s: %s; give a file of --events", events, strerror(errno));
    err = plot_data_read(in, piped ? "the input" : events, axis, &data, error);
    if (!piped) fclose(in);
    if (!err) err = ends_with(out, ".png") ? write_png(&data, out, error) : write_svg(&data, out, error);
    if (!err) {
        fprintf(stderr, "%s: %llu iterations\n", out, (unsigned long long)data.loss.count);
        if (data.other_lines > 0)
            fprintf(stderr, "%llu of %llu lines are no events and were left out\n",
                    (unsigned long long)data.other_lines, (unsigned long long)data.lines);
    }
    plot_data_free(&data);
    return err;
}

int cli_plot(int argc, char **argv) {
    const char *out = NULL;
    bool time = false;
    option table[] = {
        {"out", OPTION_TEXT, &out, .unit = "FILE",
         .help = "the picture: FILE.svg, or FILE.png where rsvg-convert is installed",
         .fallback = "the name of the events with .svg"},
        {"time", OPTION_SWITCH, &time, .help = "draw over seconds instead of iterations"},
    };
    options o = {.verb = "plot",
                 .arguments = "EVENTS.jsonl",
                 .summary = "Draws the loss, the speed, the peers and the events of a run; - reads standard input.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table,
                 .min_given = 1,
                 .max_given = 1};
    int code = CLI_OK;
    braid_error error;
    if (!options_parse(&o, argc, argv, &code)) return code;
    if (plot(o.given[0], out, time ? PLOT_TIME : PLOT_ITERATIONS, &error))
        code = cli_complain(CLI_FAILED, "plot", "%s", error.text);
    options_close(&o);
    return code;
}
