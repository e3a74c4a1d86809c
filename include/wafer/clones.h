/* One build runs well everywhere: loops marked so exist for AVX-512, AVX2 and the base set, and the
 * loader picks. Sanitizers cannot run in the loader, so they get the base set alone. */
#ifndef WAFER_CLONES_H
#define WAFER_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WAFER_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define WAFER_HAS_CLONES 1
#else
#define WAFER_CLONES
#define WAFER_HAS_CLONES 0
#endif

#endif
