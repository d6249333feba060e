#!/usr/bin/env bash
# One would guess: _tile_loadconfig(&config) reads the 64 bytes of the tile configuration, so the
# compiler stores all of them before the instruction.
#
# What happens: GCC 12.2 (Debian 12) tells its optimizer that only the first 8 bytes are read. From
# -O1 on, a configuration that is filled in a local variable arrives without its rows and column
# widths: the stores to them are removed as dead. Without a warning, the tiles then have the size 0,
# and the next tile instruction faults. At -O0, or with the configuration in memory that other code
# may read, all is well. An empty `asm volatile("" ::: "memory")` before the call keeps the stores.
#
# Why it matters: the intrinsics guide's own pattern is a local struct. Matrix kernels for AMX that
# are right with other compilers stop with SIGILL when a distribution builds them with its GCC 12.
set -euo pipefail

VERSION=12.2.0-14+deb12u1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
[ "$(dpkg --print-architecture)" = amd64 ] || { echo "this needs the amd64 packages" >&2; exit 77; }
apt-get -qq -o APT::Sandbox::User=root download "cpp-12=$VERSION" "libgcc-12-dev=$VERSION" libisl23 libmpc3 libmpfr6 libgmp10 libzstd1 zlib1g
for package in *.deb; do dpkg-deb -x "$package" root; done
compiler=root/usr/lib/gcc/x86_64-linux-gnu/12
export LD_LIBRARY_PATH=$work/root/usr/lib/x86_64-linux-gnu:$work/root/lib/x86_64-linux-gnu

cat >configure.c <<'EOF'
#include <amxtileintrin.h>

struct tiles {
    unsigned char palette, start_row, reserved[14];
    unsigned short bytes_of_a_row[16];
    unsigned char rows[16];
};

void configure(void) {
    struct tiles tiles = {.palette = 1};
    for (int i = 0; i < 8; i++) tiles.bytes_of_a_row[i] = 64, tiles.rows[i] = 16;
#ifdef BARRIER
    __asm__ volatile("" ::: "memory");
#endif
    _tile_loadconfig(&tiles);
}
EOF
# amxtileintrin.h may only be included by immintrin.h, which defines this
compile() { "$compiler/cc1" -quiet -D_IMMINTRIN_H_INCLUDED -mamx-tile -I "$compiler/include" "$@" configure.c -o out.s; }
# bytes of the configuration that are written before the instruction
stores() { grep -cE '^\s+mov[a-z]*\s+.*\(%r[sb]p\)$' out.s || true; }

"$compiler/cc1" -version /dev/null -o /dev/null >version.txt 2>&1
grep -m 1 version version.txt
compile -O1
[ "$(stores)" -le 2 ] || { echo "changed: at -O1 the stores are there"; exit 1; }
compile -O2
lean=$(stores)
grep -vE '^\s*\.' out.s
compile -O2 -DBARRIER
kept=$(stores)
echo "stores to the configuration at -O2: $lean, and $kept with a compiler barrier before the call"
[ "$lean" -le 2 ] || { echo "changed: the stores are there"; exit 1; }
[ "$kept" -ge 4 ] || { echo "changed: the barrier does not keep the stores"; exit 1; }
