/* Threads of the host that wait for work to share. What is made with them does not depend on how
 * many they are. */
#ifndef WAFER_WORKERS_H
#define WAFER_WORKERS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wafer_workers wafer_workers;

/* As many as the host has, the caller among them, and no more than `most`. NULL when out of memory
 * or threads. */
wafer_workers *wafer_workers_create(uint32_t most);
void wafer_workers_destroy(wafer_workers *workers); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
