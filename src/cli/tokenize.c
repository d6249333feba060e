// braid tokenize: the ids of texts, and new tokenizers.
#include "cli/cli.h"
#include "cli/options.h"
#include "text/tokenizer.h"
#include "text/train.h"
#include "weights/model_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char examples[] = "braid tokenize models/SmolLM2-135M --ids README.md\n"
                               "echo 'How are you?' | braid tokenize tokenizer.json --ids --no-special\n"
                               "braid tokenize --train book.txt --vocab 8192 --out my-tokenizer\n";

typedef struct tokenize_flags {
    bool ids, whole, special, train;
    uint64_t vocabulary;
    const char *out;
} tokenize_flags;

static char *put_number(char *at, uint32_t n) {
    char digits[10];
    int count = 0;
    do digits[count++] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    while (count > 0) *at++ = digits[--count];
    return at;
}

static void print_ids(const tokenizer_ids *ids) {
    char block[4096], *at = block;
    for (size_t i = 0; i < ids->count; i++) {
        if (i > 0) *at++ = ' ';
        at = put_number(at, ids->at[i]);
        if (at - block < (long)sizeof block - 16) continue;
        fwrite(block, 1, (size_t)(at - block), stdout);
        at = block;
    }
    *at++ = '\n';
    fwrite(block, 1, (size_t)(at - block), stdout);
}

static braid_err one_text(tokenizer_encoder *e, const char *text, size_t length, bool special, tokenizer_ids *ids,
                          braid_error *error) {
    ids->count = 0;
    unsigned flags = TOKENIZER_PARSE_SPECIAL | (special ? TOKENIZER_ADD_SPECIAL : 0);
    braid_err err = tokenizer_encode(e, text, length, flags, ids, error);
    if (!err) print_ids(ids);
    return err;
}

// Reads the rest of the file as one text.
static braid_err read_whole(FILE *file, char **text, size_t *length, braid_error *error) {
    size_t capacity = 0;
    *length = 0;
    do {
        if (*length + 1 >= capacity) {
            capacity = capacity ? capacity * 2 : 1 << 16;
            char *more = realloc(*text, capacity);
            if (!more) return braid_fail(error, BRAID_MEMORY, "no memory for the text");
            *text = more;
        }
        *length += fread(*text + *length, 1, capacity - *length, file);
        if (*length > TOKENIZER_MAX_INPUT_BYTES)
            return braid_fail(error, BRAID_LIMIT, "the text is too long for --whole");
    } while (!feof(file) && !ferror(file));
    return BRAID_OK;
}

static braid_err print_file(tokenizer_encoder *e, FILE *file, const tokenize_flags *flags, braid_error *error) {
    tokenizer_ids ids = {0};
    char *text = NULL;
    size_t length = 0, capacity = 0;
    braid_err err = BRAID_OK;
    if (flags->whole) {
        err = read_whole(file, &text, &length, error);
        if (!err) err = one_text(e, text, length, flags->special, &ids, error);
    }
    for (ssize_t n; !flags->whole && !err && (n = getline(&text, &capacity, file)) >= 0 && !ferror(stdout);) {
        length = (size_t)n - (n > 0 && text[n - 1] == '\n');
        err = one_text(e, text, length, flags->special, &ids, error);
    }
    if (!err && ferror(file)) err = braid_fail(error, BRAID_IO, "the text cannot be read: %s", strerror(errno));
    free(text);
    tokenizer_ids_free(&ids);
    return err;
}

// A GGUF file is opened as a model; of a directory only the tokenizer is read.
static braid_err open_tokenizer(const char *path, tokenizer **out, braid_error *error) {
    size_t length = strlen(path);
    model_file *f = NULL;
    if (length < 5 || strcmp(path + length - 5, ".gguf") != 0) return tokenizer_open(path, out, error);
    braid_err err = model_file_open(path, &f, error);
    if (!err) err = model_file_tokenizer(f, out, error);
    model_file_close(f);
    return err;
}

static int print(const char *model, const char *path, const tokenize_flags *flags) {
    braid_error error = {0};
    tokenizer *t = NULL;
    braid_err err = open_tokenizer(model, &t, &error);
    if (err) return cli_complain(CLI_FAILED, "tokenize", "%s", error.text);
    FILE *file = path ? fopen(path, "rb") : stdin;
    tokenizer_encoder *e = tokenizer_encoder_new(t);
    if (!file)
        err = braid_fail(&error, BRAID_IO, "cannot open %s: %s", path, strerror(errno));
    else if (!e)
        err = braid_fail(&error, BRAID_MEMORY, "no memory for the tokenizer");
    else
        err = print_file(e, file, flags, &error);
    if (path && file) fclose(file);
    tokenizer_encoder_free(e);
    tokenizer_free(t);
    return err ? cli_complain(CLI_FAILED, "tokenize", "%s", error.text) : CLI_OK;
}

static int train(const options *o, const tokenize_flags *flags) {
    braid_error error = {0};
    tokenizer_training result;
    if (!flags->out) return cli_complain(CLI_USAGE, "tokenize", "--train needs --out DIR");
    if (!cli_can_fill("tokenize", "out", flags->out)) return CLI_USAGE;
    braid_err err = tokenizer_train(o->given, o->given_count, (uint32_t)flags->vocabulary, flags->out, &result, &error);
    if (err) return cli_complain(CLI_FAILED, "tokenize", "%s", error.text);
    fprintf(stderr, "%s/tokenizer.json: %u tokens, %.2f bytes each in the text it was trained on\n", flags->out,
            (unsigned)result.tokens, result.bytes_a_token);
    return CLI_OK;
}

int cli_tokenize(int argc, char **argv) {
    tokenize_flags flags = {.special = true, .vocabulary = 8192};
    option table[] = {
        {"ids", OPTION_SWITCH, &flags.ids, .help = "print the ids of each line, separated by spaces"},
        {"whole", OPTION_SWITCH, &flags.whole, .help = "print the ids of the whole file as one text, on one line"},
        {"special", OPTION_SWITCH, &flags.special,
         .help = "add the special tokens at the start and end of a text; --no-special: add none", .fallback = "yes"},
        {"train", OPTION_SWITCH, &flags.train, .help = "train a byte-level BPE on the given texts"},
        {"vocab", OPTION_COUNT, &flags.vocabulary, .help = "tokens of the new tokenizer", .min = 257,
         .max = TOKENIZER_TRAIN_MAX_TOKENS},
        {"out", OPTION_TEXT, &flags.out, .unit = "DIR", .help = "directory for the new tokenizer.json"},
    };
    options o = {.verb = "tokenize",
                 .arguments = "MODEL [FILE] | --train TEXT...",
                 .summary = "Prints the token ids of a text, or trains a tokenizer.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table,
                 .min_given = 1,
                 .max_given = OPTIONS_MAX_GIVEN};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    if (flags.train)
        code = train(&o, &flags);
    else if (!flags.ids)
        code = cli_complain(CLI_USAGE, "tokenize", "nothing to do; give --ids to print token ids, or --train");
    else if (o.given_count > 2)
        code = cli_complain(CLI_USAGE, "tokenize", "expected one MODEL and at most one FILE");
    else
        code = print(o.given[0], o.given_count > 1 ? o.given[1] : NULL, &flags);
    options_close(&o);
    return code;
}
