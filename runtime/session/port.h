/* What crosses the wafer's border, between tensors of the host and wavelets. Private to the
 * runtime. */
#ifndef RUNTIME_PORT_H
#define RUNTIME_PORT_H

#include "wafer/launch.h"
#include "wafer/tensor.h"

/* Wavelets of all the port's boxes, of elements of so many bytes. */
uint64_t port_words(const wafer_port_use *port, size_t element);
/* Elements of a dense tensor, as cores store them, in the port's order; and back. The last wavelet
 * of a box is filled up with zeros. */
void port_pack(const wafer_port_use *port, size_t element, const void *tensor, uint32_t *words);
void port_unpack(const wafer_port_use *port, size_t element, const uint32_t *words, void *tensor);

/* A dense tensor between the type the model gives it and how cores store it. */
void port_narrow(wafer_dtype dtype, wafer_dtype stored, const void *from, void *to, size_t count);
void port_widen(wafer_dtype dtype, wafer_dtype stored, const void *from, void *to, size_t count);

#endif
