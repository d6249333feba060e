// Prints the tensors of a model for tools/check-weights: for each one a line "NAME TYPE ROWS COLS
// TRANSPOSED", then its values as fp32 (model_file_values). The first line is the number of
// tensors.
//     dump-weights MODEL
#include "weights/model_file.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    braid_error error = {0};
    model_file *f;
    if (argc != 2) return 2;
    if (model_file_open(argv[1], &f, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    printf("%u\n", model_file_count(f));
    for (uint32_t i = 0; i < model_file_count(f); i++) {
        const model_file_tensor *t = model_file_at(f, i);
        size_t count = t->weights.rows * t->weights.cols;
        float *values = malloc(count * sizeof *values);
        if (!values) return 1;
        model_file_values(t, values);
        printf("%s %s %zu %zu %d\n", t->name, weight_type_name(t->weights.type), t->weights.rows, t->weights.cols,
               t->transposed);
        fwrite(values, sizeof *values, count, stdout);
        free(values);
    }
    model_file_close(f);
    return fflush(stdout) != 0;
}
