// Everything that is permitted in a pure room: arithmetic, plain memory, constants (with addresses too), errors of base.
#include "base/err.h"

#include <math.h>
#include <string.h>

double purity_clean(double *values, size_t count, const char **name);

double purity_clean(double *values, size_t count, const char **name) {
    static const char *const names[] = {"none", "some"};
    BRAID_ASSERT(values != NULL);
    *name = names[count > 0];
    memset(values, 0, count * sizeof *values);
    return sqrt((double)strlen(*name));
}
