// unit_model_split at every boundary, with sizes of several tiles and a long vocabulary.
#define ALL_CASES
#include "../unit/model_split.c"
