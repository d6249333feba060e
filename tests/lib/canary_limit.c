// Must fail: it computes without end, so run_limited must stop it (CMakeLists.txt, WILL_FAIL).
int main(void) {
    for (volatile unsigned count = 0;; count++) {
    }
}
