#include "port.h"

#include <string.h>

static uint64_t box_elements(const wafer_port_box *box) {
  return (uint64_t)box->shape[0] * box->shape[1] * box->shape[2] * box->shape[3];
}

static uint64_t box_words(const wafer_port_box *box, size_t element) {
  return (box_elements(box) * element + 3) / 4;
}

uint64_t port_words(const wafer_port_use *port, size_t element) {
  uint64_t words = 0;
  for (uint32_t i = 0; i < port->box_count; i++) words += box_words(&port->boxes[i], element);
  return words;
}

/* Calls for each element of a box, in order, with its index in the tensor. */
#define EACH(box, index)                                                                           \
  for (uint32_t i0 = 0; i0 < (box)->shape[0]; i0++)                                                \
    for (uint32_t i1 = 0; i1 < (box)->shape[1]; i1++)                                              \
      for (uint32_t i2 = 0; i2 < (box)->shape[2]; i2++)                                            \
        for (int64_t i3 = 0, index = (box)->first + i0 * (box)->stride[0] +                        \
                                     i1 * (box)->stride[1] + i2 * (box)->stride[2];                \
             i3 < (box)->shape[3]; i3++, index += (box)->stride[3])

void port_pack(const wafer_port_use *port, size_t element, const void *tensor, uint32_t *words) {
  for (uint32_t i = 0; i < port->box_count; i++) {
    const wafer_port_box *box = &port->boxes[i];
    uint64_t count = box_words(box, element);
    char *to = (char *)words;
    if (count) words[count - 1] = 0;
    EACH(box, index) {
      memcpy(to, (const char *)tensor + (size_t)index * element, element);
      to += element;
    }
    words += count;
  }
}

void port_unpack(const wafer_port_use *port, size_t element, const uint32_t *words, void *tensor) {
  for (uint32_t i = 0; i < port->box_count; i++) {
    const wafer_port_box *box = &port->boxes[i];
    const char *from = (const char *)words;
    EACH(box, index) {
      memcpy((char *)tensor + (size_t)index * element, from, element);
      from += element;
    }
    words += box_words(box, element);
  }
}

static void convert(wafer_dtype from_type, const void *from, wafer_dtype to_type, void *to,
                    size_t count) {
  if (from_type == to_type) {
    memcpy(to, from, count * wafer_dtype_bytes(to_type));
    return;
  }
  for (size_t i = 0; i < count; i++)
    wafer_element_set_f64(to_type, to, (int64_t)i, wafer_element_f64(from_type, from, (int64_t)i));
}

void port_narrow(wafer_dtype dtype, wafer_dtype stored, const void *from, void *to, size_t count) {
  convert(dtype, from, stored, to, count);
}

void port_widen(wafer_dtype dtype, wafer_dtype stored, const void *from, void *to, size_t count) {
  convert(stored, from, dtype, to, count);
}
