// Planted: state between two calls in thread-local storage.
unsigned purity_thread(void);

unsigned purity_thread(void) {
    static _Thread_local unsigned purity_calls = 1;
    return ++purity_calls;
}
