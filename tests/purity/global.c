// Planted: a pure room that keeps state between two calls.
unsigned purity_global(void);

unsigned purity_global(void) {
    static unsigned purity_calls;
    return ++purity_calls;
}
