/* The host's share of a line: what crosses the border. */
#include "exchange_line.h"

static fragment_span trunk_of(const fragment_span *span) {
  return (fragment_span){span->first + span->count / 2, 1};
}

void line_ports(const line *l, const line_place *place, const line_core *host, bool out,
                uint8_t color, fragment *f) {
  const line_ops *ops = &host->list[out ? LINE_TAKE_BACK : LINE_SEND];
  int32_t bytes = (int32_t)wafer_dtype_bytes(l->dtype);
  for (uint32_t s = 0; s < place->span_count && ops->count; s++) {
    fragment_span rows = place->trunks ? trunk_of(&place->spans[s]) : place->spans[s];
    for (uint32_t y = rows.first; y < rows.first + rows.count; y++) {
      wafer_port_box *boxes = WAFER_NEW(f->arena, wafer_port_box, ops->count);
      f->failed |= !boxes;
      if (!boxes) return;
      for (uint32_t i = 0; i < ops->count; i++) {
        const line_box *box = ops->at[i];
        wafer_port_box *to = &boxes[i];
        *to = (wafer_port_box){.shape = {1, 1, 1, 1}};
        to->first =
            place->border->base[y - place->border->first] + (out ? box->dst : box->src) / bytes;
        for (uint32_t k = 0; k < box->levels; k++) {
          to->shape[WAFER_LEVELS - box->levels + k] = box->shape[k];
          to->stride[WAFER_LEVELS - box->levels + k] =
              (out ? box->dst_stride[k] : box->src_stride[k]) / bytes;
        }
      }
      fragment_port(f, &(wafer_port_use){.value = place->border->value,
                                         .y = y,
                                         .side = WAFER_PORT_west,
                                         .color = color,
                                         .out = out,
                                         .every = 1,
                                         .box_count = ops->count,
                                         .boxes = boxes});
    }
  }
}
